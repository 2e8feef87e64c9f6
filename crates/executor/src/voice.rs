//! What an executor tells whoever looks after it, on standard output: a line of text for people, or a line of JSON for programs.

use std::io::{self, Write};

use serde_json::Value;

/// Tells things.
#[derive(Clone, Copy, Debug)]
pub struct Voice {
    json: bool,
}

impl Voice {
    /// For programs or for people.
    pub fn new(json: bool) -> Self {
        Self { json }
    }

    /// Whether a program listens.
    pub fn is_json(self) -> bool {
        self.json
    }

    /// Tells something. Nobody has to listen: an executor whose output nobody reads works on.
    pub fn tell(self, value: &Value, text: impl FnOnce() -> String) {
        let line = if self.json { value.to_string() } else { plain(&text()) };
        let mut out = io::stdout().lock();
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    }

    /// Says something beside the result.
    pub fn note(self, text: &str) {
        let _ = writeln!(io::stderr(), "{}", plain(text));
    }
}

/// Without what could move the cursor or colour the terminal: some of it was said by a server.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c }).collect()
}
