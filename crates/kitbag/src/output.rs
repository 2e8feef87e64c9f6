//! What a command prints: JSON for programs, or text for people. Everything else goes to stderr.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::failure::Failure;

/// Where the results of a command go.
pub(crate) struct Output {
    json: bool,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        Self { json }
    }

    /// Whether a program reads it.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Whether there is somebody to ask.
    pub(crate) fn has_person(&self) -> bool {
        !self.json && io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// Whether what is printed may be coloured.
    pub(crate) fn has_colours(&self) -> bool {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        !self.json && wanted && io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
    }

    /// Says something beside the result.
    pub(crate) fn note(&self, text: &str) {
        let _ = writeln!(io::stderr(), "{text}");
    }

    /// Prints a result: `value` for programs, what `text` makes of it for people.
    pub(crate) fn result(&self, value: &Value, text: impl FnOnce(&Value) -> String) -> Result<ExitCode, Failure> {
        let line = if self.json { value.to_string() } else { text(value) };
        print(line.trim_end())?;
        Ok(ExitCode::SUCCESS)
    }

    /// Prints a failure, and gives the exit code for it.
    pub(crate) fn failure(&self, failure: &Failure) -> ExitCode {
        if self.json {
            let _ = print(
                &json!({ "code": failure.code, "message": failure.message, "details": failure.details }).to_string(),
            );
        }
        let _ = writeln!(io::stderr(), "error: {}", failure.message);
        failure.exit_code()
    }
}

/// Prints a line on stdout. A reader that has gone away (`| head`) is no error.
pub(crate) fn print(line: &str) -> io::Result<()> {
    if line.is_empty() {
        return Ok(());
    }
    let mut stdout = io::stdout().lock();
    match writeln!(stdout, "{line}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}

/// Without what could move the cursor or colour the terminal; tabs stay.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c }).collect()
}

/// A field of a JSON object as text; empty for null.
pub(crate) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// Rows in columns, under a head.
pub(crate) fn table<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    let line = |cells: [&str; N]| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let mut lines = vec![line(head)];
    lines.extend(rows.iter().map(|row| line(std::array::from_fn(|column| row[column].as_str()))));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::table;

    #[test]
    fn columns_line_up() {
        let rows = [["1".to_owned(), "é".to_owned(), "x".to_owned()], ["22".to_owned(), String::new(), "y".to_owned()]];
        assert_eq!(table(["ID", "T", "END"], &rows), "ID  T  END\n1   é  x\n22     y");
    }
}
