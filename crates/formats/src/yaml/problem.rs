//! Problems of a text that people write: what is wrong, where, and the line itself with a mark below the place.

use std::fmt;

use serde::Serialize;

use super::Place;

/// One problem.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Problem {
    /// The line, counted from 1.
    pub line: usize,
    /// The column, counted from 1.
    pub column: usize,
    /// What is wrong, and what is allowed.
    pub message: String,
    /// The line as it stands, or the part around the place. Empty where it may hold a secret.
    pub source: String,
    /// How many characters of `source` stand before the place.
    #[serde(skip)]
    pub(crate) caret: usize,
    /// Whether it is a reference to a variable that is none.
    #[serde(skip)]
    pub(crate) placeholder: bool,
}

/// How much of a line is shown on either side.
const MARGIN: usize = 60;

impl Problem {
    /// One without the line.
    pub(crate) fn bare(place: Place, message: String) -> Self {
        Self { line: place.line, column: place.column, message, source: String::new(), caret: 0, placeholder: false }
    }

    pub(super) fn new(place: Place, message: String, lines: &[&str]) -> Self {
        let line = lines.get(place.line - 1).copied().unwrap_or_default();
        let length = line.chars().count();
        let column = (place.column - 1).min(length);
        let from = column.saturating_sub(MARGIN);
        let to = (column + MARGIN).min(length);
        // What a terminal would act upon is shown as a mark instead.
        let shown = |c: char| match c {
            '\t' => ' ',
            c if c.is_control() || is_invisible(c) => '\u{fffd}',
            c => c,
        };
        let mut text: String = line.chars().skip(from).take(to - from).map(shown).collect();
        let mut caret = column - from;
        if from > 0 {
            text.insert(0, '…');
            caret += 1;
        }
        if to < length {
            text.push('…');
        }
        Self { line: place.line, column: place.column, message, source: text, caret, placeholder: false }
    }
}

/// Characters that hide others or turn their order.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.message)?;
        if self.source.is_empty() {
            return Ok(());
        }
        let number = self.line.to_string();
        let (margin, caret) = (" ".repeat(number.len()), " ".repeat(self.caret));
        write!(f, "\n  {number} | {}\n  {margin} | {caret}^", self.source)
    }
}

/// Everything that is wrong with a text.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            let before = if index == 0 { "" } else { "\n" };
            write!(f, "{before}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
