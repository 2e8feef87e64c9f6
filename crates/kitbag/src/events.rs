//! The stream of what happens, as the server tells it. It knows how events travel, not what they mean.

use serde_json::Value;

use crate::client::{Answer, Client, segment};
use crate::failure::Failure;

/// Something that happened.
pub(crate) struct Event {
    /// Its number, where events have some.
    pub(crate) id: Option<u64>,
    pub(crate) name: String,
    pub(crate) data: Value,
}

/// What happens in a chat, and to all.
pub(crate) struct Events {
    answer: Answer,
    buffer: Vec<u8>,
}

impl Events {
    /// Listens. From now on nothing is missed.
    pub(crate) async fn of_chat(client: &Client, chat: &str) -> Result<Self, Failure> {
        Self::listen(client, &format!("/v1/orgs/local/events?chat={}", segment(chat))).await
    }

    /// Listens to everything.
    pub(crate) async fn of_all(client: &Client) -> Result<Self, Failure> {
        Self::listen(client, "/v1/orgs/local/events").await
    }

    /// Listens to something that does not say when it has begun.
    pub(crate) async fn at(client: &Client, path: &str) -> Result<Self, Failure> {
        Ok(Self { answer: client.stream(path).await?, buffer: Vec::new() })
    }

    /// What is asked with a body, and answered bit by bit.
    pub(crate) async fn asked(client: &Client, path: &str, body: &Value) -> Result<Self, Failure> {
        Ok(Self { answer: client.post_stream(path, body).await?, buffer: Vec::new() })
    }

    async fn listen(client: &Client, path: &str) -> Result<Self, Failure> {
        let mut events = Self { answer: client.stream(path).await?, buffer: Vec::new() };
        // The first one says that it has begun.
        events.next().await;
        Ok(events)
    }

    /// The next one; none when there are no more. Nothing is lost if this is not waited for to its end.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\n\n") {
                let block: Vec<u8> = self.buffer.drain(..end + 2).collect();
                if let Some(event) = parse(&String::from_utf8_lossy(&block)) {
                    return Some(event);
                }
                continue;
            }
            match self.answer.next().await {
                Ok(Some(part)) => self.buffer.extend_from_slice(&part),
                Ok(None) | Err(_) => return None,
            }
        }
    }
}

/// An event; none if the block is a comment.
fn parse(block: &str) -> Option<Event> {
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
    let id = field("id").and_then(|id| id.parse().ok());
    Some(Event { id, name: field("event")?.to_owned(), data: serde_json::from_str(field("data")?).ok()? })
}
