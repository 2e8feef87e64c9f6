//! Tokens that tell themselves, whatever is written around them.

use super::Kind;
use super::scan::{Found, Scanner};
use super::tokens::{Class, SHAPES, Shape, Sure};

impl Scanner<'_> {
    /// A token that begins here.
    pub(super) fn standing(&mut self, at: usize) -> Option<Found> {
        self.token(at).or_else(|| self.dotted(at)).or_else(|| self.aws_secret(at))
    }

    pub(super) fn is_token(&mut self) -> bool {
        !self.bytes.is_empty() && self.token(0).is_some()
    }

    fn token(&mut self, at: usize) -> Option<Found> {
        if self.begins(at, "eyJ") {
            return self.jwt(at);
        }
        let rest = &self.bytes[at..];
        let mut shapes = SHAPES.iter().filter(|shape| rest.starts_with(shape.begins.as_bytes()));
        shapes.find_map(|shape| self.shaped(at, shape))
    }

    fn shaped(&mut self, at: usize, shape: &Shape) -> Option<Found> {
        let from = at + shape.begins.len();
        let to = self.run_end(shape.class, 0, from);
        // A full stop or a hyphen at its end is the sentence's.
        let written = self.bytes[from..to].iter().rev().take(8).take_while(|byte| matches!(byte, b'.' | b'-')).count();
        let to = to - written.min(to - from);
        let ends = |to: usize| self.bytes.get(to).is_none_or(|byte| !Class::Word.has(*byte));
        let is_one = to - from >= shape.least
            && match shape.sure {
                Sure::Quite => true,
                Sure::WithDigit => self.bytes[from..to].iter().take(64).any(u8::is_ascii_digit),
                Sure::Exactly => to - from == shape.least && ends(to),
                Sure::Alone => to - from == shape.least && ends(to) && (at == 0 || ends(at - 1)),
                Sure::LastPart => {
                    // Manuals write the last part as a row of one letter.
                    let last = self.bytes[from..to].iter().rev().take_while(|byte| **byte != b'/').take(16);
                    last.filter(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase()).count() >= 4
                }
            };
        is_one.then_some(Found { from, to, kind: shape.kind })
    }

    /// Three parts of base64 with dots between, of which the first is an object.
    fn jwt(&mut self, at: usize) -> Option<Found> {
        let mut to = self.run_end(Class::Word, 0, at);
        let mut parts = 1;
        if to - at >= 10 {
            for part in 1..3 {
                let behind = to + 1;
                if self.bytes.get(to) != Some(&b'.') || behind >= self.bytes.len() {
                    break;
                }
                let end = self.run_end(Class::Word, part, behind);
                if end - behind < 6 {
                    break;
                }
                (to, parts) = (end, parts + 1);
            }
        }
        (parts >= 2).then_some(Found { from: at + 3, to, kind: Kind::Jwt })
    }

    /// Tokens that are told by how long their parts are: those of Airtable and of Discord's bots.
    fn dotted(&mut self, at: usize) -> Option<Found> {
        if !matches!(self.bytes[at], b'p' | b'M' | b'N' | b'O') {
            return None;
        }
        let first = self.run_end(Class::Word, 0, at);
        if self.bytes.get(first) != Some(&b'.') {
            return None;
        }
        let second = self.run_end(Class::Word, 1, first + 1);
        let long = (first - at, second - first - 1);
        if self.begins(at, "pat") && long == (17, 64) {
            return Some(Found { from: at + 3, to: second, kind: Kind::Other });
        }
        if !(24..=28).contains(&long.0) || long.1 != 6 || self.bytes.get(second) != Some(&b'.') {
            return None;
        }
        let third = self.run_end(Class::Word, 2, second + 1);
        let digits = self.bytes[at..third].iter().take(80).filter(|byte| byte.is_ascii_digit()).count();
        ((27..=40).contains(&(third - second - 1)) && digits >= 2).then_some(Found {
            from: at,
            to: third,
            kind: Kind::Other,
        })
    }

    /// Forty characters of base64 close behind a word that says what they are.
    fn aws_secret(&mut self, at: usize) -> Option<Found> {
        let to = self.run_end(Class::Base64, 1, at);
        let value = &self.bytes[at..to];
        let many = |kind: fn(&u8) -> bool| value.iter().filter(|byte| kind(byte)).count();
        let is_like = value.len() == 40
            && many(u8::is_ascii_digit) >= 2
            && many(u8::is_ascii_uppercase) >= 4
            && many(u8::is_ascii_lowercase) >= 4;
        if !is_like || self.bytes.get(to).is_some_and(|byte| Class::Word.has(*byte)) {
            return None;
        }
        let before = self.before(at, 80).to_ascii_lowercase();
        let says = |word: &[u8]| before.windows(word.len()).any(|part| part == word);
        (says(b"secret") || says(b"aws")).then_some(Found { from: at, to, kind: Kind::Aws })
    }

    /// The number of a bot of Telegram, a colon, and thirty-five characters. It stands in addresses behind `/bot`, without a word's beginning.
    pub(super) fn telegram(&mut self, at: usize) -> Option<Found> {
        let digits = self.before(at, 13).iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        if !(8..=12).contains(&digits) || !self.begins(at, ":AA") {
            return None;
        }
        let to = self.run_end(Class::Word, 0, at + 1);
        (to - at - 1 == 35).then_some(Found { from: at + 1, to, kind: Kind::Other })
    }

    /// A token of Terraform has its beginning in its middle.
    pub(super) fn terraform(&mut self, at: usize) -> Option<Found> {
        let from = at + ".atlasv1.".len();
        if !self.begins(at, ".atlasv1.") {
            return None;
        }
        let to = self.run_end(Class::Word, 0, from);
        (to - from >= 40).then_some(Found { from, to, kind: Kind::Other })
    }

    /// A secret of an application of Azure: three characters, a digit, `Q~`, and thirty-one or more.
    pub(super) fn azure(&mut self, at: usize) -> Option<Found> {
        let [rest @ .., digit, b'Q'] = self.before(at, 5) else { return None };
        if !digit.is_ascii_digit() || rest.len() != 3 || !rest.iter().all(|byte| Class::Word.has(*byte)) {
            return None;
        }
        let to = self.run_end(Class::Credential, 1, at + 1);
        (to - at > 31).then_some(Found { from: at + 1, to, kind: Kind::Other })
    }
}
