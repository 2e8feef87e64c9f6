//! Files on their way in and out. However large they are, little of them is in memory at a time: what comes in goes to a
//! file of its own before anybody looks at it, and what goes out is read as fast as the other side takes it.

mod form;
mod inbox;
mod outbox;

use axum::http::Method;

pub(crate) use form::Form;
pub(crate) use inbox::{Inbox, Staged, TransferError};
pub(crate) use outbox::{stream_blob, stream_kept, stream_made, stream_open, stream_sent, stream_staged};

/// Whether a route takes files. Their bodies may be large, and may take as long as they get on.
pub(crate) fn takes_files(method: &Method, route: &str) -> bool {
    let route = route.strip_prefix("/v1/orgs/{org}").unwrap_or_default();
    matches!(
        (method.as_str(), route),
        ("PUT", "/chats/{chat}/workspace/files/{*path}")
            | ("POST", "/chats/{chat}/workspace/uploads" | "/toolsets/import")
    )
}
