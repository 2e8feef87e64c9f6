//! What stands before the `@` of an address: a password, or a token in place of a name.

use super::scan::{Found, Scanner};
use super::value::is_placeholder;
use super::{Kind, MARK};

impl Scanner<'_> {
    /// `user:password@` behind `://`.
    pub(super) fn address(&mut self, from: usize) -> Option<Found> {
        let rest = &self.bytes[from..];
        let authority = &rest[..rest.iter().position(|byte| ends(*byte) || is_path(*byte)).unwrap_or(rest.len())];
        let found = |from: usize, to: usize| Some(Found { from, to, kind: Kind::Password });
        let colon = authority.iter().position(|byte| *byte == b':');
        let Some(at) = authority.iter().rposition(|byte| *byte == b'@') else {
            let secret = self.with_path(from, authority.len(), colon?)?;
            return found(secret.0, secret.1);
        };
        let Some(colon) = colon.filter(|colon| *colon < at) else {
            // What tells itself is taken out as what it is.
            let is_one = is_random(&authority[..at]) && self.standing(from).is_none();
            return is_one.then(|| found(from, from + at))?;
        };
        if is_random(&authority[..colon]) {
            // A token in place of the name, with a word or nothing in place of the password.
            return found(from, from + at);
        }
        let value = self.text.get(from + colon + 1..from + at)?;
        (!is_placeholder(value)).then(|| found(from + colon + 1, from + at))?
    }

    /// A password that has a `/`, `?` or `#` in it, which should have been written otherwise. What could be a port is one.
    fn with_path(&mut self, from: usize, authority: usize, colon: usize) -> Option<(usize, usize)> {
        let begin = from + colon + 1;
        let first = &self.bytes[begin..from + authority];
        // Brackets are around a number of IPv6, which has colons of its own.
        if self.bytes[from] == b'[' || first.is_empty() || first.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let at = self.last_at(from).filter(|at| *at > begin)?;
        let value = self.text.get(begin..at)?;
        // Behind another `://` another address begins, and its `@` may be its own.
        let is_one = !value.contains("://") && !value.contains(MARK) && !is_placeholder(value);
        is_one.then_some((begin, at))
    }

    /// The last `@` before the next white space. Each stretch is walked once.
    fn last_at(&mut self, from: usize) -> Option<usize> {
        if !(self.address.0 <= from && from < self.address.1) {
            let rest = &self.bytes[from..];
            let to = rest.iter().position(|byte| ends(*byte)).unwrap_or(rest.len());
            let at = rest[..to].iter().rposition(|byte| *byte == b'@').map(|at| from + at);
            self.address = (from, from + to, at);
        }
        self.address.2
    }
}

fn ends(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b'<' | b'>' | b'`')
}

fn is_path(byte: u8) -> bool {
    matches!(byte, b'/' | b'?' | b'#')
}

/// Whether nobody is called like that.
fn is_random(name: &[u8]) -> bool {
    let has = |kind: fn(&u8) -> bool| name.iter().take(80).any(kind);
    let is_hex = name.len() >= 32 && name.iter().all(u8::is_ascii_hexdigit);
    let is_mixed = name.len() >= 20 && has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase);
    let is_plain = name.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    is_plain && has(u8::is_ascii_digit) && (is_hex || is_mixed)
}
