//! A text as its reader sees it: without letters that show nothing, and with plain letters in place of those that only look like them. Whoever
//! copies a token from a page or a document may copy such letters along. What is found in the view is taken out of the text itself.

use std::borrow::Cow;

pub(super) struct View<'t> {
    pub(super) original: &'t str,
    pub(super) seen: Cow<'t, str>,
    /// For each byte of what is seen, from where to where it stands in the original. Empty: in the same place.
    places: Vec<(usize, usize)>,
}

impl<'t> View<'t> {
    pub(super) fn of(original: &'t str) -> Self {
        if original.chars().all(|c| shown(c) == Some(c)) {
            return Self { original, seen: Cow::Borrowed(original), places: Vec::new() };
        }
        let (mut seen, mut places) = (String::with_capacity(original.len()), Vec::with_capacity(original.len()));
        for (at, c) in original.char_indices() {
            let Some(plain) = shown(c) else { continue };
            seen.push(plain);
            match plain == c {
                true => places.extend((at..at + c.len_utf8()).map(|byte| (byte, byte + 1))),
                false => places.push((at, at + c.len_utf8())),
            }
        }
        Self { original, seen: Cow::Owned(seen), places }
    }

    /// Where in the original something begins that begins here in what is seen.
    pub(super) fn from(&self, at: usize) -> usize {
        match self.places.is_empty() {
            true => at,
            false => self.places.get(at).map_or(self.original.len(), |place| place.0),
        }
    }

    /// Where in the original something ends that ends here in what is seen.
    pub(super) fn to(&self, at: usize) -> usize {
        match self.places.is_empty() {
            true => at,
            false => at.checked_sub(1).and_then(|last| self.places.get(last)).map_or(0, |place| place.1),
        }
    }
}

/// What a letter looks like, as one of ASCII or as itself; none if it does not show.
fn shown(c: char) -> Option<char> {
    Some(match c {
        '\0'..='\x7f' => c,
        // Soft hyphens, joiners, marks of direction, variation selectors.
        '\u{ad}' | '\u{34f}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' => return None,
        '\u{2060}'..='\u{2064}' | '\u{2066}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' => return None,
        '\u{e0000}'..='\u{e007f}' => return None,
        '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{fe58}' | '\u{fe63}' => '-',
        '\u{201c}'..='\u{201f}' | '\u{ab}' | '\u{bb}' => '"',
        '\u{2018}'..='\u{201b}' => '\'',
        '\u{85}' | '\u{2028}' | '\u{2029}' => '\n',
        _ if c.is_whitespace() => ' ',
        // The letters of ASCII once more, each as wide as a letter of Chinese.
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c),
        _ => c,
    })
}
