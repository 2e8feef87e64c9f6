//! The older way over HTTP (2024-11-05): one stream brings everything that the server says, and its first event tells where
//! to post. That place must be of the same origin: what is posted there carries the server's headers and token.

use std::sync::Arc;

use http::Method;
use http::header::{HeaderMap, HeaderValue};
use kitbag_guard::dial::{Answer, Event, Events};
use tokio::task::JoinHandle;
use url::Url;

use super::outbox::Outbox;
use super::web::{Web, is_kind, with};
use super::{Link, Outgoing, WebServer};
use crate::connection::{Boxed, CallError};
use crate::lasting::Lasting;

/// How much of an answer to a post is read, which is only to use the connection again.
const ACCEPTED: usize = 64 << 10;

pub(crate) struct Sse {
    web: Arc<WebServer>,
    post: Url,
    reader: JoinHandle<()>,
    outbox: Outbox,
}

impl Sse {
    /// Opens the stream and waits for the place to post to.
    pub(crate) async fn connect(server: WebServer) -> Result<Arc<Self>, CallError> {
        let web = &server.0;
        let mut response = web.send(Method::GET, &web.url, accept(), None).await?;
        if !response.status().is_success() || !is_kind(&response, "text/event-stream") {
            let status = response.status();
            let why = format!(
                "there is no stream of events (HTTP {status}); if it is a newer server, its type is `streamable-http`"
            );
            return Err(CallError::Nonsense(why));
        }
        let mut events = Events::new(web.longest);
        let mut first = Vec::new();
        let place = loop {
            let piece = response.chunk().await.ok().flatten();
            let Some(piece) = piece else {
                return Err(CallError::Nonsense("its stream ended before it said where to post".to_owned()));
            };
            first.extend(events.push(&piece).map_err(|_| too_long(web.longest))?);
            if let Some(at) = first.iter().position(|event| event.kind == "endpoint") {
                break first.drain(..=at).next_back();
            }
        };
        let place = place.map(|event| event.data).unwrap_or_default();
        let post = web.url.join(place.trim()).ok().filter(|post| post.origin() == web.url.origin());
        let Some(post) = post else {
            return Err(CallError::Nonsense("it wants messages posted to another server".to_owned()));
        };
        let web = Arc::new(server);
        let reader = tokio::spawn(read(web.clone(), response, events, first));
        Ok(Arc::new(Self { web, post, reader, outbox: Outbox::new() }))
    }
}

impl Link for Sse {
    fn send(&self, message: Outgoing) -> Option<Lasting> {
        let (web, place) = (self.web.clone(), self.post.clone());
        self.outbox.send(message, async move |message| post(&web.0, &place, message).await)
    }

    fn ended(&self) -> Boxed<'_, ()> {
        self.reader.abort();
        Box::pin(std::future::ready(()))
    }
}

impl Drop for Sse {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

async fn post(web: &Web, place: &Url, message: Outgoing) {
    let sent = async {
        let mut response = web.send(Method::POST, place, accept(), Some(message.body.into())).await?;
        let _ = web.body(&mut response, ACCEPTED).await;
        let status = response.status();
        if status.is_success() { Ok(()) } else { Err(CallError::Nonsense(format!("HTTP {status}"))) }
    };
    // Some servers hold the post until the answer is out, and who waits for that has a deadline of their own.
    let sent = tokio::time::timeout(web.answer, sent).await;
    match (sent.unwrap_or(Ok(())), message.id) {
        (Err(error), Some(id)) => web.hub.fail(id, error),
        (Err(error), None) => web.hub.log(&format!("the server did not take a message: {error}")),
        (Ok(()), _) => {}
    }
}

async fn read(server: Arc<WebServer>, mut response: Answer, mut events: Events, first: Vec<Event>) {
    let (web, mut found) = (&server.0, first);
    loop {
        let messages = found.iter().filter(|event| event.kind.is_empty());
        let unasked = messages.map(|event| web.hub.receive(event.data.as_bytes(), None)).sum();
        web.hub.pace(unasked).await;
        let piece = tokio::select! {
            piece = response.chunk() => piece,
            () = web.hub.closed() => return,
        };
        let Ok(Some(piece)) = piece else { return web.hub.close("the server ended its stream") };
        match events.push(&piece) {
            Ok(more) => found = more,
            Err(_) => return web.hub.close(&format!("the server sent more than {} bytes at once", web.longest)),
        }
    }
}

fn accept() -> HeaderMap {
    with(None, HeaderValue::from_static("application/json, text/event-stream"))
}

fn too_long(longest: usize) -> CallError {
    CallError::Nonsense(format!("it has more than {longest} bytes"))
}
