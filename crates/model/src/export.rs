//! A toolset as it may leave: no literal value of a variable or a header, and nothing else that looks like a secret.

use std::collections::BTreeMap;

use crate::launch::{Launch, LaunchField};
use crate::placeholder::{Template, is_strict_placeholder, is_variable};
use crate::redaction::{is_token, names_a_secret};
use crate::toolset::{Definition, McpServer};

/// Puts a placeholder in place of every literal in environments and headers. Which arguments and addresses look like a
/// secret too: those cannot be replaced, since nobody knows which part of them it is. They are named, not shown.
pub fn without_secrets(mut definition: Definition) -> (Definition, Vec<String>) {
    let mut suspicious = Vec::new();
    for server in &mut definition.servers {
        match &mut server.launch {
            Launch::Stdio { env, .. } => replace_literals(env),
            Launch::Remote { headers, .. } => replace_literals(headers),
        }
        look(server, &mut suspicious);
    }
    for container in &mut definition.containers {
        replace_literals(&mut container.env);
        let words = secret_fields(&container.launch()).len();
        if words > 0 {
            suspicious.push(format!("a command of the container {}", container.id));
        }
    }
    (definition, suspicious)
}

/// The same as everybody may have it. Organisations that share a server take nothing but `${ENV:NAME}` for a variable or a header, so
/// that is what every value becomes: `Bearer ${TOKEN}` too, which `local` may write. One that is empty is left out.
pub fn for_everybody(definition: Definition) -> (Definition, Vec<String>) {
    let (mut definition, suspicious) = without_secrets(definition);
    for server in &mut definition.servers {
        forget_place(&mut server.launch);
        let (Launch::Stdio { env: values, .. } | Launch::Remote { headers: values, .. }) = &mut server.launch;
        in_strict_form(values);
    }
    definition.containers.iter_mut().for_each(|container| in_strict_form(&mut container.env));
    (definition, suspicious)
}

/// Every value as a strict placeholder; one that is empty is left out.
fn in_strict_form(values: &mut BTreeMap<String, Template>) {
    values.retain(|_, value| !value.as_str().is_empty());
    for (name, value) in values.iter_mut().filter(|(_, value)| !is_strict_placeholder(value.as_str())) {
        let wanted = value.names().next().filter(|_| value.is_whole()).unwrap_or(name);
        *value = strict_placeholder_for(wanted);
    }
}

/// A folder of the publisher's machine is nobody else's, and tells of it.
fn forget_place(launch: &mut Launch) {
    if let Launch::Stdio { cwd, .. } = launch
        && cwd.as_ref().is_some_and(|cwd| cwd.as_str().starts_with(['/', '~']))
    {
        *cwd = None;
    }
}

/// `${ENV:NAME}` for something of this name.
fn strict_placeholder_for(name: &str) -> Template {
    let plain: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).take(120).collect();
    let variable = if is_variable(&plain) { plain } else { format!("V_{plain}") };
    format!("${{ENV:{variable}}}").parse().unwrap_or_else(|_| Template::literal(""))
}

fn replace_literals(values: &mut BTreeMap<String, Template>) {
    for (name, value) in values.iter_mut().filter(|(_, value)| !may_leave(value)) {
        *value = placeholder_for(name);
    }
}

/// What may stand before a reference in a header.
const SCHEMES: [&str; 7] = ["Bearer ", "bearer ", "Basic ", "Token ", "token ", "Bot ", "ApiKey "];

/// Whether the value of a variable or a header says nothing but where the value comes from: references, a scheme before one,
/// or a path or an address around them that has no password in it.
fn may_leave(value: &Template) -> bool {
    if value.as_literal().is_some() {
        return value.as_str().is_empty();
    }
    let text = written(value);
    let is_address = text.starts_with(['/', '.', '~', VARIABLE]) || text.contains("://");
    let scheme = text.split(VARIABLE).next().unwrap_or_default();
    let is_credential = SCHEMES.contains(&scheme) && is_blank(&text[scheme.len()..]);
    is_blank(&text) || is_credential || (is_address && !looks_like_a_secret(&text))
}

/// `${NAME}` for a variable or a header of this name.
fn placeholder_for(name: &str) -> Template {
    let plain: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
    let variable = if is_variable(name) {
        name.to_owned()
    } else if is_variable(&plain) {
        plain
    } else {
        format!("V_{plain}")
    };
    format!("${{{variable}}}").parse().unwrap_or_else(|_| Template::literal(""))
}

/// Stands for the value of a variable while a text is looked at: it is part of no word.
const VARIABLE: char = '\0';

/// A text with nothing in place of its variables.
fn written(template: &Template) -> String {
    template.resolve(|_| Some(VARIABLE.to_string())).unwrap_or_default()
}

fn look(server: &McpServer, suspicious: &mut Vec<String>) {
    let told = secret_fields(&server.launch).into_iter().map(|field| match field {
        LaunchField::Command => "the command".to_owned(),
        LaunchField::Args(Some(index)) => format!("argument {}", index + 1),
        LaunchField::Url => "the URL".to_owned(),
        other => other.to_string(),
    });
    suspicious.extend(told.map(|what| format!("{what} of the server {}", server.id)));
}

/// Where a secret seems to be written out, beside environment and headers: in the command, an argument, the folder or the URL.
pub fn secret_fields(launch: &Launch) -> Vec<LaunchField> {
    let mut found = Vec::new();
    let is_secret = |template: &Template| looks_like_a_secret(&written(template));
    match launch {
        Launch::Stdio { command, args, cwd, .. } => {
            if looks_like_a_secret(command) {
                found.push(LaunchField::Command);
            }
            found.extend(secret_args(args).into_iter().map(|index| LaunchField::Args(Some(index))));
            if cwd.as_ref().is_some_and(is_secret) {
                found.push(LaunchField::Cwd);
            }
        }
        Launch::Remote { url, .. } if is_secret(url) => found.push(LaunchField::Url),
        Launch::Remote { .. } => {}
    }
    found
}

/// How a server is reached, for people who may use it but not manage it: what looks like a secret is not shown.
pub fn masked(server: &McpServer) -> Launch {
    let hidden = || Template::literal("***");
    let mut launch = server.launch.clone();
    match &mut launch {
        Launch::Stdio { args, cwd, .. } => {
            for index in secret_args(args) {
                args[index] = hidden();
            }
            if cwd.as_ref().is_some_and(|cwd| looks_like_a_secret(&written(cwd))) {
                *cwd = Some(hidden());
            }
        }
        Launch::Remote { url, .. } if looks_like_a_secret(&written(url)) => *url = hidden(),
        Launch::Remote { .. } => {}
    }
    launch
}

/// Which arguments look like a secret, by themselves or by the name before them: `--api-key VALUE`.
fn secret_args(args: &[Template]) -> Vec<usize> {
    let texts: Vec<String> = args.iter().map(written).collect();
    let names = |text: &str| text.starts_with('-') && !text.contains('=') && names_a_secret(text);
    let is_secret = |index: &usize| {
        let text = &texts[*index];
        let is_named = *index > 0 && names(&texts[index - 1]);
        looks_like_a_secret(text) || (is_named && !text.starts_with('-') && !is_blank(text))
    };
    (0..texts.len()).filter(is_secret).collect()
}

/// Whether nothing is written there but references.
fn is_blank(text: &str) -> bool {
    text.chars().all(|c| c == VARIABLE || c.is_whitespace())
}

/// Whether a text, or a part of it, looks like something that only one person should know.
pub fn looks_like_a_secret(text: &str) -> bool {
    let separators = |c: char| {
        c.is_whitespace() || matches!(c, VARIABLE | '=' | ':' | '/' | '?' | '&' | ',' | ';' | '"' | '\'' | '@')
    };
    let assigned = |(name, value): (&str, &str)| names_a_secret(name) && !is_blank(value);
    text.split(['?', '&', ' ', ';']).filter_map(|part| part.split_once('=')).any(assigned)
        || text.to_ascii_lowercase().split_once("bearer ").is_some_and(|(_, value)| !is_blank(value))
        || has_password(text)
        || text.split(separators).any(|word| is_token(word) || looks_random(word))
}

/// `scheme://user:password@host`.
fn has_password(text: &str) -> bool {
    text.split("://").skip(1).any(|rest| {
        let authority = rest.split(['/', ' ', '?']).next().unwrap_or_default();
        let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
        user.split_once(':').is_some_and(|(_, password)| !is_blank(password))
    })
}

/// Long, and of letters in both cases and digits without order.
fn looks_random(word: &str) -> bool {
    let good = word.len() >= 32 && word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+'));
    let count = |kind: fn(&char) -> bool| word.chars().filter(kind).count();
    good && count(char::is_ascii_digit) >= 4
        && count(char::is_ascii_uppercase) >= 4
        && count(char::is_ascii_lowercase) >= 4
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::RawLaunch;

    fn server(launch: RawLaunch) -> McpServer {
        McpServer {
            id: "srv".parse().unwrap(),
            launch: launch.check().unwrap(),
            enabled: true,
            requires_confirmation: None,
            description: None,
        }
    }

    #[test]
    fn what_looks_like_a_secret() {
        for text in [
            "--token=abc",
            "--api-key=abc",
            "Authorization: Bearer x",
            "sk-ant-api03-abcdefghijkl",
            "ghp_0123456789abcdef",
            "https://x.example/sse?api_key=1",
            "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY",
            "PGPASSWORD=hunter2",
            "postgresql://app:hunter2pw@db.example/x",
        ] {
            assert!(looks_like_a_secret(text), "{text}");
        }
        for text in [
            "-y",
            "@modelcontextprotocol/server-everything@2026.7.4",
            "https://mcp.example.org/v1/sse?tenant=7",
            "--allowed-directories=/home/me/some/really/long/path/with/many/parts",
            "sk-",
            "01890a5d-ac96-774b-bcce-b302099a8057",
            "0123456789abcdef0123456789abcdef01234567",
            "--token-limit=5",
            "postgresql://app@db.example/x",
            "postgresql://app:@db.example/x",
            "Bearer ",
        ] {
            assert!(!looks_like_a_secret(text), "{text}");
        }
    }

    #[test]
    fn everybody_takes_what_is_published() {
        let env: BTreeMap<String, String> = [
            ("A", "literal"),
            ("B", "${ENV:MINE}"),
            ("C", "Bearer ${T}"),
            ("D", "${plain}"),
            ("E", ""),
            ("F", "${HOME}/data"),
            ("g-h", "x"),
            ("1st", "x"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        let remote = server(RawLaunch {
            url: Some("https://a.example/mcp".into()),
            headers: env.clone(),
            ..RawLaunch::default()
        });
        let definition = Definition {
            id: "app".parse().unwrap(),
            name: "App".parse().unwrap(),
            version: "1.0.0".parse().unwrap(),
            description: None,
            tools: Vec::new(),
            overrides: Vec::new(),
            servers: vec![remote],
            containers: Vec::new(),
            skills: Vec::new(),
            python: crate::PythonNeeds::default(),
            permissions: crate::Permissions::default(),
        };
        let (published, suspicious) = for_everybody(definition);
        assert!(suspicious.is_empty());
        let Launch::Remote { headers, .. } = &published.servers[0].launch else { panic!("it is remote") };
        let shown: Vec<_> = headers.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(
            shown,
            [
                "1st=${ENV:V_1ST}",
                "A=${ENV:A}",
                "B=${ENV:MINE}",
                "C=${ENV:C}",
                "D=${ENV:PLAIN}",
                "F=${ENV:F}",
                "g-h=${ENV:G_H}"
            ]
        );
        assert!(headers.values().all(|value| is_strict_placeholder(value.as_str())));
    }

    #[test]
    fn literals_become_placeholders() {
        let env = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let mut stdio = server(RawLaunch {
            command: Some("npx".into()),
            args: vec!["--password".into(), "x".into(), "--key".into(), "${KEY}".into()],
            env: env(&[
                ("A", "literal"),
                ("B", "${ENV:MINE}"),
                ("C", "x-${D}"),
                ("E", "Bearer ${T}"),
                ("F", "Bearer hunter${T}"),
                ("G", "postgres://u:hunter@${H}/x"),
                ("H", "postgres://u:${P}@${H}/x"),
                ("I", "${HOME}/data"),
            ]),
            ..RawLaunch::default()
        });
        let mut found = Vec::new();
        look(&stdio, &mut found);
        assert_eq!(found, ["argument 2 of the server srv"]);
        let Launch::Stdio { env: values, .. } = &mut stdio.launch else { panic!("it is stdio") };
        replace_literals(values);
        let shown: Vec<_> = values.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(
            shown,
            [
                "A=${A}",
                "B=${ENV:MINE}",
                "C=${C}",
                "E=Bearer ${T}",
                "F=${F}",
                "G=${G}",
                "H=postgres://u:${P}@${H}/x",
                "I=${HOME}/data"
            ]
        );
        assert_eq!(placeholder_for("X-Api-Key").as_str(), "${X_API_KEY}");
        assert_eq!(placeholder_for("1st").as_str(), "${V_1ST}");
    }
}
