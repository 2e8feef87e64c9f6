//! `GET /v1/orgs/{org}/chats/{chat}/workspace/files/{path}`

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use kitbag_cas::Kind;
use serde::Deserialize;
use utoipa::IntoParams;

use super::{FilePath, explain, wanted_state};
use crate::access::caller::MayUse;
use crate::access::origin::only;
use crate::api::error::{ApiError, Code, ErrorBody};
use crate::api::input::{PathOf, QueryOf};
use crate::app::App;
use crate::transfer::stream_blob;

/// Which state.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct FileQuery {
    /// A manifest; the active one, with what was changed in the folder since, if absent.
    manifest: Option<String>,
}

/// Read a file
///
/// `Range: bytes=…` gives a part. It is always a download: what a tool wrote must not run as a page of this server.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/chats/{chat}/workspace/files/{*path}", tag = "workspace",
    params(FilePath, FileQuery),
    responses((status = 200, content_type = "application/octet-stream", body = Vec<u8>),
              (status = 206, content_type = "application/octet-stream", body = Vec<u8>), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn get_workspace_file(
    State(app): State<App>,
    caller: MayUse,
    PathOf(at): PathOf<FilePath>,
    QueryOf(query): QueryOf<FileQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let (chat, path) = (at.chat()?, at.path()?);
    let lease = app.workspaces().look(&caller.org, chat).await;
    let manifest = wanted_state(&app, &caller.org, &lease, chat, query.manifest.as_deref()).await?;
    let root = manifest.ok_or_else(|| at.not_found())?.root;
    let entry = lease.find(root, path.clone()).await.map_err(explain(chat))?;
    let entry = entry.filter(|entry| entry.kind != Kind::Folder).ok_or_else(|| at.not_found())?;
    let blob = lease.open(entry.hash).await.map_err(explain(chat))?;
    drop(lease);
    let length = blob.length();
    let kind = mime_guess::from_path(path.as_str()).first_or_octet_stream().to_string();
    let mut answer = HeaderMap::new();
    let mut set = |name, value: String| -> Result<(), ApiError> {
        answer.insert(name, HeaderValue::from_str(&value).map_err(ApiError::internal)?);
        Ok(())
    };
    set(header::CONTENT_TYPE, kind)?;
    set(header::ETAG, format!("\"{}\"", entry.hash))?;
    set(header::ACCEPT_RANGES, "bytes".to_owned())?;
    set(header::CONTENT_DISPOSITION, disposition(path.name()))?;
    // A part of another content than the caller has is of no use to it.
    let tag = format!("\"{}\"", entry.hash);
    let same = !headers.contains_key(header::IF_RANGE) || only(&headers, &header::IF_RANGE) == Some(tag.as_str());
    match only(&headers, &header::RANGE).filter(|_| same).map(|range| parse_range(range, length)) {
        None | Some(Range::Whole) => {
            set(header::CONTENT_LENGTH, length.to_string())?;
            Ok((answer, stream_blob(blob, 0, length)).into_response())
        }
        Some(Range::Part(from, to)) => {
            set(header::CONTENT_RANGE, format!("bytes {from}-{to}/{length}"))?;
            set(header::CONTENT_LENGTH, (to - from + 1).to_string())?;
            Ok((StatusCode::PARTIAL_CONTENT, answer, stream_blob(blob, from, to - from + 1)).into_response())
        }
        Some(Range::Outside) => {
            let message = format!("the file has {length} bytes; the range is outside of it");
            let refusal = ApiError::new(Code::RangeNotSatisfiable, message);
            Ok(([(header::CONTENT_RANGE, format!("bytes */{length}"))], refusal).into_response())
        }
    }
}

/// The name that a browser saves it under, in the form that takes every character.
pub(crate) fn disposition(name: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let encode = |byte: u8| if keep(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    format!("attachment; filename*=UTF-8''{}", name.bytes().map(encode).collect::<String>())
}

#[derive(Debug, Eq, PartialEq)]
enum Range {
    /// Several parts, or another unit: then all of it is a right answer.
    Whole,
    /// From the one byte to the other, both included.
    Part(u64, u64),
    Outside,
}

fn parse_range(text: &str, length: u64) -> Range {
    let Some((from, to)) = text.strip_prefix("bytes=").and_then(|range| range.split_once('-')) else {
        return Range::Whole;
    };
    let (from, to) = match (from.trim().parse::<u64>(), to.trim().parse::<u64>()) {
        (Ok(from), Ok(to)) if from <= to => (from, to),
        (Ok(from), Err(_)) if to.trim().is_empty() => (from, u64::MAX),
        (Err(_), Ok(last)) if from.trim().is_empty() => (length.saturating_sub(last), u64::MAX),
        _ => return Range::Whole,
    };
    if from < length { Range::Part(from, to.min(length - 1)) } else { Range::Outside }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        for (text, range) in [
            ("bytes=0-3", Range::Part(0, 3)),
            ("bytes=4-", Range::Part(4, 9)),
            ("bytes=-3", Range::Part(7, 9)),
            ("bytes=-30", Range::Part(0, 9)),
            ("bytes=8-99", Range::Part(8, 9)),
            ("bytes=10-", Range::Outside),
            ("bytes=-0", Range::Outside),
            ("bytes=5-2", Range::Whole),
            ("bytes=0-1,4-5", Range::Whole),
            ("items=0-1", Range::Whole),
            ("bytes=x-y", Range::Whole),
        ] {
            assert_eq!(parse_range(text, 10), range, "{text}");
        }
        assert_eq!(parse_range("bytes=0-", 0), Range::Outside);
    }
}
