//! What a launch must fulfil. Everything that is wrong is told at once, with the part it is about, so that a reader of a
//! manifest can point at it; and no message repeats a value, which may be a secret.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use url::Url;

use super::{Launch, RemoteKind, ServerType, UnknownServerType};
use crate::placeholder::{PlaceholderError, Template};

/// Which part of a launch an error is about.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum LaunchField {
    /// The server as a whole.
    Server,
    /// The type.
    Type,
    /// The program.
    Command,
    /// One argument, counted from 0; or the list, if none.
    Args(Option<usize>),
    /// The folder.
    Cwd,
    /// One variable; or all, if none.
    Env(Option<String>),
    /// The URL.
    Url,
    /// One header; or all, if none.
    Headers(Option<String>),
}

impl fmt::Display for LaunchField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server => f.write_str("server"),
            Self::Type => f.write_str("type"),
            Self::Command => f.write_str("command"),
            Self::Args(None) => f.write_str("args"),
            Self::Args(Some(index)) => write!(f, "args[{index}]"),
            Self::Cwd => f.write_str("cwd"),
            Self::Env(None) => f.write_str("env"),
            Self::Env(Some(name)) => write!(f, "env.{name}"),
            Self::Url => f.write_str("url"),
            Self::Headers(None) => f.write_str("headers"),
            Self::Headers(Some(name)) => write!(f, "headers.{name}"),
        }
    }
}

/// What is wrong with a part of a launch. No variant holds a value: values may be secrets.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum LaunchReason {
    /// Neither a command nor a URL.
    #[error("needs a command (to start) or a url (to dial)")]
    Neither,
    /// Both.
    #[error("has both a command and a url; a server is either started or dialled")]
    Both,
    /// A key that the type has no use for.
    #[error("is not for {0} servers")]
    NotFor(ServerType),
    /// A key that the type cannot do without.
    #[error("is required for {0} servers")]
    Required(ServerType),
    /// The type is unknown.
    #[error(transparent)]
    Type(#[from] UnknownServerType),
    /// Empty or too long.
    #[error("must have {least} to {most} {of}")]
    Size {
        /// At least.
        least: usize,
        /// At most.
        most: usize,
        /// What is counted.
        of: &'static str,
    },
    /// A NUL, a line break.
    #[error("must not have line breaks or other control characters")]
    Control,
    /// A NUL.
    #[error("must not have a NUL")]
    Nul,
    /// A reference in the one place that resolves none.
    #[error("cannot refer to variables; put them into args, env or cwd")]
    NoPlaceholders,
    /// A reference that is not one.
    #[error(transparent)]
    Placeholder(#[from] PlaceholderError),
    /// Not the name of a variable.
    #[error(
        "is not the name of a variable: it must have 1 to 200 characters, no \"=\", no space and no control characters"
    )]
    VariableName,
    /// Not the name of a header.
    #[error("is not the name of a header: it must have 1 to 120 letters, digits or characters of !#$%&'*+-.^_`|~")]
    HeaderName,
    /// A header that belongs to the connection.
    #[error("is set by the connection itself")]
    ReservedHeader,
    /// Two headers that differ in case alone are one.
    #[error("occurs twice, in different case")]
    Twice,
    /// Not a URL.
    #[error("is not a URL: it must begin with http:// or https:// and name a host, or be one ${{VAR}}")]
    NotUrl,
    /// A user name or password in the URL.
    #[error("must not have a user name or password; put them into headers, as ${{VAR}}")]
    UserInfo,
    /// A value where organisations that share one server must refer to a variable.
    #[error(
        "must be one reference to a variable and nothing else: ${{ENV:NAME}}, where NAME has 1 to 128 capital letters, digits or \
         underscores"
    )]
    NotStrict,
    /// What looks like a secret, where organisations that share one server must refer to a variable.
    #[error("looks like a secret; write ${{ENV:NAME}} in its place")]
    LooksSecret,
    /// A secret in the URL.
    #[error("must not hold a secret in the query parameter \"{parameter}\"; write {parameter}=${{VAR}}")]
    SecretInQuery {
        /// The parameter.
        parameter: String,
    },
}

impl LaunchReason {
    /// Whether it is about what a reference to a variable is for: one that is none, or a value where only one may be.
    pub fn is_of_placeholders(&self) -> bool {
        matches!(
            self,
            Self::Placeholder(_)
                | Self::NoPlaceholders
                | Self::NotStrict
                | Self::LooksSecret
                | Self::UserInfo
                | Self::SecretInQuery { .. }
        )
    }
}

/// What is wrong with a launch.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{field} {reason}")]
pub struct LaunchError {
    /// Where.
    pub field: LaunchField,
    /// What.
    pub reason: LaunchReason,
}

/// A launch as people write it, not checked yet.
#[derive(Clone, Debug, Default, Eq, PartialEq, Deserialize)]
#[serde(default)]
pub struct RawLaunch {
    /// The type; absent: from the command or the URL.
    pub server_type: Option<String>,
    /// The program.
    pub command: Option<String>,
    /// Its arguments.
    pub args: Vec<String>,
    /// The folder it is started in.
    pub cwd: Option<String>,
    /// What its environment has besides the usual.
    pub env: BTreeMap<String, String>,
    /// Where to dial.
    pub url: Option<String>,
    /// What every request carries.
    pub headers: BTreeMap<String, String>,
}

impl RawLaunch {
    /// The launch, or everything that is wrong with it.
    pub fn check(self) -> Result<Launch, Vec<LaunchError>> {
        let mut checker = Checker::default();
        let launch = checker.launch(self);
        match launch {
            Some(launch) if checker.0.is_empty() => Ok(launch),
            _ => Err(checker.0),
        }
    }
}

/// The most arguments, variables or headers.
const MOST_ITEMS: usize = 200;
/// The longest command, argument, folder or URL, in bytes.
const LONGEST: usize = 4096;
/// The longest value of a variable, in bytes. Certificates and keys are passed that way.
const LONGEST_VARIABLE: usize = 32 * 1024;
/// The longest value of a header, in bytes; servers commonly refuse longer ones.
const LONGEST_HEADER: usize = 8 * 1024;
/// Headers that HTTP itself sets. One from outside could end a request early and smuggle in another.
const CONNECTION_HEADERS: [&str; 8] =
    ["connection", "content-length", "expect", "host", "te", "trailer", "transfer-encoding", "upgrade"];

#[derive(Default)]
struct Checker(Vec<LaunchError>);

impl Checker {
    fn wrong(&mut self, field: LaunchField, reason: impl Into<LaunchReason>) {
        self.0.push(LaunchError { field, reason: reason.into() });
    }

    fn launch(&mut self, raw: RawLaunch) -> Option<Launch> {
        let said = raw.server_type.as_deref().map(str::parse::<ServerType>);
        let server_type = match (said, &raw.command, &raw.url) {
            (Some(Err(error)), ..) => {
                self.wrong(LaunchField::Type, error);
                return None;
            }
            (_, Some(_), Some(_)) => {
                self.wrong(LaunchField::Server, LaunchReason::Both);
                return None;
            }
            (Some(Ok(server_type)), ..) => server_type,
            (None, Some(_), None) => ServerType::Stdio,
            (None, None, Some(_)) => ServerType::StreamableHttp,
            (None, None, None) => {
                self.wrong(LaunchField::Server, LaunchReason::Neither);
                return None;
            }
        };
        let not_for = LaunchReason::NotFor(server_type);
        let required = LaunchReason::Required(server_type);
        match server_type {
            ServerType::Stdio => {
                if raw.url.is_some() {
                    self.wrong(LaunchField::Url, not_for.clone());
                }
                if !raw.headers.is_empty() {
                    self.wrong(LaunchField::Headers(None), not_for);
                }
                let Some(command) = raw.command else {
                    self.wrong(LaunchField::Command, required);
                    return None;
                };
                self.command(&command);
                let args = self.args(raw.args);
                let cwd = raw.cwd.and_then(|cwd| self.line(LaunchField::Cwd, &cwd, 1, LONGEST));
                Some(Launch::Stdio { command, args, cwd, env: self.env(raw.env) })
            }
            ServerType::Sse | ServerType::StreamableHttp => {
                for (there, field) in [
                    (raw.command.is_some(), LaunchField::Command),
                    (!raw.args.is_empty(), LaunchField::Args(None)),
                    (raw.cwd.is_some(), LaunchField::Cwd),
                    (!raw.env.is_empty(), LaunchField::Env(None)),
                ] {
                    if there {
                        self.wrong(field, not_for.clone());
                    }
                }
                let kind = if server_type == ServerType::Sse { RemoteKind::Sse } else { RemoteKind::StreamableHttp };
                let headers = self.headers(raw.headers);
                let Some(url) = raw.url else {
                    self.wrong(LaunchField::Url, required);
                    return None;
                };
                Some(Launch::Remote { kind, url: self.url(&url)?, headers })
            }
        }
    }

    fn size(&mut self, field: LaunchField, has: usize, least: usize, most: usize, of: &'static str) -> bool {
        let good = (least..=most).contains(&has);
        if !good {
            self.wrong(field, LaunchReason::Size { least, most, of });
        }
        good
    }

    fn command(&mut self, command: &str) {
        if !self.size(LaunchField::Command, command.trim().len(), 1, LONGEST, "bytes") {
        } else if command.chars().any(char::is_control) {
            self.wrong(LaunchField::Command, LaunchReason::Control);
        } else if command.contains("${") {
            self.wrong(LaunchField::Command, LaunchReason::NoPlaceholders);
        }
    }

    fn template(&mut self, field: LaunchField, text: &str, least: usize, most: usize) -> Option<Template> {
        if !self.size(field.clone(), text.len(), least, most, "bytes") {
            return None;
        }
        if text.contains('\0') {
            self.wrong(field, LaunchReason::Nul);
            return None;
        }
        text.parse().map_err(|error: PlaceholderError| self.wrong(field, error)).ok()
    }

    /// A template without line breaks.
    fn line(&mut self, field: LaunchField, text: &str, least: usize, most: usize) -> Option<Template> {
        if text.chars().any(|c| c.is_control() && c != '\t') {
            self.wrong(field, LaunchReason::Control);
            return None;
        }
        self.template(field, text, least, most)
    }

    fn args(&mut self, args: Vec<String>) -> Vec<Template> {
        if !self.size(LaunchField::Args(None), args.len(), 0, MOST_ITEMS, "items") {
            return Vec::new();
        }
        let arg = |(index, arg): (usize, &String)| self.template(LaunchField::Args(Some(index)), arg, 0, LONGEST);
        args.iter().enumerate().filter_map(arg).collect()
    }

    fn env(&mut self, env: BTreeMap<String, String>) -> BTreeMap<String, Template> {
        if !self.size(LaunchField::Env(None), env.len(), 0, MOST_ITEMS, "items") {
            return BTreeMap::new();
        }
        let mut checked = BTreeMap::new();
        for (name, value) in env {
            let field = LaunchField::Env(Some(name.clone()));
            let bad = |c: char| c == '=' || c.is_whitespace() || c.is_control();
            if !(1..=200).contains(&name.len()) || name.chars().any(bad) {
                self.wrong(field, LaunchReason::VariableName);
            } else if let Some(value) = self.template(field, &value, 0, LONGEST_VARIABLE) {
                checked.insert(name, value);
            }
        }
        checked
    }

    fn headers(&mut self, headers: BTreeMap<String, String>) -> BTreeMap<String, Template> {
        if !self.size(LaunchField::Headers(None), headers.len(), 0, MOST_ITEMS, "items") {
            return BTreeMap::new();
        }
        let mut checked: BTreeMap<String, Template> = BTreeMap::new();
        for (name, value) in headers {
            let field = LaunchField::Headers(Some(name.clone()));
            let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
            if !(1..=120).contains(&name.len()) || !name.bytes().all(token) {
                self.wrong(field, LaunchReason::HeaderName);
            } else if CONNECTION_HEADERS.iter().any(|header| header.eq_ignore_ascii_case(&name)) {
                self.wrong(field, LaunchReason::ReservedHeader);
            } else if checked.keys().any(|other| other.eq_ignore_ascii_case(&name)) {
                self.wrong(field, LaunchReason::Twice);
            } else if let Some(value) = self.line(field, &value, 0, LONGEST_HEADER) {
                checked.insert(name, value);
            }
        }
        checked
    }

    fn url(&mut self, text: &str) -> Option<Template> {
        let template = self.line(LaunchField::Url, text, 1, LONGEST)?;
        if template.is_whole() {
            return Some(template);
        }
        // Any value will do to see the parts; a digit is good in a host, a port and a path. A variable with a path
        // behind it is the beginning of an address.
        let mut in_front =
            text.starts_with("${") && text.split_once('}').is_some_and(|(_, rest)| rest.starts_with('/'));
        let value = |_: &str| Some(if std::mem::take(&mut in_front) { "http://1" } else { "1" }.to_owned());
        let Some(url) = template.resolve(value).ok().and_then(|text| Url::parse(&text).ok()) else {
            self.wrong(LaunchField::Url, LaunchReason::NotUrl);
            return None;
        };
        if !matches!(url.scheme(), "http" | "https") || url.host().is_none() || text.contains(char::is_whitespace) {
            self.wrong(LaunchField::Url, LaunchReason::NotUrl);
            return None;
        }
        if !url.username().is_empty() || url.password().is_some() {
            self.wrong(LaunchField::Url, LaunchReason::UserInfo);
            return None;
        }
        let query = text.split('#').next().and_then(|text| text.split_once('?')).map_or("", |(_, query)| query);
        for pair in query.split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let refers = value.parse::<Template>().is_ok_and(|value| value.is_whole());
            if is_secret_parameter(name) && !value.is_empty() && !refers {
                self.wrong(LaunchField::Url, LaunchReason::SecretInQuery { parameter: name.to_owned() });
                return None;
            }
        }
        Some(template)
    }
}

/// Whether a parameter of this name plainly holds a secret. URLs are shown, logged and exported.
fn is_secret_parameter(name: &str) -> bool {
    let plain: String = name.chars().filter(|c| !matches!(c, '-' | '_' | '.')).flat_map(char::to_lowercase).collect();
    let words =
        ["apikey", "accesskey", "secretkey", "token", "secret", "password", "passwd", "authorization", "signature"];
    words.iter().any(|word| plain.contains(word)) || matches!(plain.as_str(), "key" | "auth" | "pwd" | "sig")
}

#[cfg(test)]
mod tests;
