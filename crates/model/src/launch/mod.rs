//! How an MCP server is reached: a command to start, or a URL to dial. Checked here once for whoever writes it (manifests,
//! the API, other programs' configuration); started and dialled elsewhere.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

mod check;
mod typed;
pub use check::{LaunchError, LaunchField, LaunchReason, RawLaunch};

use crate::hash::{ContentHash, Hasher};
use crate::id::text_serde;
use crate::placeholder::Template;

/// How Kitbag speaks with a server.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ServerType {
    /// Over the pipes of a process that Kitbag starts.
    Stdio,
    /// Over the two HTTP endpoints of the oldest protocol.
    Sse,
    /// Over one HTTP endpoint.
    StreamableHttp,
}

impl ServerType {
    /// Every type there is.
    pub const ALL: [Self; 3] = [Self::Stdio, Self::Sse, Self::StreamableHttp];

    /// As it is written in manifests, the API and the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Sse => "sse",
            Self::StreamableHttp => "streamable-http",
        }
    }
}

impl fmt::Display for ServerType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that names no type of server.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("unknown server type; the types are stdio, sse and streamable-http (or http)")]
pub struct UnknownServerType;

impl FromStr for ServerType {
    type Err = UnknownServerType;

    fn from_str(text: &str) -> Result<Self, UnknownServerType> {
        match text {
            "http" | "streamableHttp" => Ok(Self::StreamableHttp),
            _ => Self::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or(UnknownServerType),
        }
    }
}

text_serde!(ServerType);

/// How a server is reached. Made by [`RawLaunch::check`].
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Launch {
    /// A process to start. No shell is involved: the arguments arrive as they are.
    Stdio {
        /// The program: a name to look up, or a path.
        command: String,
        /// Its arguments.
        args: Vec<Template>,
        /// The folder it is started in.
        cwd: Option<Template>,
        /// What its environment has besides the usual.
        env: BTreeMap<String, Template>,
    },
    /// An endpoint to dial.
    Remote {
        /// In which way.
        kind: RemoteKind,
        /// Where.
        url: Template,
        /// What every request carries.
        headers: BTreeMap<String, Template>,
    },
}

/// The ways to speak with a server over HTTP.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RemoteKind {
    /// See [`ServerType::Sse`].
    Sse,
    /// See [`ServerType::StreamableHttp`].
    StreamableHttp,
}

impl From<&Launch> for RawLaunch {
    /// As somebody would write it.
    fn from(launch: &Launch) -> Self {
        let texts = |values: &BTreeMap<String, Template>| {
            values.iter().map(|(name, value)| (name.clone(), value.to_string())).collect()
        };
        let server_type = Some(launch.server_type().to_string());
        match launch {
            Launch::Stdio { command, args, cwd, env } => Self {
                server_type,
                command: Some(command.clone()),
                args: args.iter().map(Template::to_string).collect(),
                cwd: cwd.as_ref().map(Template::to_string),
                env: texts(env),
                ..Self::default()
            },
            Launch::Remote { url, headers, .. } => {
                Self { server_type, url: Some(url.to_string()), headers: texts(headers), ..Self::default() }
            }
        }
    }
}

impl Launch {
    /// Its type.
    pub fn server_type(&self) -> ServerType {
        match self {
            Self::Stdio { .. } => ServerType::Stdio,
            Self::Remote { kind: RemoteKind::Sse, .. } => ServerType::Sse,
            Self::Remote { kind: RemoteKind::StreamableHttp, .. } => ServerType::StreamableHttp,
        }
    }

    /// Every text that may refer to variables.
    pub fn templates(&self) -> Vec<&Template> {
        match self {
            Self::Stdio { args, cwd, env, .. } => args.iter().chain(cwd).chain(env.values()).collect(),
            Self::Remote { url, headers, .. } => [url].into_iter().chain(headers.values()).collect(),
        }
    }

    /// The hash that trust is bound to. Whatever changes what runs or where it connects changes it, the values of
    /// variables that are written out included: `LD_PRELOAD` alone decides what a program does.
    pub fn fingerprint(&self) -> ContentHash {
        let mut hasher = Hasher::default();
        // Each text goes in with its length, so that no two lists of texts run together into the same bytes.
        let mut text = |text: &str| {
            hasher.update(&(text.len() as u64).to_be_bytes());
            hasher.update(text.as_bytes());
        };
        text("kitbag launch 1");
        text(self.server_type().as_str());
        match self {
            Self::Stdio { command, args, cwd, env } => {
                text(command);
                text(&args.len().to_string());
                args.iter().for_each(|arg| text(arg.as_str()));
                text(if cwd.is_some() { "in" } else { "anywhere" });
                text(cwd.as_ref().map_or("", Template::as_str));
                env.iter().for_each(|(name, value)| {
                    text(name);
                    text(value.as_str());
                });
            }
            Self::Remote { url, headers, .. } => {
                text(url.as_str());
                headers.iter().for_each(|(name, value)| {
                    text(name);
                    text(value.as_str());
                });
            }
        }
        hasher.finish()
    }

    /// What a person reads before saying yes: the command as a shell would take it, or the URL.
    pub fn command_line(&self) -> String {
        match self {
            Self::Stdio { command, args, .. } => {
                let words: Vec<String> =
                    [command.as_str()].into_iter().chain(args.iter().map(Template::as_str)).map(quoted).collect();
                words.join(" ")
            }
            Self::Remote { url, .. } => url.to_string(),
        }
    }
}

/// A word as a shell reads it. Characters that a terminal would not show become escapes: what is approved must be what
/// is seen.
fn quoted(word: &str) -> String {
    let hidden = |c: char| {
        c.is_control()
            || crate::text::is_direction(c)
            || (!c.is_ascii() && c.is_whitespace())
            || matches!(c, '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}' | '\u{ad}')
    };
    if word.chars().any(hidden) {
        let shown: String = word
            .chars()
            .map(|c| match c {
                '\'' | '\\' => format!("\\{c}"),
                '\n' => "\\n".to_owned(),
                '\t' => "\\t".to_owned(),
                c if hidden(c) && c.is_ascii() => format!("\\x{:02x}", u32::from(c)),
                c if hidden(c) => format!("\\U{:08x}", u32::from(c)),
                c => c.to_string(),
            })
            .collect();
        return format!("$'{shown}'");
    }
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_@%+=:,./-".contains(&b);
    if !word.is_empty() && word.bytes().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stdio(command: &str, args: &[&str]) -> Launch {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        RawLaunch { command: Some(command.to_owned()), args, ..RawLaunch::default() }.check().unwrap()
    }

    #[test]
    fn a_changed_launch_has_another_fingerprint() {
        let raw = |change: &dyn Fn(&mut RawLaunch)| {
            let mut raw = RawLaunch { command: Some("npx".to_owned()), ..RawLaunch::default() };
            change(&mut raw);
            raw.check().unwrap().fingerprint()
        };
        let list = |items: &[&str]| items.iter().map(|item| (*item).to_owned()).collect::<Vec<_>>();
        let map = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
        let remote = |url: &str, kind: &str, headers: BTreeMap<String, String>| {
            let (url, server_type) = (Some(url.to_owned()), Some(kind.to_owned()));
            RawLaunch { url, server_type, headers, ..RawLaunch::default() }.check().unwrap().fingerprint()
        };
        let all = [
            raw(&|_| ()),
            raw(&|raw| raw.command = Some("npy".to_owned())),
            raw(&|raw| raw.args = list(&["-y", "x"])),
            raw(&|raw| raw.args = list(&["-yx"])),
            raw(&|raw| raw.args = list(&["-y", "x", ""])),
            raw(&|raw| raw.args = list(&["A", "1"])),
            raw(&|raw| raw.cwd = Some("/a".to_owned())),
            raw(&|raw| raw.env = map("A", "1")),
            raw(&|raw| raw.env = map("A", "2")),
            raw(&|raw| raw.env = map("A1", "")),
            remote("https://a.example/mcp", "http", BTreeMap::new()),
            remote("https://a.example/mcp", "sse", BTreeMap::new()),
            remote("https://b.example/mcp", "http", BTreeMap::new()),
            remote("https://a.example/mcp", "http", map("X-A", "1")),
        ];
        let mut different = all.to_vec();
        different.sort();
        different.dedup();
        assert_eq!(different.len(), all.len());
        assert_eq!(
            raw(&|raw| raw.server_type = Some("stdio".to_owned())),
            all[0],
            "how the type was said changes nothing"
        );
        // People's trust hangs on these: the way the bytes are put together must not change by accident.
        assert_eq!(
            stdio("npx", &["-y", "pkg"]).fingerprint().to_string(),
            "50989f97918ff9295dba7250eed667f1dde29eb377a6f1ad333c8bc692d482a2"
        );
    }

    #[test]
    fn command_lines() {
        for (command, args, line) in [
            ("npx", &["-y", "@scope/pkg@1.0"][..], "npx -y @scope/pkg@1.0"),
            ("sh", &["-c", "curl x | sh"], "sh -c 'curl x | sh'"),
            ("a b", &["", "it's", "${A}"], "'a b' '' 'it'\\''s' '${A}'"),
            (
                "x",
                &["a\nb", "\u{1b}[2K'\\", "\u{202e}gpj", "zero\u{200b}width"],
                "x $'a\\nb' $'\\x1b[2K\\'\\\\' $'\\U0000202egpj' $'zero\\U0000200bwidth'",
            ),
            ("x", &["ü", "世界"], "x 'ü' '世界'"),
        ] {
            assert_eq!(stdio(command, args).command_line(), line);
        }
        let url = RawLaunch { url: Some("https://a.example/${ENV:P}".to_owned()), ..RawLaunch::default() };
        assert_eq!(url.check().unwrap().command_line(), "https://a.example/${ENV:P}");
    }

    #[test]
    fn types() {
        for (text, kind) in
            [("stdio", "stdio"), ("sse", "sse"), ("streamable-http", "streamable-http"), ("http", "streamable-http")]
        {
            assert_eq!(text.parse::<ServerType>().map(ServerType::as_str), Ok(kind));
        }
        for bad in ["", "ws", "STDIO", "https"] {
            assert_eq!(bad.parse::<ServerType>(), Err(UnknownServerType), "{bad}");
        }
    }
}
