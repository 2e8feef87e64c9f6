//! How far a value goes. Of a secret all must go: what is left of half a password looks safe and is not.

use super::scan::Scanner;

/// So much of a value is looked at, to tell whether it is one.
pub(super) const LONGEST_LOOK: usize = 1024;

/// A quotation mark, and how many backslashes are before it: one in JSON that is written as a string of JSON.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quote {
    byte: u8,
    escapes: usize,
}

/// A value, as far as it was looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) from: usize,
    pub(super) to: usize,
    /// The quotation marks that it stands in.
    pub(super) quote: Option<Quote>,
}

impl Scanner<'_> {
    /// The quotation mark that stands here, and where what it holds begins.
    pub(super) fn quote(&self, at: usize) -> Option<(Quote, usize)> {
        let rest = self.bytes.get(at..)?;
        let escapes = rest.iter().take(4).take_while(|byte| **byte == b'\\').count();
        let byte = *rest.get(escapes)?;
        matches!(byte, b'"' | b'\'' | b'`').then_some((Quote { byte, escapes }, at + escapes + 1))
    }

    /// The quotation mark that stands before a place.
    pub(super) fn quote_before(&self, at: usize) -> Option<Quote> {
        let [rest @ .., byte @ (b'"' | b'\'' | b'`')] = self.before(at, 5) else { return None };
        Some(Quote { byte: *byte, escapes: rest.iter().rev().take_while(|byte| **byte == b'\\').count() })
    }

    /// The value that begins here, in quotation marks or bare, as far as it is looked at. `around` are marks that the name stands in as well.
    pub(super) fn extent(&self, at: usize, around: Option<Quote>) -> Extent {
        if let Some((quote, from)) = self.quote(at) {
            let to = self.closing(from, quote, LONGEST_LOOK).unwrap_or_else(|stopped| stopped);
            return Extent { from, to: self.whole(to), quote: Some(quote) };
        }
        if let Some(quote) = around
            && let Ok(to) = self.closing(at, quote, LONGEST_LOOK)
        {
            return Extent { from: at, to, quote: Some(quote) };
        }
        Extent { from: at, to: self.bare_end(at, LONGEST_LOOK), quote: None }
    }

    /// All of a value that goes, now that it goes: nobody looks at it again.
    pub(super) fn all_of(&self, value: Extent) -> usize {
        match value.quote {
            _ if value.to - value.from < LONGEST_LOOK - 16 => value.to,
            Some(quote) => self.whole(self.closing(value.from, quote, usize::MAX).unwrap_or_else(|stopped| stopped)),
            None => self.bare_end(value.from, usize::MAX),
        }
    }

    /// Where a quotation mark of the same kind closes; or where the line or the look ends without one.
    pub(super) fn closing(&self, from: usize, quote: Quote, most: usize) -> Result<usize, usize> {
        let mut escapes = 0;
        for (many, byte) in self.bytes.get(from..).unwrap_or_default().iter().take(most).enumerate() {
            let closes = if quote.escapes == 0 { escapes % 2 == 0 } else { escapes <= quote.escapes };
            match *byte {
                b'\n' => return Err(from + many),
                byte if byte == quote.byte && closes => return Ok(from + many - escapes.min(quote.escapes)),
                b'\\' => escapes += 1,
                _ => escapes = 0,
            }
        }
        Err(self.bytes.len().min(from.saturating_add(most)))
    }

    /// Where a value without quotation marks ends: at white space, or where the next name or the end of what is around it follows.
    fn bare_end(&self, from: usize, most: usize) -> usize {
        let rest = self.bytes.get(from..).unwrap_or_default();
        let is_end = |(many, byte): (usize, &u8)| byte.is_ascii_whitespace() || self.closes(from + many, *byte);
        let many = rest.iter().take(most).enumerate().position(|(many, byte)| is_end((many, byte)));
        let to = from + many.unwrap_or(rest.len().min(most));
        let is_mark = |byte: &&u8| is_closer(**byte);
        self.whole(to - self.bytes[from.min(to)..to].iter().rev().take(8).take_while(is_mark).count())
    }

    /// Whether a mark ends a value, by what is behind it.
    fn closes(&self, at: usize, byte: u8) -> bool {
        if byte == b'<' {
            return self.begins(at, "</");
        }
        let is_line = byte == b'\\' && matches!(self.bytes.get(at + 1), Some(b'n' | b'r' | b't'));
        if !is_closer(byte) && byte != b'&' {
            return false;
        }
        let rest = &self.bytes[at..];
        let marks = match is_line {
            true => 2,
            false => rest.iter().take(8).take_while(|byte| is_closer(**byte) || **byte == b'&').count(),
        };
        let rest = &rest[marks..];
        let is_over = rest.first().is_none_or(|byte| byte.is_ascii_whitespace() || *byte == b'<');
        // A quotation mark before a comma or a bracket is the end of a text that began before the name.
        if is_over || matches!(byte, b'"' | b'\'' | b'`') && marks > 1 {
            return true;
        }
        let name = rest.iter().take(64).take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        let name = name.count();
        let quotes = rest[name..].iter().take(3).take_while(|byte| matches!(byte, b'"' | b'\'' | b'\\')).count();
        name > 0 && matches!(rest.get(name + quotes), Some(b'=' | b':'))
    }
}

/// What may stand behind a value without being of it.
fn is_closer(byte: u8) -> bool {
    matches!(byte, b',' | b';' | b')' | b']' | b'}' | b'>' | b'"' | b'\'' | b'`' | b'\\')
}
