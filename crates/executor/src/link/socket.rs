//! The WebSocket: an ordinary request of `guard`'s client that the server answers with a change of protocol.

use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use kitbag_model::run::wire::{FromExecutor, FromServer};
use reqwest::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use reqwest::{Method, StatusCode, Upgraded};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Bytes, Message};

use super::{CONNECT, Link, LinkError, refused, unreachable};

/// The most bytes that a message may have. The largest are lists of a folder's files.
const LARGEST: usize = 64 << 20;

/// How long the other side may take to make room for a message.
const SEND: Duration = Duration::from_secs(60);

/// What the server says.
#[derive(Debug)]
pub struct Reader(SplitStream<WebSocketStream<Upgraded>>);

/// What is said to it.
#[derive(Debug)]
pub struct Writer(SplitSink<WebSocketStream<Upgraded>, Message>);

/// One thing that was heard.
#[derive(Clone, Debug)]
pub enum Heard {
    /// A message.
    Said(FromServer),
    /// The answer to a ping.
    Pong(u64),
    /// Something that only says that somebody is there.
    Alive,
}

impl Link {
    /// Opens the WebSocket.
    pub async fn connect(&self) -> Result<(Reader, Writer), LinkError> {
        let late = |_| LinkError::Unreachable(format!("the server did not answer within {CONNECT:?}"));
        timeout(CONNECT, self.upgraded()).await.map_err(late)?
    }

    async fn upgraded(&self) -> Result<(Reader, Writer), LinkError> {
        let key = generate_key();
        let request = self.request(Method::GET, &self.gateway)?;
        let request = request
            .header(CONNECTION, "Upgrade")
            .header(UPGRADE, "websocket")
            .header(SEC_WEBSOCKET_VERSION, "13")
            .header(SEC_WEBSOCKET_KEY, &key);
        let answer = request.send().await.map_err(|error| unreachable(&error))?;
        if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(if answer.status().is_success() || answer.status().is_redirection() {
                let message = "something that is no WebSocket; is this the address of a Kitbag server?".to_owned();
                LinkError::Busy { status: answer.status().as_u16(), message }
            } else {
                refused(answer).await
            });
        }
        // A cache or a proxy that repeats an older answer cannot know what belongs to this key.
        if answer.headers().get(SEC_WEBSOCKET_ACCEPT).is_none_or(|accept| accept != &derive_accept_key(key.as_bytes()))
        {
            return Err(LinkError::Unreachable("the answer is not for the WebSocket that was asked for".to_owned()));
        }
        let stream = answer.upgrade().await.map_err(|error| unreachable(&error))?;
        let config = WebSocketConfig::default().max_message_size(Some(LARGEST)).max_frame_size(Some(LARGEST));
        let (writer, reader) = WebSocketStream::from_raw_socket(stream, Role::Client, Some(config)).await.split();
        Ok((Reader(reader), Writer(writer)))
    }
}

impl Reader {
    /// The next thing. What was not waited for to its end is not lost.
    pub async fn next(&mut self) -> Result<Heard, LinkError> {
        match self.0.next().await {
            Some(Ok(Message::Text(text))) => Ok(match serde_json::from_str(&text) {
                Ok(said) => Heard::Said(said),
                Err(error) => {
                    // A newer server may have more to say than this version understands.
                    tracing::warn!(%error, "the server said something that is not understood here");
                    Heard::Alive
                }
            }),
            Some(Ok(Message::Close(frame))) => {
                let why = frame.map(|frame| frame.reason.to_string()).filter(|reason| !reason.is_empty());
                Err(LinkError::Unreachable(match why {
                    Some(why) => format!("the server closed the connection: {why}"),
                    None => "the server closed the connection".to_owned(),
                }))
            }
            Some(Ok(Message::Pong(bytes))) => {
                Ok(bytes.as_ref().try_into().map_or(Heard::Alive, |number| Heard::Pong(u64::from_be_bytes(number))))
            }
            Some(Ok(_)) => Ok(Heard::Alive),
            Some(Err(error)) => Err(LinkError::Unreachable(format!("the connection broke: {error}"))),
            None => Err(LinkError::Unreachable("the connection broke".to_owned())),
        }
    }
}

impl Writer {
    /// Says something.
    pub async fn say(&mut self, message: &FromExecutor) -> Result<(), LinkError> {
        let text = serde_json::to_string(message).map_err(|error| LinkError::Unreachable(error.to_string()))?;
        self.send(Message::Text(text.into())).await
    }

    /// Asks whether anybody is there, who answers with the same number.
    pub async fn ping(&mut self, number: u64) -> Result<(), LinkError> {
        self.send(Message::Ping(Bytes::copy_from_slice(&number.to_be_bytes()))).await
    }

    /// Says goodbye. Nobody waits for the answer.
    pub async fn close(mut self) {
        let _ = timeout(Duration::from_secs(1), self.0.close()).await;
    }

    async fn send(&mut self, message: Message) -> Result<(), LinkError> {
        match timeout(SEND, self.0.send(message)).await {
            Ok(sent) => sent.map_err(|error| LinkError::Unreachable(format!("the connection broke: {error}"))),
            Err(_) => Err(LinkError::Unreachable(format!("the server took nothing for {SEND:?}"))),
        }
    }
}
