//! One walk over a text, from its beginning to its end. What may stand in a place, and how far it goes, is told in the rooms beside.

use std::collections::BTreeMap;

use super::tokens::Class;
use super::view::View;
use super::{Kind, MARK, Redacted};

/// Where a secret is: what stands from `from` to `to` goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) kind: Kind,
}

pub(super) struct Scanner<'t> {
    pub(super) text: &'t str,
    pub(super) bytes: &'t [u8],
    /// Whether only what tells itself counts: tokens, whatever they are called.
    only_tokens: bool,
    /// The run of characters of each class that was looked at last: whoever asks from a later place in it need not walk it again.
    runs: [[(usize, usize); 3]; Class::COUNT],
    /// The run without white space in which an address was looked at last, and its last `@`.
    pub(super) address: (usize, usize, Option<usize>),
}

impl<'t> Scanner<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self {
            text,
            bytes: text.as_bytes(),
            only_tokens: false,
            runs: [[(0, 0); 3]; Class::COUNT],
            address: (0, 0, None),
        }
    }

    pub(super) fn for_tokens(text: &'t str) -> Self {
        Self { only_tokens: true, ..Self::new(text) }
    }

    /// Walks over what is seen of a text, and takes what it finds out of the text.
    pub(super) fn run(mut self, view: &View<'_>) -> Redacted {
        let (mut out, mut found) = (String::with_capacity(view.original.len()), BTreeMap::new());
        let (mut kept, mut at) = (0, 0);
        while at < self.bytes.len() {
            let Some(secret) = self.at(at).map(|found| self.before_a_key(found)).filter(|found| found.from < found.to)
            else {
                at += 1;
                continue;
            };
            // Both ends are between characters; `get` keeps it from being a panic if that were wrong.
            out.push_str(view.original.get(kept..view.from(secret.from)).unwrap_or_default());
            out.push_str(MARK);
            *found.entry(secret.kind).or_default() += 1;
            kept = view.to(secret.to);
            at = secret.to.max(at + 1);
        }
        out.push_str(view.original.get(kept..).unwrap_or_default());
        Redacted { text: out, found }
    }

    /// A secret that is told by what begins here.
    fn at(&mut self, at: usize) -> Option<Found> {
        let byte = self.bytes[at];
        let token = match byte {
            b':' => self.telegram(at),
            b'.' => self.terraform(at),
            b'~' => self.azure(at),
            _ if byte.is_ascii_alphanumeric() && self.is_boundary(at) => self.standing(at),
            _ => None,
        };
        if token.is_some() || self.only_tokens {
            return token;
        }
        match byte {
            b'-' => self.private_key(at).or_else(|| self.flag(at)).or_else(|| self.login(at)),
            b':' if self.begins(at, "://") => self.address(at + 3),
            b':' | b'=' => self.named(at, at + 1),
            b'%' if self.begins_anyhow(at, "%3d") => self.named(at, at + 3),
            b'>' => self.element(at),
            b'p' | b'P' if self.is_boundary(at) => self.putty(at).or_else(|| self.netrc(at)),
            b'b' | b'B' if self.is_boundary(at) => self.authorization(at),
            b'i' | b'I' if self.is_boundary(at) => self.told(at),
            _ => None,
        }
    }

    /// A value ends with its line, a private key with its last one: no value takes the first line of a key away from the others.
    fn before_a_key(&self, found: Found) -> Found {
        let value = self.text.get(found.from..found.to).unwrap_or_default();
        match value.find("-----BEGIN ").filter(|_| found.kind != Kind::PrivateKey) {
            Some(many) => Found { to: found.from + many, ..found },
            None => found,
        }
    }

    pub(super) fn begins(&self, at: usize, with: &str) -> bool {
        self.bytes.get(at..).is_some_and(|rest| rest.starts_with(with.as_bytes()))
    }

    /// The same in upper or lower case.
    pub(super) fn begins_anyhow(&self, at: usize, with: &str) -> bool {
        self.bytes.get(at..at + with.len()).is_some_and(|found| found.eq_ignore_ascii_case(with.as_bytes()))
    }

    /// Whether a word may begin here.
    pub(super) fn is_boundary(&self, at: usize) -> bool {
        at == 0 || !self.bytes[at - 1].is_ascii_alphanumeric()
    }

    /// How many blanks stand here; nobody writes more than a few.
    pub(super) fn blanks(&self, at: usize) -> usize {
        let rest = self.bytes.get(at..).unwrap_or_default();
        rest.iter().take(16).take_while(|byte| matches!(byte, b' ' | b'\t')).count()
    }

    /// What stands before a place, at most so much of it.
    pub(super) fn before(&self, at: usize, most: usize) -> &'t [u8] {
        &self.bytes[at.saturating_sub(most)..at]
    }

    /// What is left of the line, at most so much of it.
    pub(super) fn line(&self, from: usize, most: usize) -> &'t str {
        let rest = self.bytes.get(from..).unwrap_or_default();
        let many = rest.iter().take(most).position(|byte| *byte == b'\n').unwrap_or(rest.len().min(most));
        self.text.get(from..self.whole(from + many)).unwrap_or_default()
    }

    /// This place, or the next one before it that is between characters.
    pub(super) fn whole(&self, mut at: usize) -> usize {
        while !self.text.is_char_boundary(at) {
            at -= 1;
        }
        at
    }

    /// Where the characters of a class end that begin at `at`. `part` tells runs apart that are asked for in turns.
    pub(super) fn run_end(&mut self, class: Class, part: usize, at: usize) -> usize {
        let (from, to) = self.runs[class as usize][part];
        if from <= at && at < to {
            return to;
        }
        let rest = self.bytes.get(at..).unwrap_or_default();
        let to = at + rest.iter().position(|byte| !class.has(*byte)).unwrap_or(rest.len());
        self.runs[class as usize][part] = (at, to);
        to
    }
}
