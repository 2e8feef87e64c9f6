//! The MCP servers that an engine gets: enabled ones, with the values of their variables, under names that nobody else has.

use std::collections::{BTreeMap, BTreeSet};

use kitbag_mcp::endpoint::Endpoint;
use kitbag_mcp::resolve::{Redactor, ResolveError, resolve};
use kitbag_model::placeholder::is_strict_placeholder;
use kitbag_model::run::wire::{ContainerSnapshot, ServerSnapshot};
use kitbag_model::{OrgId, RawLaunch, RemoteKind, ServerId};

use super::Variables;
use crate::Failure;

/// The server that the executor itself is.
pub const OWN_SERVER: &str = "kitbag";

/// How an engine reaches a server.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum How {
    /// It starts a process.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// The folder; the run's own, if absent.
        cwd: Option<String>,
        /// Its variables.
        env: BTreeMap<String, String>,
    },
    /// It dials.
    Remote {
        /// In which way.
        kind: RemoteKind,
        /// Where.
        url: String,
        /// What every request carries.
        headers: BTreeMap<String, String>,
    },
}

/// A server that is ready to be used.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Ready {
    /// Its name, which is part of its tools' names.
    pub name: String,
    /// How it is reached.
    pub how: How,
}

/// All of them, and what must not be told of them.
#[derive(Clone, Debug, Default)]
pub struct ReadyServers {
    /// The servers.
    pub servers: Vec<Ready>,
    masks: Vec<Redactor>,
}

impl ReadyServers {
    /// Makes those that are enabled ready. What is not is not looked at: its variables are nobody's business.
    pub fn new(servers: &[ServerSnapshot], org: &OrgId, variables: &Variables) -> Result<Self, Failure> {
        let enabled: Vec<&ServerSnapshot> = servers.iter().filter(|server| server.enabled).collect();
        let mut ready = Self::default();
        for server in &enabled {
            let (how, mask) = resolved(server, org, variables)?;
            ready.servers.push(Ready { name: server.id.clone(), how });
            ready.masks.push(mask);
        }
        let mut known = BTreeSet::new();
        for server in &enabled {
            check_name(&server.id)?;
            if !known.insert(server.id.as_str()) {
                return Err(Failure::new(
                    "MCP_SERVER_NAME_CONFLICT",
                    format_args!("two servers are called {:?}", server.id),
                ));
            }
        }
        Ok(ready)
    }

    /// The values of a container's variables, which must not be told either.
    pub fn values_of(
        &mut self,
        container: &ContainerSnapshot,
        org: &OrgId,
        variables: &Variables,
    ) -> Result<BTreeMap<String, String>, Failure> {
        let as_server = ServerSnapshot {
            id: container.id.to_string(),
            server_type: "stdio".to_owned(),
            enabled: true,
            command: Some("container".to_owned()),
            args: Vec::new(),
            cwd: None,
            env: container.env.clone(),
            url: None,
            headers: BTreeMap::new(),
        };
        let (how, mask) = resolved(&as_server, org, variables)?;
        self.masks.push(mask);
        match how {
            How::Stdio { env, .. } => Ok(env),
            How::Remote { .. } => Ok(BTreeMap::new()),
        }
    }

    /// One more: the executor itself, whose name nobody else can have.
    pub fn add_own(&mut self, how: How) {
        self.servers.push(Ready { name: OWN_SERVER.to_owned(), how });
    }

    /// Values that must not be told either.
    pub fn hide(&mut self, values: impl Iterator<Item = String>) {
        self.masks.push(Redactor::new(values.map(|value| (value, true))));
    }

    /// A text without the values that went into servers.
    pub fn masked(&self, text: &str) -> String {
        self.masks.iter().fold(text.to_owned(), |text, mask| mask.text(&text))
    }
}

fn check_name(name: &str) -> Result<(), Failure> {
    if name == OWN_SERVER {
        return Err(Failure::new("MCP_SERVER_NAME_RESERVED", format_args!("{name:?} is the executor's own server")));
    }
    let checked: Result<ServerId, _> = name.parse();
    checked.map(drop).map_err(|reason| Failure::new(format!("MCP_SERVER_INVALID:{name}"), reason))
}

fn resolved(server: &ServerSnapshot, org: &OrgId, variables: &Variables) -> Result<(How, Redactor), Failure> {
    let invalid = |reason: &dyn std::fmt::Display| Failure::new(format!("MCP_SERVER_INVALID:{}", server.id), reason);
    if *org != OrgId::local() {
        // The server refused it before; an executor does not take that on trust.
        let literal = server.env.iter().chain(&server.headers).find(|(_, value)| !is_strict_placeholder(value));
        if let Some((name, _)) = literal {
            let code = format!("INVALID_MCP_PLACEHOLDER:{name}");
            return Err(Failure::new(
                code,
                format_args!("{name} of the server {:?} must be ${{ENV:NAME}} and nothing else", server.id),
            ));
        }
    }
    let raw = RawLaunch {
        server_type: Some(server.server_type.clone()),
        command: server.command.clone(),
        args: server.args.clone(),
        cwd: server.cwd.clone(),
        env: server.env.clone(),
        url: server.url.clone(),
        headers: server.headers.clone(),
    };
    let launch = raw.check().map_err(|errors| {
        let reasons: Vec<String> = errors.iter().map(ToString::to_string).collect();
        invalid(&reasons.join("; "))
    })?;
    let resolved = resolve(&launch, None, |name| variables.get(name)).map_err(|error| match error {
        ResolveError::EnvNotSet(missing) => {
            Failure::new(format!("MCP_ENV_NOT_SET:{}", missing.name), variables.why_not(&missing.name))
        }
        other => invalid(&other),
    })?;
    let how = match resolved.endpoint {
        Endpoint::Stdio { command, args, cwd, env, .. } => How::Stdio {
            command,
            args,
            cwd: cwd.map(|cwd| cwd.to_string_lossy().into_owned()),
            env: env.into_iter().collect(),
        },
        Endpoint::Remote { kind, url, headers } => {
            How::Remote { kind, url: url.to_string(), headers: headers.into_iter().collect() }
        }
    };
    Ok((how, resolved.redactor))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(id: &str, env: &[(&str, &str)]) -> ServerSnapshot {
        ServerSnapshot {
            id: id.into(),
            server_type: "stdio".into(),
            enabled: true,
            command: Some("npx".into()),
            args: vec!["-y".into(), "a-server".into()],
            cwd: None,
            env: env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            url: None,
            headers: BTreeMap::new(),
        }
    }

    fn variables(allowed: &[&str]) -> Variables {
        let values = [("TOKEN", "s3cr3t-value"), ("BLANK", "  "), ("DATABASE_URL", "postgres://u:p@h/d")];
        let values = values.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Variables::new(values, allowed.iter().map(|name| (*name).to_owned()).collect())
    }

    fn acme() -> OrgId {
        "acme".parse().unwrap()
    }

    #[test]
    fn values_come_from_the_list_alone() {
        let servers = [server("github", &[("GITHUB_TOKEN", "${ENV:TOKEN}")])];
        let ready = ReadyServers::new(&servers, &acme(), &variables(&["TOK*"])).unwrap();
        let How::Stdio { env, .. } = &ready.servers[0].how else { panic!("it is started") };
        assert_eq!(env["GITHUB_TOKEN"], "s3cr3t-value");
        assert!(!ready.masked("it said s3cr3t-value").contains("s3cr3t"));
        for (value, allowed, code) in [
            ("${ENV:TOKEN}", vec![], "MCP_ENV_NOT_SET:TOKEN"),
            ("${ENV:DATABASE_URL}", vec!["TOKEN"], "MCP_ENV_NOT_SET:DATABASE_URL"),
            ("${ENV:BLANK}", vec!["BLANK"], "MCP_ENV_NOT_SET:BLANK"),
            ("${ENV:ABSENT}", vec!["ABSENT"], "MCP_ENV_NOT_SET:ABSENT"),
            ("${ENV:KITBAG_TOKEN}", vec!["*"], "MCP_ENV_NOT_SET:KITBAG_TOKEN"),
            ("literal", vec!["*"], "INVALID_MCP_PLACEHOLDER:KEY"),
            ("Bearer ${ENV:TOKEN}", vec!["*"], "INVALID_MCP_PLACEHOLDER:KEY"),
        ] {
            let failure =
                ReadyServers::new(&[server("one", &[("KEY", value)])], &acme(), &variables(&allowed)).unwrap_err();
            assert_eq!(failure.code, code);
            assert!(!failure.message.contains("literal") && !failure.message.contains("s3cr3t"), "{failure}");
        }
        // One person's own machine may keep values where they are.
        let own = ReadyServers::new(&[server("one", &[("KEY", "literal")])], &OrgId::local(), &variables(&[]));
        assert!(own.is_ok());
    }

    #[test]
    fn what_is_off_is_not_looked_at() {
        let mut off = server("kitbag", &[("KEY", "${ENV:ABSENT}")]);
        off.enabled = false;
        assert!(ReadyServers::new(&[off], &acme(), &variables(&[])).unwrap().servers.is_empty());
    }

    #[test]
    fn names_are_checked_after_values() {
        let mut broken = server("broken", &[]);
        broken.command = None;
        for (servers, code) in [
            (vec![server("kitbag", &[])], "MCP_SERVER_NAME_RESERVED"),
            (vec![server("one", &[]), server("one", &[])], "MCP_SERVER_NAME_CONFLICT"),
            (vec![server("No Name", &[])], "MCP_SERVER_INVALID:No Name"),
            (vec![broken], "MCP_SERVER_INVALID:broken"),
            (vec![server("kitbag", &[("KEY", "${ENV:ABSENT}")])], "MCP_ENV_NOT_SET:ABSENT"),
        ] {
            assert_eq!(ReadyServers::new(&servers, &acme(), &variables(&["TOKEN"])).unwrap_err().code, code);
        }
    }
}
