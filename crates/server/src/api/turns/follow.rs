//! A turn as server-sent events: what is known of it, then what happens, until it is over.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::{Event as Sent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::access::stay::Stay;
use crate::fair::Share;
use crate::turns::{Entry, Turn};

/// How often a line is sent that says nothing but that the connection is alive.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// So many events are on their way to one listener.
const ON_THE_WAY: usize = 64;

/// Follows a turn from behind a number on, for as long as the listener may hear it. It has its place among those who listen until then.
pub(super) fn follow(turn: Arc<Turn>, after: u64, stay: Stay, share: Share) -> Response {
    let (sender, receiver) = mpsc::channel(ON_THE_WAY);
    tokio::spawn(async move {
        pass_on(turn, after, stay, sender).await;
        drop(share);
    });
    Sse::new(ReceiverStream::new(receiver)).keep_alive(KeepAlive::new().interval(HEARTBEAT)).into_response()
}

async fn pass_on(turn: Arc<Turn>, mut after: u64, mut stay: Stay, sender: mpsc::Sender<Result<Sent, Infallible>>) {
    let mut more = turn.log.listen();
    // Whoever says to have heard more than there is has heard everything; what comes now is news.
    after = after.min(turn.log.last());
    loop {
        let (entries, is_over) = turn.log.behind(after);
        if !entries.is_empty() {
            // There may be more than is taken at once.
            more.mark_changed();
        }
        for entry in entries {
            after = entry.id;
            if sender.send(Ok(sent(&entry))).await.is_err() {
                return;
            }
        }
        if is_over {
            return;
        }
        let rights = tokio::select! {
            biased;
            () = sender.closed() => return,
            () = stay.changed() => true,
            _ = more.changed() => false,
        };
        if rights && !stay.may_stay().await {
            return;
        }
    }
}

fn sent(entry: &Entry) -> Sent {
    Sent::default().id(entry.id.to_string()).event(entry.name).data(&*entry.data)
}
