//! What programs say to prove who they are: `Authorization`, and cookies.

use super::Kind;
use super::names::Name;
use super::scan::{Found, Scanner};
use super::tokens::Class;
use super::value::{has_digit, is_basic, is_bearer, is_placeholder, is_reference};

/// So much of a header is looked at, to tell whether it has a value.
const LONGEST_LOOK: usize = 256;

impl Scanner<'_> {
    /// `Bearer …` and `Basic …`, however they are written.
    pub(super) fn authorization(&mut self, at: usize) -> Option<Found> {
        let (bearer, basic) = (self.begins_anyhow(at, "bearer"), self.begins_anyhow(at, "basic"));
        if !(bearer || basic) {
            return None;
        }
        let behind = at + if bearer { 6 } else { 5 };
        let rest = self.bytes.get(behind..)?;
        let gap = rest
            .iter()
            .take(8)
            .take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b':' | b'\\' | b'"' | b'\''));
        let gap = &rest[..gap.count()];
        // Behind a blank a header has its value; behind anything else that is less sure.
        let is_plain = gap.iter().all(|byte| matches!(byte, b' ' | b'\t'));
        if gap.is_empty() || !gap.iter().any(u8::is_ascii_whitespace) && !gap.starts_with(b":") {
            return None;
        }
        let from = behind + gap.len();
        let to = self.run_end(if bearer { Class::Credential } else { Class::Base64 }, 0, from);
        let value = self.text.get(from..to).filter(|value| value.len() >= 12)?;
        let is_one = match bearer {
            true => is_bearer(value, is_plain && self.begins(at, "Bearer")) && (is_plain || has_digit(value)),
            false => {
                is_plain
                    && is_basic(
                        value,
                        self.before(at, 24).to_ascii_lowercase().windows(13).any(|w| w == b"authorization"),
                    )
            }
        };
        is_one.then_some(Found { from, to, kind: Kind::Authorization })
    }

    /// What is behind `Authorization:` with any other word before it, or with none.
    pub(super) fn header(&mut self, behind: usize) -> Option<Found> {
        let begin = behind + self.blanks(behind);
        let begin = self.quote(begin).map_or(begin, |(_, inside)| inside);
        let line = self.line(begin, LONGEST_LOOK);
        let word = line.bytes().take(24).take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'-').count();
        let gap = self.blanks(begin + word);
        let scheme = if gap > 0 { line[..word].to_ascii_lowercase() } else { String::new() };
        if ["bearer", "basic"].contains(&scheme.as_str()) {
            return None;
        }
        let from = if scheme.is_empty() { begin } else { begin + word + gap };
        // These have several values, with commas between.
        if ["digest", "oauth", "aws4-hmac-sha256"].contains(&scheme.as_str()) {
            let is_there = self.line(from, LONGEST_LOOK).contains('=');
            return is_there.then(|| Found { from, to: self.header_end(from), kind: Kind::Authorization });
        }
        let extent = self.extent(from, self.quote_before(begin));
        let value = self.text.get(extent.from..extent.to)?;
        let is_one = value.len() >= 8 && has_digit(value) && !is_reference(value, self.line(extent.from, LONGEST_LOOK));
        let tells = self.bytes[extent.from.min(self.bytes.len() - 1)].is_ascii_alphanumeric();
        if !is_one || tells && self.standing(extent.from).is_some_and(|found| found.to >= extent.to) {
            return None;
        }
        Some(Found { from: extent.from, to: self.all_of(extent), kind: Kind::Authorization })
    }

    /// All that is behind `Cookie:` or `Set-Cookie:`.
    pub(super) fn cookies(&mut self, name: Name, behind: usize) -> Option<Found> {
        let begin = behind + self.blanks(behind);
        let own = self.quote(begin);
        let from = own.map_or(begin, |(_, inside)| inside);
        let around = if name.quoted { None } else { self.quote_before(name.from) };
        let first = self.line(from, LONGEST_LOOK);
        let value_of = |pair: &str| pair.split_once('=').map(|(_, value)| value.trim().to_owned());
        let is_name = |name: &str| !name.is_empty() && !name.contains(' ');
        let begins = first.split_once('=').is_some_and(|(name, value)| is_name(name) && !value.starts_with('='));
        if !begins || first.split(';').filter_map(value_of).all(|value| is_placeholder(&value)) {
            return None;
        }
        let to = match own.map(|(quote, _)| quote).or(around) {
            Some(quote) => self.closing(from, quote, usize::MAX).unwrap_or_else(|stopped| stopped),
            None => self.header_end(from),
        };
        Some(Found { from, to, kind: Kind::Authorization })
    }

    /// The end of a header is the end of its line, or the quotation mark before that.
    fn header_end(&self, from: usize) -> usize {
        let rest = &self.bytes[from..];
        let line = &rest[..rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())];
        from + line.trim_ascii_end().len()
    }
}
