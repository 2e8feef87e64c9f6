//! Shows a page of a toolset, or one that a tool made, with the call's data in it.
//!
//! It is shut in twice: by the name it is served under, which is no other page's and has no cookie, and by a policy that
//! takes even that name from it, and every way to reach anything.

use axum::body::Body;
use axum::http::{Method, Response, StatusCode};
use kitbag_formats::html::{self, MOST_PAGE_BYTES};
use serde_json::Value;

use super::grants::{Grant, Page};
use super::{Stage, plain};

/// Scripts of the page itself run, and nothing else does.
pub(crate) const SHUT_IN: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
     img-src data: blob:; font-src data:; media-src data: blob:; connect-src 'none'; frame-src 'none'; \
     worker-src 'none'; object-src 'none'; base-uri 'none'; form-action 'none'; webrtc 'block'";

pub(super) async fn answer(
    stage: &Stage,
    grant: &Grant,
    (page, data): (&Page, &Value),
    method: &Method,
    path: &str,
) -> Response<Body> {
    if path != "/" || !matches!(*method, Method::GET | Method::HEAD) {
        return stage.plain(StatusCode::NOT_FOUND, "There is nothing here but the page itself.");
    }
    let artifact;
    let bytes = match page {
        Page::Content(text) => text.as_bytes(),
        Page::Artifact(hash) => match stage.blob(grant, *hash).await {
            Ok(bytes) => {
                artifact = bytes;
                &artifact
            }
            Err(answer) => return answer,
        },
    };
    match html::with_data(bytes, data) {
        Ok(document) => {
            // `sandbox` without `allow-same-origin` makes the origin one that nothing shares, also when the address is opened
            // by itself.
            let policy = format!("sandbox allow-scripts; {SHUT_IN}; frame-ancestors {}", stage.ancestors());
            plain::made(StatusCode::OK, "text/html; charset=utf-8", &policy, document.into())
        }
        Err(error) => stage.plain(StatusCode::UNPROCESSABLE_ENTITY, &format!("This cannot be shown: {error}.")),
    }
}

/// The most bytes of a blob that are read for a page: one more than are shown, so that the refusal says why.
pub(super) const MOST_READ: u64 = MOST_PAGE_BYTES as u64 + 1;
