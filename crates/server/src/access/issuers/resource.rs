//! The MCP endpoints as protected resources (RFC 9728): what they are called, who gives tokens for them, and what a client that brings
//! none is told.

use axum::Json;
use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri, header};
use serde_json::{Value, json};

use super::base_url;
use super::lent::Door;
use crate::api::error::{ApiError, Code, no_such_route};
use crate::app::App;

/// Where the metadata of a resource is: this, and then the resource's own path.
pub(crate) const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// What an endpoint is called. Messages of the older way belong to the stream that they are answered on.
fn resource_path(path: &str) -> &str {
    if path == "/messages" { "/sse" } else { path }
}

/// The audiences that open a door: the endpoint itself, and the whole server.
pub(crate) fn audiences(base: &str, door: &Door) -> Vec<String> {
    let mut all = vec![base.to_owned(), format!("{base}/")];
    if let Door::Mcp(path) = door {
        all.push(format!("{base}{}", resource_path(path)));
    }
    all
}

/// `GET /.well-known/oauth-protected-resource`, and the same with the path of an MCP endpoint behind. Whether there is such an organisation
/// or toolset it does not say.
pub(crate) async fn metadata(State(app): State<App>, uri: Uri, headers: HeaderMap) -> Result<Json<Value>, ApiError> {
    let issuers: Vec<&str> = app.issuers().for_clients().map(|issuer| issuer.settings().issuer.as_str()).collect();
    if issuers.is_empty() {
        return Err(no_such_route(uri).await);
    }
    let path = uri.path().strip_prefix(WELL_KNOWN).unwrap_or_default();
    Ok(Json(json!({
        "resource": format!("{}{path}", base_url(&app, &headers)),
        "resource_name": "Kitbag",
        "authorization_servers": issuers,
        "scopes_supported": scopes(&app, |settings| vec![settings.use_scope.clone(), settings.manage_scope.clone()]),
        "bearer_methods_supported": ["header"],
    })))
}

/// Adds to a refusal at an MCP endpoint where tokens are to be had, if there are issuers who give some.
pub(crate) fn challenged(app: &App, parts: &Parts, error: ApiError) -> ApiError {
    if app.issuers().for_clients().next().is_none() {
        return error;
    }
    let problem = match error.code() {
        Code::Unauthorized if parts.headers.contains_key(header::AUTHORIZATION) => ", error=\"invalid_token\"",
        Code::Unauthorized => "",
        Code::Forbidden => ", error=\"insufficient_scope\"",
        Code::BadRequest => ", error=\"invalid_request\"",
        _ => return error,
    };
    let place = format!("{}{WELL_KNOWN}{}", base_url(app, &parts.headers), resource_path(parts.uri.path()));
    let scopes = scopes(app, |settings| vec![settings.use_scope.clone()]).join(" ");
    error.challenged(&format!("Bearer realm=\"kitbag\", resource_metadata=\"{place}\", scope=\"{scopes}\"{problem}"))
}

fn scopes(app: &App, of: impl Fn(&kitbag_identity::IssuerSettings) -> Vec<String>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for scope in app.issuers().for_clients().flat_map(|issuer| of(issuer.settings())) {
        if !all.contains(&scope) {
            all.push(scope);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_for_one_endpoint_or_the_whole_server() {
        let of = |path: &str| audiences("https://k.example", &Door::Mcp(path.to_owned()));
        assert_eq!(of("/mcp"), ["https://k.example", "https://k.example/", "https://k.example/mcp"]);
        assert!(of("/messages").contains(&"https://k.example/sse".to_owned()));
        assert!(!of("/v1/orgs/a/mcp").contains(&"https://k.example/mcp".to_owned()));
        assert_eq!(audiences("https://k.example", &Door::Api), ["https://k.example", "https://k.example/"]);
    }
}
