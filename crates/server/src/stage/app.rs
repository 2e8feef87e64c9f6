//! Shows the app of an MCP server's tool: the page that the server offers for it, in a frame within a frame.
//!
//! The outer document is ours and has the name to itself; it only passes on what the app and Kitbag's page say to each other. The
//! app is below it, without an origin, and reaches what its server declared that it needs and nothing else.

use axum::body::Body;
use axum::http::{Method, Response, StatusCode};
use serde_json::Value;

use super::{FrameOrigin, Stage, plain};

/// The outer document.
const AROUND: &str = include_str!("app.html");

/// What an app may do: run, and show what it has.
const CLOSED: &str =
    "frame-src 'none'; worker-src 'none'; object-src 'none'; base-uri 'none'; form-action 'none'; webrtc 'block'";

/// The most servers of each kind that an app may name.
const MOST_ORIGINS: usize = 50;

/// The policy for an app. `declared` is what its server said about where it has to reach (`_meta.ui.csp`); only servers of the web
/// that are named by their origin and reached over TLS count. Frames in it there are none, whatever was declared.
pub(super) fn policy(declared: Option<&Value>) -> String {
    let origins = |key: &str| -> String {
        let named = declared.and_then(|declared| declared.get(key)).and_then(Value::as_array);
        let texts = named.into_iter().flatten().filter_map(Value::as_str).take(MOST_ORIGINS);
        // A word without a scheme, such as `data:`, would be read as a host.
        let parsed =
            texts.filter(|text| text.starts_with("https://")).filter_map(|text| text.parse::<FrameOrigin>().ok());
        parsed.map(|origin| format!(" {origin}")).collect()
    };
    let (resources, connect) = (origins("resourceDomains"), origins("connectDomains"));
    let connect = if connect.is_empty() { " 'none'" } else { connect.as_str() };
    format!(
        "default-src 'none'; script-src 'unsafe-inline'{resources}; style-src 'unsafe-inline'{resources}; \
         img-src data: blob:{resources}; font-src data:{resources}; media-src data: blob:{resources}; \
         connect-src{connect}; {CLOSED}"
    )
}

pub(super) fn answer(stage: &Stage, (page, policy): (&str, &str), method: &Method, path: &str) -> Response<Body> {
    let html = "text/html; charset=utf-8";
    match path {
        _ if !matches!(*method, Method::GET | Method::HEAD) => {
            stage.plain(StatusCode::METHOD_NOT_ALLOWED, "An app is only looked at.")
        }
        "/" => {
            let own = format!(
                "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; frame-src 'self'; base-uri 'none'; \
                 form-action 'none'; frame-ancestors {}",
                stage.ancestors()
            );
            plain::made(StatusCode::OK, html, &own, AROUND.into())
        }
        "/app" => {
            let policy = format!("sandbox allow-scripts; {policy}; frame-ancestors 'self' {}", stage.ancestors());
            plain::made(StatusCode::OK, html, &policy, page.to_owned().into())
        }
        _ => stage.plain(StatusCode::NOT_FOUND, "There is nothing here but the app itself."),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_is_reached_that_was_not_declared() {
        let shut = policy(None);
        assert!(shut.contains("connect-src 'none'") && shut.contains("script-src 'unsafe-inline';"), "{shut}");
        assert_eq!(policy(Some(&json!({ "connectDomains": "https://a.example", "resourceDomains": [1] }))), shut);
        let some = policy(Some(&json!({
            "connectDomains": ["https://api.example.org", "http://plain.example", "*", "https://x; script-src *", "https://y/path"],
            "resourceDomains": ["https://*.cdn.example:8443", "'self'", "data:"],
            "frameDomains": ["https://framed.example"], "baseUriDomains": ["https://base.example"],
        })));
        assert!(some.contains("connect-src https://api.example.org; "), "{some}");
        assert!(some.contains("script-src 'unsafe-inline' https://*.cdn.example:8443; "), "{some}");
        for none in ["plain.example", "script-src *", "https://y", "framed.example", "base.example", "'self'"] {
            assert!(!some.contains(none), "{none}: {some}");
        }
    }
}
