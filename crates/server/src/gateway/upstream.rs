//! Requests to the servers behind us, and their answers in the words of the client's revision.

use std::sync::Arc;
use std::time::Duration;

use kitbag_mcp::connection::{Call, CallError};
use kitbag_mcp::manager::ManagerError;
use kitbag_mcp::serve::{Client, Fault, code};
use kitbag_mcp::shallow::Shallow;
use kitbag_model::{ServerKey, ToolId};
use serde_json::Value;
use serde_json::value::RawValue;

use super::beside::Beside;
use super::renamed;
use super::view::View;

/// What only the connection to a client has to do with: a server behind us is told by our own.
const OURS: [&str; 5] = [
    "progressToken",
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/clientInfo",
    "io.modelcontextprotocol/clientCapabilities",
    "io.modelcontextprotocol/subscriptionId",
];

/// What results of the newest revision have and older ones do not.
const NEWER: [&str; 3] = ["resultType", "ttlMs", "cacheScope"];

impl View {
    /// Makes a request of a server and brings its answer in the client's words.
    pub(super) async fn forward(
        &self,
        server: &ServerKey,
        method: &str,
        params: Shallow,
        client: &Client,
    ) -> Result<Box<RawValue>, Fault> {
        let beside = Beside::new(client, &self.owner, &self.level, Some((self.tokens.clone(), server.clone())));
        let mut params = passed_on(params);
        if method != "logging/setLevel" {
            beside.tell_level(&mut params);
        }
        let mut call = Call::new(method, params, self.patience(), client.stopping());
        call.beside = Some(Arc::clone(&beside) as _);
        call.relay = client.peer().stateless;
        if client.wants_progress() {
            let (told, mut said) = tokio::sync::mpsc::unbounded_channel();
            call.progress = Some(told);
            let client = client.clone();
            tokio::spawn(async move {
                while let Some(Value::Object(params)) = said.recv().await {
                    client.progress(params);
                }
            });
        }
        let answer = self.app.servers().manager(&self.org).call(&self.org, server, call).await;
        let stateless = client.peer().stateless;
        answer.map(|raw| era(raw, stateless)).map_err(|error| {
            let told = refused(server, error, stateless);
            beside.lacking().unwrap_or(told)
        })
    }

    pub(super) fn patience(&self) -> Duration {
        self.app.settings().calls.tool_timeout
    }
}

/// The parameters of a client's request as they go on: all of them, but what belongs to its own connection.
pub(super) fn passed_on(mut params: Shallow) -> Shallow {
    // One that cannot be taken apart (a name stands in it twice) could hide what is ours in it.
    let mut meta: Shallow = params.parse("_meta").unwrap_or_default();
    OURS.iter().for_each(|name| drop(meta.remove(name)));
    match meta.is_empty() {
        true => drop(params.remove("_meta")),
        false => params.set("_meta", meta.raw()),
    }
    params
}

/// A result as a client of this era reads it. What is missing in the newest revision is added where it is needed.
pub(super) fn era(raw: Box<RawValue>, stateless: bool) -> Box<RawValue> {
    if stateless || !NEWER.iter().any(|name| raw.get().contains(name)) {
        return raw;
    }
    let Some(mut result) = Shallow::read(&raw) else { return raw };
    let had = NEWER.iter().filter(|name| result.remove(name).is_some()).count();
    if had == 0 { raw } else { result.raw() }
}

/// A call's result as a client of this era reads it. One with a session takes nothing but an object for structured; what a server says
/// besides is in the content, too.
pub(super) fn of_call(raw: Box<RawValue>, stateless: bool) -> Box<RawValue> {
    let raw = era(raw, stateless);
    if stateless || !raw.get().contains("structuredContent") {
        return raw;
    }
    let Some(mut result) = Shallow::read(&raw) else { return raw };
    match result.get("structuredContent").is_some_and(|content| !content.get().starts_with('{')) {
        true => {
            result.remove("structuredContent");
            result.raw()
        }
        false => raw,
    }
}

/// Says how long a list may be kept, where a client wants to know and nobody said.
pub(super) fn cached(raw: Box<RawValue>, stateless: bool) -> Box<RawValue> {
    let Some(mut result) = Shallow::read(&raw).filter(|_| stateless) else { return raw };
    if result.get("ttlMs").is_none() {
        result.set_value("ttlMs", &0.into());
    }
    // What one client gets depends on its token and its settings.
    result.set_value("cacheScope", &"private".into());
    result.raw()
}

/// What a server refuses, its client gets to hear; what is wrong with the connection too.
pub(super) fn refused(server: &ServerKey, error: ManagerError, stateless: bool) -> Fault {
    match error {
        ManagerError::Call(CallError::Refused { code, message, data }) => {
            let about_resource = data.as_ref().is_some_and(|data| data.get("uri").is_some());
            let code = match (code, stateless) {
                (code::RESOURCE_NOT_FOUND, true) => code::INVALID_PARAMS,
                (code::INVALID_PARAMS, false) if about_resource => code::RESOURCE_NOT_FOUND,
                (code, _) => code,
            };
            data.into_iter().fold(Fault::new(code, message), Fault::with_data)
        }
        other => Fault::new(code::INTERNAL, format!("{server}: {other}")),
    }
}

/// Addresses of resources in a tool's result, where they say whose they are.
pub(super) fn rename_links(raw: Box<RawValue>, tool: &ToolId) -> Box<RawValue> {
    let ToolId::Mcp { server, .. } = tool else { return raw };
    if !raw.get().contains("\"resource") {
        return raw;
    }
    renamed::result(raw, |result| renamed::links(result, "content", server))
}

/// The extension for skills.
pub(super) const SKILLS: &str = "io.modelcontextprotocol/skills";

/// Whether a method belongs to an extension that the server offers.
pub(super) fn is_extension(capabilities: &Value, method: &str) -> bool {
    let offers = |name: &str| capabilities.pointer(&format!("/extensions/io.modelcontextprotocol~1{name}")).is_some();
    match method {
        "tasks/get" | "tasks/update" | "tasks/cancel" => offers("tasks"),
        "skills/list" | "skills/get" | "resources/directory/read" => offers("skills"),
        _ => false,
    }
}
