//! Values that are secrets because of what they are called: `password = …`, `"apiKey": "…"`, `--token …`, `<password>…`.

use super::Kind;
use super::extent::{Extent, LONGEST_LOOK};
use super::names::{Name, Says};
use super::scan::{Found, Scanner};
use super::value::{has_digit, is_code, is_reference, is_surely_one, is_value};

/// So much of a line is looked at, to tell what stands on it.
const LONGEST_LINE: usize = 200;

impl Scanner<'_> {
    /// What is behind a name and a sign such as `=`, which ends at `behind`.
    pub(super) fn named(&mut self, at: usize, behind: usize) -> Option<Found> {
        // Two of them stand between the parts of a path in a program.
        if self.begins(at, "::") || self.bytes[at] == b':' && self.before(at, 1) == b":" {
            return None;
        }
        let name = self.name_before(at)?;
        match name.says {
            Says::Authorization => return self.header(behind),
            Says::Cookie => return self.cookies(name, behind),
            _ => {}
        }
        if self.bytes[at] == b':'
            && let Some(block) = self.on_next_lines(name, behind)
        {
            return Some(block);
        }
        let signs = self.bytes.get(behind..)?.iter().take(8);
        let signs = signs.take_while(|byte| matches!(byte, b' ' | b'\t' | b'=' | b'>' | b'*')).count();
        let around = if name.quoted { None } else { self.quote_before(self.dashes_before(name.from)) };
        let extent = self.extent(behind + signs, around);
        let written_out = extent.quote.is_some() || self.bytes[at] != b':';
        let value = self.text.get(extent.from..extent.to)?;
        if !self.is_secret(extent, name.says) || !is_value(value, written_out, name.says) {
            return None;
        }
        let own = self.quote(behind + signs).is_some();
        if !own && is_code(self.line(extent.from, LONGEST_LINE), name.says, self.is_declared(name.from)) {
            return None;
        }
        let to = match extent.quote.is_none() && self.bytes[at] == b'=' && self.takes_its_line(name, at) {
            true => self.line_end(extent.from),
            false => self.all_of(extent),
        };
        Some(Found { from: extent.from, to, kind: Kind::Named })
    }

    /// Whether a value is none of those that only stand for one. What tells itself, up to its end, is taken out as what it is.
    fn is_secret(&mut self, extent: Extent, says: Says) -> bool {
        let Extent { from, to, .. } = extent;
        let Some(value) = self.text.get(from..to).filter(|value| !value.is_empty()) else { return false };
        // The walk finds the key itself, with the lines behind its first one.
        if value.starts_with("----") || is_reference(value, self.line(from, LONGEST_LOOK)) {
            return false;
        }
        // The folder that a shell is in is called like a password.
        if says == Says::Password && value.starts_with('/') && self.before(from, 4).eq_ignore_ascii_case(b"pwd=") {
            return false;
        }
        let tells = self.bytes[from].is_ascii_alphanumeric() && self.is_boundary(from);
        !(tells && self.standing(from).is_some_and(|found| found.to >= to))
    }

    /// Whether a password without quotation marks may have blanks in it: one that is assigned on a line of its own, but not to a variable of a shell,
    /// behind which a command stands.
    fn takes_its_line(&self, name: Name, at: usize) -> bool {
        let is_shell = !self.bytes[name.from..at].iter().any(|byte| byte.is_ascii_lowercase() || *byte == b' ');
        name.says == Says::Password && !is_shell && self.is_alone(name.from)
    }

    fn line_end(&self, from: usize) -> usize {
        let rest = &self.bytes[from..];
        let many = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        from + rest[..many].trim_ascii_end().len()
    }

    /// Before the two hyphens of `--password=`.
    fn dashes_before(&self, from: usize) -> usize {
        from - self.before(from, 2).iter().rev().take_while(|byte| **byte == b'-').count()
    }

    /// A value of YAML below its name: a block behind `|` or `>`, or a line by itself.
    fn on_next_lines(&mut self, name: Name, behind: usize) -> Option<Found> {
        if !matches!(name.says, Says::Password | Says::Secret | Says::Token) {
            return None;
        }
        let sign = behind + self.blanks(behind);
        let line = self.line(sign, 12).trim_end();
        let is_block =
            line.starts_with(['|', '>']) && line[1..].bytes().all(|byte| matches!(byte, b'+' | b'-' | b'0'..=b'9'));
        if !is_block && !line.is_empty() {
            return None;
        }
        let end = sign + self.line(sign, 12).len();
        if self.bytes.get(end) != Some(&b'\n') {
            return None;
        }
        let from = end + 1 + self.blanks(end + 1);
        let first = self.line(from, LONGEST_LINE).trim_end();
        let extent = Extent { from, to: from + first.len(), quote: None };
        if !self.is_secret(extent, name.says) {
            return None;
        }
        let to = match is_block {
            true if from > end + 1 => self.block_end(from),
            false if !first.contains([' ', '=']) && !first.ends_with(':') && is_alone(first, name.says) => extent.to,
            _ => return None,
        };
        Some(Found { from, to, kind: Kind::Named })
    }

    /// Where lines end that are farther in.
    fn block_end(&self, from: usize) -> usize {
        let mut to = from;
        for line in self.text[from..].split_inclusive('\n') {
            let is_in = to == from || line.trim().is_empty() || line.starts_with([' ', '\t']);
            if !is_in {
                break;
            }
            to += line.len();
        }
        from + self.text[from..to].trim_end().len()
    }

    /// `--password VALUE`, in a line or a list of arguments.
    pub(super) fn flag(&mut self, at: usize) -> Option<Found> {
        if !self.begins(at, "--") || !self.is_boundary(at) || self.before(at, 1) == b"-" {
            return None;
        }
        let rest = &self.bytes[at + 2..];
        let name = rest.iter().take(64).take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        let name = self.text.get(at + 2..at + 2 + name.count())?;
        let says = Says::of(name).filter(|says| matches!(says, Says::Password | Says::Secret | Says::Token))?;
        let behind = at + 2 + name.len();
        let gap =
            self.bytes[behind..].iter().take(8).take_while(|byte| matches!(byte, b' ' | b'\t' | b'"' | b'\'' | b','));
        let gap = gap.count();
        let begin = behind + gap;
        let in_list = self.bytes[behind..begin].contains(&b',');
        let blank = self.bytes[behind..begin].iter().rposition(|byte| matches!(byte, b' ' | b'\t' | b','))?;
        let extent = self.extent(behind + blank + 1, None);
        let value = self.text.get(extent.from..extent.to)?;
        let is_word = value.bytes().all(|byte| byte.is_ascii_alphabetic());
        let goes_on = self.line(extent.to, 8).starts_with(" -");
        let is_told = extent.quote.is_some() || in_list || !is_word || goes_on;
        let is_other = value.starts_with(['-', '/', '.', '~', '@'])
            || value.split_once('=').is_some_and(|(name, _)| name.len() <= 8);
        let is_one = is_told && !is_other && value.len() >= 4 && self.is_secret(extent, says);
        is_one.then(|| Found { from: extent.from, to: self.all_of(extent), kind: Kind::Named })
    }

    /// `<password>…</password>`; this is the first `>`.
    pub(super) fn element(&mut self, at: usize) -> Option<Found> {
        let before = self.before(at, 96);
        let open = before.iter().rposition(|byte| matches!(byte, b'<' | b'>')).filter(|open| before[*open] == b'<')?;
        let inside = std::str::from_utf8(&before[open + 1..]).ok()?;
        let name = inside.split_ascii_whitespace().next()?.rsplit(':').next()?;
        let says = Says::of(name).filter(|says| matches!(says, Says::Password | Says::Secret | Says::Token))?;
        let rest = &self.bytes[at + 1..];
        let many = rest.iter().take(LONGEST_LOOK).position(|byte| *byte == b'<')?;
        if !self.begins(at + 1 + many, "</") {
            return None;
        }
        let value = self.text.get(at + 1..at + 1 + many)?;
        let from = at + 1 + value.len() - value.trim_start().len();
        let value = value.trim();
        let extent = Extent { from, to: from + value.len(), quote: None };
        let is_one = is_value(value, true, says) && self.is_secret(extent, says);
        is_one.then_some(Found { from, to: extent.to, kind: Kind::Named })
    }

    /// `the API key is …`; this is where `is` begins.
    pub(super) fn told(&mut self, at: usize) -> Option<Found> {
        if !self.begins_anyhow(at, "is") || !matches!(self.bytes.get(at + 2), Some(b' ' | b':' | b'\t')) {
            return None;
        }
        let name = self.name_before(at).filter(|_| self.before(at, 1) == b" ")?;
        if !matches!(name.says, Says::Password | Says::Secret | Says::Token) {
            return None;
        }
        let colon = at + 2 + usize::from(self.bytes[at + 2] == b':');
        let extent = self.extent(colon + self.blanks(colon), None);
        let value = self.text.get(extent.from..extent.to)?;
        let is_one =
            is_surely_one(value.trim_end_matches(['.', '!', '?']), name.says) && self.is_secret(extent, name.says);
        is_one.then(|| Found { from: extent.from, to: self.all_of(extent), kind: Kind::Named })
    }
}

/// Whether a line by itself below a name is a value.
fn is_alone(line: &str, says: Says) -> bool {
    has_digit(line) && line.len() >= if says == Says::Password { 6 } else { 12 }
}
