//! Headers that keep a browser from doing more with an answer than was meant.

use axum::http::HeaderName;
use axum::http::HeaderValue;
use axum::http::header;
use axum::response::Response;

/// No script, no frame, nothing from elsewhere. A page that needs more says so itself.
const POLICY: HeaderValue =
    HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'");

const DEFAULTS: [(HeaderName, HeaderValue); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
];

pub(super) fn secure(response: &mut Response) {
    let headers = response.headers_mut();
    headers.reserve(DEFAULTS.len());
    for (name, value) in DEFAULTS {
        headers.entry(name).or_insert(value);
    }
}
