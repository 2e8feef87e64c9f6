//! Server-sent events out of bytes, as the specification has it: any line end, cut anywhere. Whoever reads an answer that comes bit by bit
//! reads it with this, so that one event's size is bounded everywhere.

use std::time::Duration;

/// One event.
#[derive(Debug, Eq, PartialEq)]
pub struct Event {
    /// Empty for an ordinary message.
    pub kind: String,
    /// Its lines, with a line feed between them.
    pub data: String,
}

/// More than one event may hold.
#[derive(Debug, Eq, PartialEq)]
pub struct TooLong;

/// The state between two pieces.
#[derive(Debug)]
pub struct Events {
    longest: usize,
    line: Vec<u8>,
    /// The last byte was a carriage return, so that a line feed right after it ends no other line.
    returned: bool,
    /// No line has been read yet, so that the first may begin with a byte order mark.
    fresh: bool,
    kind: String,
    data: String,
    id: Option<String>,
    /// The number of the last event, to go on from there.
    pub last_id: Option<String>,
    /// How long to wait before going on, if the server says.
    pub retry: Option<Duration>,
}

impl Events {
    /// `longest` is the most bytes of one event.
    pub fn new(longest: usize) -> Self {
        Self {
            longest,
            line: Vec::new(),
            returned: false,
            fresh: true,
            kind: String::new(),
            data: String::new(),
            id: None,
            last_id: None,
            retry: None,
        }
    }

    /// The same for the stream that takes this one up again.
    pub fn again(&self) -> Self {
        Self { last_id: self.last_id.clone(), retry: self.retry, ..Self::new(self.longest) }
    }

    /// Takes a piece and says which events are whole now.
    pub fn push(&mut self, piece: &[u8]) -> Result<Vec<Event>, TooLong> {
        let mut whole = Vec::new();
        let mut rest = piece;
        while let Some(&first) = rest.first() {
            if std::mem::take(&mut self.returned) && first == b'\n' {
                rest = rest.get(1..).unwrap_or_default();
                continue;
            }
            let Some(at) = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n')) else {
                self.line.extend_from_slice(rest);
                break;
            };
            let (line, end) = rest.split_at(at);
            self.line.extend_from_slice(line);
            self.returned = end.first() == Some(&b'\r');
            rest = end.get(1..).unwrap_or_default();
            if self.line.len() + self.data.len() > self.longest {
                return Err(TooLong);
            }
            whole.extend(self.end_of_line());
        }
        if self.line.len() + self.data.len() > self.longest { Err(TooLong) } else { Ok(whole) }
    }

    fn end_of_line(&mut self) -> Option<Event> {
        let bytes = std::mem::take(&mut self.line);
        let mut line = &*String::from_utf8_lossy(&bytes);
        if std::mem::take(&mut self.fresh) {
            line = line.strip_prefix('\u{feff}').unwrap_or(line);
        }
        if line.is_empty() {
            return self.end_of_event();
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.kind = value.to_owned(),
            "data" => {
                self.data.push_str(value);
                self.data.push('\n');
            }
            "id" if !value.contains('\0') => self.id = Some(value.to_owned()),
            "retry" if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) => {
                self.retry = value.parse().ok().map(Duration::from_millis);
            }
            // A comment, or something that is not known yet.
            _ => {}
        }
        None
    }

    fn end_of_event(&mut self) -> Option<Event> {
        let (kind, mut data) = (std::mem::take(&mut self.kind), std::mem::take(&mut self.data));
        if let Some(id) = &self.id {
            self.last_id = Some(id.clone()).filter(|id| !id.is_empty());
        }
        // Without any data there is no event.
        data.pop()?;
        Some(Event { kind: if kind == "message" { String::new() } else { kind }, data })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn event(kind: &str, data: &str) -> Event {
        Event { kind: kind.to_owned(), data: data.to_owned() }
    }

    /// Everything that a stream can have in it, with one kind of line end.
    fn stream(end: &str) -> String {
        let lines = [
            "\u{feff}: a comment",
            "event: endpoint",
            "data: /messages",
            "",
            "data:{\"a\":",
            "data: 1}",
            "id: 7",
            "retry: 250",
            "",
            ":",
            "",
            "data",
            "",
            "event: message",
            "data:  two spaces",
            "unknown: x",
            "",
            "event: nothing",
            "",
            "data: é€😀",
            "",
            "data: never ended",
        ];
        lines.join(end)
    }

    fn expected() -> Vec<Event> {
        vec![
            event("endpoint", "/messages"),
            event("", "{\"a\":\n1}"),
            event("", ""),
            event("", " two spaces"),
            event("", "é€😀"),
        ]
    }

    #[test]
    fn any_line_end_and_any_cut_give_the_same() {
        for end in ["\n", "\r\n", "\r"] {
            let bytes = stream(end).into_bytes();
            for size in 1..=bytes.len() {
                let mut events = Events::new(1000);
                let found: Vec<Event> = bytes.chunks(size).flat_map(|piece| events.push(piece).unwrap()).collect();
                assert_eq!(found, expected(), "line end {end:?}, pieces of {size}");
                assert_eq!((events.last_id.as_deref(), events.retry), (Some("7"), Some(Duration::from_millis(250))));
            }
        }
    }

    #[test]
    fn an_event_without_data_still_has_a_number() {
        let mut events = Events::new(100);
        assert_eq!(events.push(b"id: a\nretry: x\n\nid: b\0\n\n").unwrap(), []);
        assert_eq!((events.last_id.as_deref(), events.retry), (Some("a"), None));
    }

    #[test]
    fn too_long_is_refused_in_one_line_and_in_many() {
        assert_eq!(Events::new(10).push(b"data: 0123456789"), Err(TooLong));
        let mut events = Events::new(10);
        let results: Vec<bool> = (0..10).map(|_| events.push(b"data: 1\n").is_ok()).collect();
        assert!(results[0] && !results[9], "{results:?}");
    }
}
