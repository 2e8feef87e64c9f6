//! What is shown where there is nothing to show: a line of text that says why.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode, header};

/// Headers of everything that the stage itself makes: nothing is kept, guessed, or told to others.
pub(super) const CAREFUL: [(HeaderName, &str); 6] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("x-dns-prefetch-control"), "off"),
    (
        HeaderName::from_static("permissions-policy"),
        "camera=(), clipboard-read=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()",
    ),
];

/// An answer in plain text, which our own page may show in a frame.
pub(super) fn answer(status: StatusCode, ancestors: &str, text: &str) -> Response<Body> {
    let policy = format!("default-src 'none'; sandbox; frame-ancestors {ancestors}");
    made(status, "text/plain; charset=utf-8", &policy, format!("{text}\n").into())
}

/// An answer of the stage's own.
pub(super) fn made(status: StatusCode, kind: &'static str, policy: &str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    for (name, value) in CAREFUL {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    let policy = HeaderValue::from_str(policy).unwrap_or(HeaderValue::from_static("default-src 'none'; sandbox"));
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    response
}
