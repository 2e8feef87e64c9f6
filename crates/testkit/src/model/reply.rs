//! One answer of the script, with everything that can go wrong in it.

use serde_json::Value;

use super::gate::Gate;

/// What is answered to one request.
#[derive(Clone, Debug)]
pub struct Reply {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) steps: Vec<Step>,
    pub(super) ending: Ending,
    /// Nothing is said at all, not even a head.
    pub(super) mute: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    Say(Vec<u8>),
    Wait(Gate),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Ending {
    /// In good order.
    Finish,
    /// The connection is closed in the middle.
    Cut,
    /// Nothing more comes, and nobody hangs up.
    Hang,
}

impl Reply {
    /// A stream of events, empty so far.
    pub fn events() -> Self {
        Self::new(200).header("content-type", "text/event-stream; charset=utf-8")
    }

    /// A document.
    pub fn json(status: u16, body: &Value) -> Self {
        Self::new(status).header("content-type", "application/json").then(body.to_string())
    }

    /// A status without any body.
    pub fn new(status: u16) -> Self {
        Self { status, headers: Vec::new(), steps: Vec::new(), ending: Ending::Finish, mute: false }
    }

    /// The connection is closed before a word.
    pub fn hang_up() -> Self {
        Self { mute: true, ..Self::new(200).cut() }
    }

    /// The request is taken and never answered.
    pub fn silence() -> Self {
        Self { mute: true, ..Self::new(200).hang() }
    }

    /// Adds a header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Says some bytes, in one piece.
    pub fn then(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.steps.push(Step::Say(bytes.as_ref().to_vec()));
        self
    }

    /// Says an event that is a document.
    pub fn event(self, data: &Value) -> Self {
        self.then(format!("data: {data}\n\n"))
    }

    /// Waits.
    pub fn hold(mut self, gate: &Gate) -> Self {
        self.steps.push(Step::Wait(gate.clone()));
        self
    }

    /// Closes the connection here, in the middle of the body.
    pub fn cut(self) -> Self {
        Self { ending: Ending::Cut, ..self }
    }

    /// Says nothing more here, and does not hang up.
    pub fn hang(self) -> Self {
        Self { ending: Ending::Hang, ..self }
    }

    /// The same bytes in one piece, so that events come together. It has no gates then.
    pub fn in_one_piece(mut self) -> Self {
        let said = |step| if let Step::Say(bytes) = step { bytes } else { Vec::new() };
        self.steps = vec![Step::Say(self.steps.into_iter().flat_map(said).collect())];
        self
    }

    /// The same bytes in pieces of so many, wherever that cuts them.
    pub fn in_pieces_of(mut self, size: usize) -> Self {
        let cut = |step| match step {
            Step::Say(bytes) => bytes.chunks(size).map(|piece| Step::Say(piece.to_vec())).collect(),
            wait @ Step::Wait(_) => vec![wait],
        };
        self.steps = self.steps.into_iter().flat_map(cut).collect();
        self
    }
}
