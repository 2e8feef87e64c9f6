//! A name and a password beside each other: `curl -u name:password`, and the lines of a `.netrc`.

use super::Kind;
use super::extent::{Extent, LONGEST_LOOK};
use super::scan::{Found, Scanner};
use super::value::is_reference;

/// So much before a place is looked at, to tell whose it is.
const LONGEST_BEFORE: usize = 200;

impl Scanner<'_> {
    /// What is behind the colon of `-u name:password` or `--user name:password`; this is the first hyphen. Other programs mean something
    /// else by it (`docker run -u 1000:1000`), so the line must be one of a program that signs in.
    pub(super) fn login(&mut self, at: usize) -> Option<Found> {
        if !self.before(at, 1).iter().all(|byte| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'')) {
            return None;
        }
        let flag = ["--proxy-user", "--user", "-u", "-U"].into_iter().find(|flag| self.begins(at, flag))?;
        let behind = at + flag.len();
        let signs = self.bytes.get(behind..)?.iter().take(4);
        let signs = signs.take_while(|byte| matches!(byte, b' ' | b'\t' | b'=' | b'"' | b'\'' | b','));
        let begin = behind + signs.count();
        // `-uname:password` is the same for these programs; `--username` is not.
        if begin == behind && flag.len() > 2 || !self.signs_in(at) {
            return None;
        }
        let quote = self.quote_before(begin);
        let extent = self.extent(begin, quote);
        let pair = self.text.get(extent.from..extent.to)?;
        let colon = pair.find(':').filter(|colon| *colon > 0)?;
        let from = extent.from + colon + 1;
        self.password(Extent { from, ..extent })
    }

    /// What is behind `password` where `login` stands before it, as in a `.netrc`; this is where `password` begins.
    pub(super) fn netrc(&mut self, at: usize) -> Option<Found> {
        if !self.begins_anyhow(at, "password") || self.blanks(at + 8) == 0 {
            return None;
        }
        let before = self.before(at, LONGEST_BEFORE);
        let words: Vec<&[u8]> = before.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
        let [.., login, _name] = words.as_slice() else { return None };
        let begins = words.iter().any(|word| [&b"machine"[..], b"default"].contains(word));
        if *login != b"login" || !begins {
            return None;
        }
        let from = at + 8 + self.blanks(at + 8);
        let extent = self.extent(from, None);
        self.password(extent)
    }

    fn password(&self, extent: Extent) -> Option<Found> {
        let value = self.text.get(extent.from..extent.to).filter(|value| value.len() >= 3)?;
        let is_one = !is_reference(value, self.line(extent.from, LONGEST_LOOK));
        is_one.then(|| Found { from: extent.from, to: self.all_of(extent), kind: Kind::Named })
    }

    /// Whether a program that takes names with passwords stands before a place, on the same line or the ones that it goes on from.
    fn signs_in(&self, at: usize) -> bool {
        let before = self.before(at, LONGEST_BEFORE);
        let lines = before.split(|byte| *byte == b'\n').rev();
        let mut goes_on = true;
        for (index, line) in lines.enumerate() {
            goes_on = index == 0 || goes_on && line.trim_ascii_end().ends_with(b"\\");
            let words = line.split(|byte| !byte.is_ascii_alphanumeric());
            if goes_on && words.into_iter().any(|word| [&b"curl"[..], b"wget", b"httpie"].contains(&word)) {
                return true;
            }
        }
        false
    }
}
