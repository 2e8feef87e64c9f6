//! Private keys, between their two lines or cut off behind the first.

use super::scan::{Found, Scanner};
use super::tokens::Class;
use super::{Kind, MARK};

/// So long is a word of a key at least, where nothing else says that it is one.
const LEAST: usize = 16;
/// So much of a line is looked at once, where a key's end is missing.
const LONGEST_LINE: usize = 4096;

impl Scanner<'_> {
    /// A block of OpenSSL, OpenSSH, PGP or SSH2, in upper or lower case.
    pub(super) fn private_key(&mut self, at: usize) -> Option<Found> {
        let label = at + self.mark(at, "BEGIN ")?;
        let head = &self.bytes[label..self.bytes.len().min(label + 72)];
        let label_end = head.windows(4).position(|part| part == b"----")?;
        let name = head[..label_end].to_ascii_uppercase();
        let name = name.trim_ascii_end();
        if !name.ends_with(b"PRIVATE KEY") && !name.ends_with(b"PRIVATE KEY BLOCK") {
            return None;
        }
        let dashes = head[label_end..].iter().take(5).take_while(|byte| **byte == b'-').count();
        let from = label + label_end + dashes;
        // The walk ends at the next line of that kind, so that nothing is looked at twice: if that begins another key, this one was cut off.
        let mark = (from..self.bytes.len())
            .filter(|at| self.bytes[*at] == b'-')
            .find(|at| self.mark(*at, "END ").is_some() || self.mark(*at, "BEGIN ").is_some());
        let to = match mark {
            Some(end) if self.mark(end, "END ").is_some() => end,
            Some(begin) => self.key_lines(from, begin),
            None => self.key_lines(from, self.bytes.len()),
        };
        let is_there = self.text.get(from..to).is_some_and(|block| !["", MARK].contains(&block.trim()));
        is_there.then_some(Found { from, to, kind: Kind::PrivateKey })
    }

    /// How long `-----BEGIN ` or `---- BEGIN ` is, if it stands here.
    fn mark(&self, at: usize, word: &str) -> Option<usize> {
        let dashes = if self.begins(at, "-----") { 5 } else { 4 };
        if !self.begins(at, "----") {
            return None;
        }
        let behind = at + dashes;
        let blank = usize::from(self.bytes.get(behind) == Some(&b' '));
        self.begins_anyhow(behind + blank, word).then_some(dashes + blank + word.len())
    }

    /// The file of PuTTY has its private lines behind a line that says how many there are.
    pub(super) fn putty(&mut self, at: usize) -> Option<Found> {
        if !self.begins_anyhow(at, "Private-Lines:") {
            return None;
        }
        let line = self.line(at, 40);
        if !line["Private-Lines:".len()..].trim().bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let from = at + line.len();
        let to = self.key_lines(from, self.bytes.len());
        (to > from).then_some(Found { from, to, kind: Kind::PrivateKey })
    }

    /// Where a key ends whose end is missing: with its last word of base64. Before the first there may be headers and empty lines; lines may be
    /// quoted as in a letter, and ends of lines be written as `\n`.
    fn key_lines(&self, from: usize, limit: usize) -> usize {
        let (mut to, mut at, mut headers) = (from, from, 0);
        while at < limit {
            let line = self.line(at, LONGEST_LINE.min(limit - at));
            let bare = line.trim_start_matches([' ', '\t', '\r', '>', '|', '#', '*', '"', '\'', '+', '/']);
            let start = at + line.len() - bare.len();
            let bare = bare.trim_end();
            let taken = key_words(bare, to > from);
            if taken > 0 {
                to = start + taken;
            }
            let is_header = to == from && (bare.is_empty() || is_header(bare));
            headers += usize::from(is_header);
            if taken < bare.len() && !is_header || headers > 12 || bare.is_empty() && to > from {
                break;
            }
            at += line.len() + usize::from(self.bytes.get(at + line.len()) == Some(&b'\n'));
        }
        to
    }
}

/// `Proc-Type: 4,ENCRYPTED`
fn is_header(line: &str) -> bool {
    let is_name = |name: &str| name.len() <= 40 && name.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-');
    line.split_once(':').is_some_and(|(name, _)| !name.is_empty() && is_name(name))
}

/// How much of a line is words of a key.
fn key_words(line: &str, is_inside: bool) -> usize {
    let (mut taken, mut at) = (0, 0);
    while at < line.len() {
        let rest = &line.as_bytes()[at..];
        let gap = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        let word = &rest[gap..];
        let word = &word[..word.iter().position(|byte| !is_key(*byte)).unwrap_or(word.len())];
        let told = word.iter().take(LEAST).any(|byte| byte.is_ascii_digit() || matches!(byte, b'=' | b'+' | b'/'));
        let is_one = word.len() >= LEAST || (is_inside || taken > 0) && word.len() >= 2 && told;
        if !is_one {
            break;
        }
        at += gap + word.len();
        taken = at;
        if !matches!(line.as_bytes().get(at), None | Some(b' ' | b'\t')) {
            break;
        }
    }
    taken
}

/// The backslash is of `\n`, which may stand in place of an end of a line.
fn is_key(byte: u8) -> bool {
    Class::Base64.has(byte) || byte == b'\\'
}
