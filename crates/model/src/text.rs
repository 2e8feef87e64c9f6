//! The rules for short texts that people type: names and titles.

/// Why a text cannot be a name or a title.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum TextError {
    /// Nothing but white space.
    #[error("must not be empty")]
    Empty,
    /// More characters than there is room for.
    #[error("must have at most {most} characters, not {has}")]
    TooLong {
        /// How many characters there may be.
        most: usize,
        /// How many there are.
        has: usize,
    },
    /// A line break, a NUL or another character that is not text. Such characters forge lines in logs and
    /// terminals, and PostgreSQL cannot keep a NUL at all.
    #[error("must not have control or direction characters; the one at position {position} is U+{code:04X}")]
    Control {
        /// How many characters stand before it.
        position: usize,
        /// Its code point.
        code: u32,
    },
}

/// Checks that `text` fits on one line and in `most` characters.
pub(crate) fn one_line(text: &str, most: usize) -> Result<(), TextError> {
    let invisible = |c: char| c.is_whitespace() || matches!(c, '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}');
    if text.chars().all(invisible) {
        return Err(TextError::Empty);
    }
    if let Some((position, c)) = text.chars().enumerate().find(|(_, c)| c.is_control() || is_direction(*c)) {
        return Err(TextError::Control { position, code: c.into() });
    }
    let has = text.chars().count();
    if has > most { Err(TextError::TooLong { most, has }) } else { Ok(()) }
}

/// Checks a text that may have several lines: line breaks and tabs are fine, other control characters are not.
pub(crate) fn several_lines(text: &str, most: usize) -> Result<(), TextError> {
    let bad = |c: char| (c.is_control() && !matches!(c, '\n' | '\r' | '\t')) || is_direction(c);
    if let Some((position, c)) = text.chars().enumerate().find(|(_, c)| bad(*c)) {
        return Err(TextError::Control { position, code: c.into() });
    }
    let has = text.chars().count();
    if has > most { Err(TextError::TooLong { most, has }) } else { Ok(()) }
}

/// Characters that turn the order of those around them, so that a text looks like another one.
pub(crate) fn is_direction(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}')
}

/// A checked text of one line: `line_type!(/// doc  Name, most)`.
macro_rules! line_type {
    ($(#[$doc:meta])* $name:ident, $most:literal) => {
        $crate::text::text_type!($(#[$doc])* $name, $most, one_line);
    };
}
pub(crate) use line_type;

/// A checked text: `text_type!(/// doc  Name, most, rule)`, where the rule is a function of this file.
macro_rules! text_type {
    ($(#[$doc:meta])* $name:ident, $most:literal, $rule:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Eq, PartialEq)]
        pub struct $name(String);

        impl $name {
            /// How many characters it may have.
            pub const MOST: usize = $most;

            /// The text itself.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::text::TextError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                $crate::text::$rule(text, $most).map(|()| Self(text.to_owned()))
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                <String as serde::Deserialize>::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use text_type;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        assert_eq!(one_line("Grüße, 世界 👋", 11), Ok(()));
        assert_eq!(one_line(" \t ", 9), Err(TextError::Empty));
        assert_eq!(one_line("", 9), Err(TextError::Empty));
        assert_eq!(one_line("abc", 2), Err(TextError::TooLong { most: 2, has: 3 }));
        assert_eq!(one_line("a\nb", 9), Err(TextError::Control { position: 1, code: 10 }));
        assert_eq!(one_line("é\0", 9), Err(TextError::Control { position: 1, code: 0 }));
        assert_eq!(one_line("a\u{202e}b", 9), Err(TextError::Control { position: 1, code: 0x202e }));
        assert_eq!(one_line("\u{200b}", 9), Err(TextError::Empty));
        assert_eq!(one_line("\u{1b}[31mred", 9), Err(TextError::Control { position: 0, code: 27 }));
    }

    #[test]
    fn texts_of_several_lines() {
        assert_eq!(several_lines("", 9), Ok(()));
        assert_eq!(several_lines("a\r\n\tb", 9), Ok(()));
        assert_eq!(several_lines("abc", 2), Err(TextError::TooLong { most: 2, has: 3 }));
        assert_eq!(several_lines("a\0", 9), Err(TextError::Control { position: 1, code: 0 }));
        assert_eq!(several_lines("a\u{202e}b", 9), Err(TextError::Control { position: 1, code: 0x202e }));
    }
}
