//! `GET /openapi.json`: made from the handlers, so it cannot drift.

use std::sync::LazyLock;

use axum::body::Bytes;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use utoipa::openapi::OpenApi as Document;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};

use crate::access::permissions;
use crate::router::endpoints;

/// The frame that the endpoints are put into.
#[derive(OpenApi)]
#[openapi(
    info(title = "Kitbag", description = "Packages tools, runs them, shows their results and serves them to any agent."),
    tags(
        (name = "chats", description = "Conversations, each with a workspace of its own."),
        (name = "messages", description = "The tree of a chat."),
        (name = "turns", description = "Models that answer in chats, with the chats' tools."),
        (name = "workspace", description = "The folder of a chat, and every state it was ever in."),
        (name = "gallery", description = "What organisations publish for everybody, and how it is adopted."),
        (name = "builder", description = "Toolsets put together with a model's help."),
        (name = "people", description = "Signing in, and what a person may see and change of themselves."),
        (name = "organizations", description = "Tenants, their members, and ways in."),
        (name = "tokens", description = "Who may enter, and with which rights."),
        (name = "audit", description = "Who did what."),
        (name = "runs", description = "Agents at work on executors, with a toolset."),
        (name = "executors", description = "Machines that run agents."),
        (name = "operations", description = "For those who run the server."),
    ),
    security(("token" = [])),
    modifiers(&Schemes),
)]
pub(crate) struct ApiDoc;

/// How one proves who one is.
struct Schemes;

impl Modify for Schemes {
    fn modify(&self, document: &mut Document) {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(scheme));
        let executor = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        components.add_security_scheme("executor", SecurityScheme::Http(executor));
        let about = "What a browser gets when somebody signs in. The name has the port of the server in it.";
        let cookie = ApiKeyValue::with_description("kitbag_8700", about);
        components.add_security_scheme("cookie", SecurityScheme::ApiKey(ApiKey::Cookie(cookie)));
    }
}

/// The whole document.
pub fn document() -> Document {
    let mut document = endpoints().into_openapi();
    // What takes the rest of a path is marked with `*` in our routes; OpenAPI has no word for it.
    let paths = std::mem::take(&mut document.paths.paths);
    document.paths.paths = paths.into_iter().map(|(path, item)| (path.replace("{*", "{"), item)).collect();
    permissions::declare(&mut document);
    document
}

pub(crate) async fn serve() -> Response {
    static JSON: LazyLock<Bytes> = LazyLock::new(|| {
        Bytes::from(serde_json::to_vec(&document()).expect("a document made of texts and maps is JSON"))
    });
    ([(header::CONTENT_TYPE, "application/json")], JSON.clone()).into_response()
}
