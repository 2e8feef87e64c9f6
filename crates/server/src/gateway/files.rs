//! The files of the client's workspace, as resources.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kitbag_cas::{Entry, Kind};
use kitbag_mcp::serve::Fault;
use kitbag_mcp::shallow::Shallow;
use kitbag_model::WorkPath;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::lists::no_resource;
use super::tools::{fault, internal};
use super::view::View;
use crate::api::workspace::explain;

/// How the address of a file begins.
const SCHEME: &str = "workspace:///";

/// So many files are on one page of the list.
const MOST: usize = 1000;

/// The largest file that is read at once.
const LARGEST: u64 = 16 << 20;

pub(super) fn is_file(uri: &str) -> bool {
    uri.starts_with(SCHEME)
}

/// How the place begins where a list of files goes on. A server whose own places begin like that hides its later pages behind ours.
const BEHIND: &str = "kitbag-workspace:";

/// The file that a page of the list comes after. None if the page is none of ours.
pub(super) fn behind(params: &Shallow) -> Result<Option<WorkPath>, Fault> {
    let cursor = params.text("cursor");
    let Some(place) = cursor.as_deref().and_then(|cursor| cursor.strip_prefix(BEHIND)) else { return Ok(None) };
    path_of(place).map(Some).ok_or_else(|| Fault::params("`cursor` is none that was given"))
}

/// The files behind one, in order, and where the list goes on, as far as the client has a workspace yet: to look at what there is makes
/// none.
pub(super) async fn list(view: &View, behind: Option<&WorkPath>) -> Result<(Vec<Value>, Option<String>), Fault> {
    let Some(chat) = view.known_chat().await? else { return Ok((Vec::new(), None)) };
    let lease = view.app.workspaces().look(&view.org, chat).await;
    let wrong = |error| fault(explain(chat)(error));
    let Some(state) = lease.active().await.map_err(wrong)? else { return Ok((Vec::new(), None)) };
    let mut files = lease.entries(state.root).await.map_err(wrong)?;
    files.retain(|(path, entry)| is_one(entry.kind) && behind.is_none_or(|behind| path > behind));
    files.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    let more = files.len() > MOST;
    files.truncate(MOST);
    let last = files.last().filter(|_| more);
    let next = last.map(|(path, _)| format!("{BEHIND}{}", escaped(path.as_str())));
    let shown = |(path, entry): (WorkPath, Entry)| {
        json!({
            "uri": address(&path), "name": path.name(), "size": entry.size, "mimeType": kind(path.as_str()),
        })
    };
    Ok((files.into_iter().map(shown).collect(), next))
}

/// What is another text when a file is other than before; none: there is no such file.
pub(super) async fn mark(view: &View, uri: &str) -> Result<Option<String>, Fault> {
    let path = decoded(uri).ok_or_else(|| no_resource(uri, false))?;
    let Some(chat) = view.known_chat().await? else { return Ok(None) };
    let lease = view.app.workspaces().look(&view.org, chat).await;
    let wrong = |error| fault(explain(chat)(error));
    let Some(state) = lease.active().await.map_err(wrong)? else { return Ok(None) };
    let entry = lease.find(state.root, path).await.map_err(wrong)?;
    Ok(entry.filter(|entry| is_one(entry.kind)).map(|entry| entry.hash.to_string()))
}

/// How to read a file whose path is known.
pub(super) fn template() -> Value {
    json!({
        "uriTemplate": format!("{SCHEME}{{+path}}"), "name": "workspace file",
        "description": "A file of the workspace that the tools use.",
    })
}

/// One file.
pub(super) async fn read(view: &View, uri: &str, stateless: bool) -> Result<Box<RawValue>, Fault> {
    let missing = || no_resource(uri, stateless);
    let path = decoded(uri).ok_or_else(missing)?;
    let chat = view.known_chat().await?.ok_or_else(missing)?;
    let lease = view.app.workspaces().look(&view.org, chat).await;
    let wrong = |error| fault(explain(chat)(error));
    let state = lease.active().await.map_err(wrong)?.ok_or_else(missing)?;
    let entry = lease.find(state.root, path.clone()).await.map_err(wrong)?;
    let entry = entry.filter(|entry| is_one(entry.kind)).ok_or_else(missing)?;
    if entry.size > LARGEST {
        let message = format!("{uri} has {} bytes; at most {LARGEST} are read at once", entry.size);
        return Err(Fault::params(message));
    }
    let bytes = lease.read(entry.hash).await.map_err(wrong)?;
    drop(lease);
    let mut content = json!({ "uri": uri, "mimeType": kind(path.as_str()) });
    match String::from_utf8(bytes) {
        Ok(text) => content["text"] = text.into(),
        Err(error) => content["blob"] = STANDARD.encode(error.as_bytes()).into(),
    }
    to_raw_value(&json!({ "contents": [content] })).map_err(|error| internal(&error))
}

/// Links are not followed, and folders have nothing to read.
fn is_one(kind: Kind) -> bool {
    matches!(kind, Kind::File | Kind::Executable)
}

fn address(path: &WorkPath) -> String {
    format!("{SCHEME}{}", escaped(path.as_str()))
}

fn decoded(uri: &str) -> Option<WorkPath> {
    path_of(uri.strip_prefix(SCHEME)?)
}

/// A path as addresses spell it.
pub(super) fn escaped(path: &str) -> String {
    let mut url = "x:///x".parse::<url::Url>().ok();
    if let Some(mut segments) = url.as_mut().and_then(|url| url.path_segments_mut().ok()) {
        segments.clear().extend(path.split('/'));
    }
    url.map_or_else(|| path.to_owned(), |url| url.path().trim_start_matches('/').to_owned())
}

/// One name in an address, whatever it has in it.
pub(super) fn escaped_part(name: &str) -> String {
    let mut url = "x:///".parse::<url::Url>().ok();
    if let Some(mut segments) = url.as_mut().and_then(|url| url.path_segments_mut().ok()) {
        segments.clear().push(name);
    }
    url.map_or_else(|| name.to_owned(), |url| url.path().strip_prefix('/').unwrap_or_default().to_owned())
}

/// The path that the end of an address means.
pub(super) fn path_of(text: &str) -> Option<WorkPath> {
    let pair = format!("x={}", text.replace('+', "%2B").replace('&', "%26"));
    let (_, path) = url::form_urlencoded::parse(pair.as_bytes()).next()?;
    path.parse().ok()
}

pub(super) fn kind(path: &str) -> String {
    mime_guess::from_path(path).first_raw().unwrap_or("application/octet-stream").to_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lead_back() {
        for text in ["a.txt", "a b/ü?#&+%.md", "deep/er/x=1"] {
            let path: WorkPath = text.parse().unwrap();
            assert_eq!(decoded(&address(&path)).unwrap(), path, "{}", address(&path));
        }
        for bad in ["workspace:///../x", "workspace:///", "workspace:////etc/passwd", "file:///x"] {
            assert_eq!(decoded(bad), None, "{bad}");
        }
    }
}
