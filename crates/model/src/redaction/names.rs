//! What a name says of the value behind it, and where the name before a place begins.

use super::names_a_secret;
use super::scan::Scanner;

/// What a name says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Says {
    /// A password, which may be any word.
    Password,
    /// A secret that somebody may have chosen.
    Secret,
    /// A token or a key, which a program made.
    Token,
    /// A name and a password in base64, as registries of packages and images want it.
    Auth,
    /// `key`, which most are no secret.
    Key,
    /// `key` or a signature in the query of an address.
    Query,
    /// The header `Authorization`.
    Authorization,
    /// The header `Cookie` or `Set-Cookie`.
    Cookie,
}

/// A name before a place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name {
    pub(super) says: Says,
    pub(super) from: usize,
    /// Whether it is in quotes of its own.
    pub(super) quoted: bool,
}

/// So far back a name is looked for.
const LONGEST: usize = 64;

impl Says {
    /// Whether it is the name of a password, whose value may be any word.
    pub(super) fn password(name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        let ends = ["password", "passwd", "passphrase", "_pass", "-pass", "_pwd", "-pwd"];
        ends.iter().any(|end| name.ends_with(end)) || ["pass", "pwd"].contains(&name.as_str())
    }

    /// What a name says by itself.
    pub(super) fn of(name: &str) -> Option<Self> {
        let lower = name.to_ascii_lowercase();
        match () {
            () if Self::password(name) => Some(Self::Password),
            () if lower.ends_with("secret") => Some(Self::Secret),
            () if names_a_secret(name) => Some(Self::Token),
            () if matches!(lower.as_str(), "auth" | "_auth") => Some(Self::Auth),
            () if lower == "key" => Some(Self::Key),
            () if lower.ends_with("authorization") => Some(Self::Authorization),
            () if lower == "cookie" || lower.ends_with("-cookie") => Some(Self::Cookie),
            () => None,
        }
    }
}

impl Scanner<'_> {
    /// The name that ends before a place, with quotes, brackets and blanks between.
    pub(super) fn name_before(&self, at: usize) -> Option<Name> {
        let before = self.before(at, LONGEST + 8);
        let between = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'"' | b'\'' | b'`' | b'*' | b'\\' | b']');
        let end = before.len() - before.iter().rev().take(6).take_while(between).count();
        let quoted = before[end..].iter().any(|byte| matches!(byte, b'"' | b'\'' | b'`'));
        let (start, name) = last_name(&before[..end])?;
        let from = at - before.len() + start;
        let says = match Says::of(name) {
            Some(Says::Key) => self.key(from),
            Some(says) => says,
            None => self.other(name, from)?,
        };
        Some(Name { says, from, quoted })
    }

    /// `?key=…`, `the API key: …`, or any key.
    fn key(&self, from: usize) -> Says {
        let before = self.before(from, 16).to_ascii_lowercase();
        let kinds = ["api", "access", "secret", "account", "private", "signing", "encryption", "auth"];
        let said = before.strip_suffix(b" ").unwrap_or_default();
        match before.last() {
            Some(b'?' | b'&') => Says::Query,
            _ if kinds.iter().any(|kind| said.ends_with(kind.as_bytes())) => Says::Token,
            _ => Says::Key,
        }
    }

    fn other(&self, name: &str, from: usize) -> Option<Says> {
        let lower = name.to_ascii_lowercase();
        let in_query = matches!(self.before(from, 1), [b'?' | b'&' | b';']);
        if in_query && (lower == "sig" || lower.ends_with("signature")) {
            return Some(Says::Query);
        }
        // `name: API_KEY`, and `value: …` on the next line; `<add key="ApiKey" value="…"/>`.
        if lower != "value" {
            return None;
        }
        let before = self.before(from, LONGEST + 16);
        let between = |byte: &&u8| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b',' | b'\\');
        let end = before.len() - before.iter().rev().take(16).take_while(between).count();
        let (_, name) = last_name(&before[..end])?;
        Says::of(name).filter(|says| matches!(says, Says::Password | Says::Secret | Says::Token))
    }

    /// Whether nothing that counts is before a name on its line.
    pub(super) fn is_alone(&self, name: usize) -> bool {
        let before = self.before(name, 32);
        let line = before.iter().rposition(|byte| *byte == b'\n').map(|at| at + 1);
        let Some(line) = line.or_else(|| (before.len() == name).then_some(0)) else { return false };
        let line = before[line..].trim_ascii();
        let line = line.strip_suffix(b"export").or_else(|| line.strip_suffix(b"set")).unwrap_or(line);
        line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'-' | b'*' | b'>' | b'#' | b'$'))
    }

    /// Whether a program declares the name here.
    pub(super) fn is_declared(&self, name: usize) -> bool {
        let before = self.before(name, 8).trim_ascii_end();
        ["const", "let", "var", "val", "mut", "final", "def"].iter().any(|word| before.ends_with(word.as_bytes()))
    }
}

/// The last name in a text, and where it begins.
fn last_name(text: &[u8]) -> Option<(usize, &str)> {
    let is_name = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let start = text.len() - text.iter().rev().take(LONGEST).take_while(is_name).count();
    let name = std::str::from_utf8(&text[start..]).ok()?;
    (!name.is_empty()).then_some((start, name))
}
