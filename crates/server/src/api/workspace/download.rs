//! `GET /v1/orgs/{org}/chats/{chat}/workspace/archive`

use std::io::{self, Read};

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use kitbag_cas::blobs::{BlobReader, Blobs};
use kitbag_cas::{Entry, Kind, tree};
use kitbag_formats::archive::ArchiveWriter;
use kitbag_model::WorkPath;
use serde::Deserialize;
use utoipa::IntoParams;

use super::get_file::disposition;
use super::{explain, wanted_state};
use crate::access::caller::MayUse;
use crate::api::chats::ChatPath;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::{PathOf, QueryOf};
use crate::app::App;
use crate::transfer::stream_made;

/// Which state, and which part of it.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ArchiveQuery {
    /// A manifest; the active one, with what was changed in the folder since, if absent.
    manifest: Option<String>,
    /// Only what is in this folder, as if it were the whole.
    folder: Option<String>,
}

/// Download the workspace as a ZIP
///
/// Links are left out: an archive with links is refused in most places, here too. How many is in `Kitbag-Links-Left-Out`.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/chats/{chat}/workspace/archive", tag = "workspace",
    params(ChatPath, ArchiveQuery),
    responses((status = 200, content_type = "application/zip", body = Vec<u8>), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn download_workspace(
    State(app): State<App>,
    caller: MayUse,
    PathOf(path): PathOf<ChatPath>,
    QueryOf(query): QueryOf<ArchiveQuery>,
) -> Result<Response, ApiError> {
    let chat = path.id()?;
    let lease = app.workspaces().look(&caller.org, chat).await;
    let manifest = wanted_state(&app, &caller.org, &lease, chat, query.manifest.as_deref()).await?;
    let root = manifest.map_or_else(|| tree::empty().root, |manifest| manifest.root);
    let mut entries = lease.entries(root).await.map_err(explain(chat))?;
    if let Some(folder) = &query.folder {
        folder.parse::<WorkPath>().map_err(|reason| ApiError::invalid("folder", reason))?;
        entries = below(folder, entries);
        if entries.is_empty() {
            return Err(ApiError::not_found("folder", folder));
        }
    }
    let links = entries.iter().filter(|(_, entry)| entry.kind == Kind::Link).count();
    let blobs = lease.blobs().await.map_err(explain(chat))?;
    // A state that is kept keeps its blobs, so others may go on while this is read.
    drop(lease);
    let body = stream_made(move |out| write(&*blobs, &entries, out));
    let name = query.folder.as_deref().and_then(|folder| folder.rsplit('/').next()).unwrap_or("workspace");
    let headers = [
        (header::CONTENT_TYPE.as_str(), "application/zip".to_owned()),
        (header::CONTENT_DISPOSITION.as_str(), disposition(&format!("{name}.zip"))),
        ("kitbag-links-left-out", links.to_string()),
    ];
    Ok((headers, body).into_response())
}

/// What is in a folder, by its path there.
fn below(folder: &str, entries: Vec<(WorkPath, Entry)>) -> Vec<(WorkPath, Entry)> {
    let inside = |path: &WorkPath| path.as_str().strip_prefix(folder)?.strip_prefix('/')?.parse().ok();
    entries.into_iter().filter_map(|(path, entry)| Some((inside(&path)?, entry))).collect()
}

fn write(blobs: &dyn Blobs, entries: &[(WorkPath, Entry)], out: &mut dyn io::Write) -> io::Result<()> {
    let mut archive = ArchiveWriter::new(out);
    for (path, entry) in entries {
        match entry.kind {
            Kind::Link => {}
            Kind::Folder => archive.folder(path).map_err(io::Error::other)?,
            Kind::File | Kind::Executable => {
                let blob = blobs.open(&entry.hash).map_err(io::Error::other)?;
                let mut content = Content { blob: &*blob, at: 0 };
                archive.file(path, entry.kind == Kind::Executable, &mut content).map_err(io::Error::other)?;
            }
        }
    }
    archive.finish().map(drop).map_err(io::Error::other)
}

/// A blob from its beginning to its end.
struct Content<'a> {
    blob: &'a dyn BlobReader,
    at: u64,
}

impl Read for Content<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.blob.read_at(buffer, self.at).map_err(io::Error::other)?;
        self.at += count as u64;
        Ok(count)
    }
}
