//! `POST /v1/orgs/{org}/chats/{chat}/workspace/uploads`

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header;
use kitbag_formats::archive::{self, Archive, ArchiveError, Entry};
use kitbag_model::{ChatId, OrgId, WorkPath};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{EntryView, explain};
use crate::access::caller::MayUse;
use crate::api::chats::ChatPath;
use crate::api::error::{ApiError, Code, ErrorBody};
use crate::api::input::{PathOf, QueryOf};
use crate::app::{App, Settings};
use crate::edge::refusing;
use crate::transfer::Form;
use crate::workspaces::{Arriving, Upload};

/// Where to, and what about names that are taken.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct UploadQuery {
    /// The folder that the files go to; the workspace itself, if absent.
    folder: Option<String>,
    /// Whether a file replaces one of the same name. If not, it gets another: `name_1.ext`.
    #[serde(default)]
    replace: bool,
}

/// An archive is in memory while it is unpacked.
const LARGEST_ARCHIVE: u64 = 256 << 20;

/// What came with a request.
struct Arrived {
    folders: Vec<WorkPath>,
    files: Vec<Upload>,
    /// What is counted of them until they are in the workspace.
    _arriving: Option<Arriving>,
}

/// A form with files.
#[derive(ToSchema)]
#[allow(dead_code, reason = "it describes the form; the parts are read one by one")]
pub(crate) struct UploadForm {
    /// The files. A file's name may be a path below the folder.
    #[schema(value_type = Vec<String>, format = Binary)]
    file: Vec<Vec<u8>>,
}

/// What was uploaded.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Uploaded {
    files: Vec<UploadedFile>,
    /// The state that has them.
    manifest_id: String,
}

/// One file of an upload.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UploadedFile {
    path: String,
    /// What it would be called if that name had been free.
    requested_path: String,
    #[serde(flatten)]
    entry: EntryView,
}

/// Upload many files, or an archive of them
///
/// A form (`multipart/form-data`) whose parts are files, or a ZIP (`application/zip`) that is unpacked. Everything arrives or
/// nothing does.
#[utoipa::path(
    post, path = "/v1/orgs/{org}/chats/{chat}/workspace/uploads", tag = "workspace",
    params(ChatPath, UploadQuery),
    request_body(content((UploadForm = "multipart/form-data"), (Vec<u8> = "application/zip"))),
    responses((status = 200, body = Uploaded), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn upload_workspace_files(
    State(app): State<App>,
    caller: MayUse,
    PathOf(path): PathOf<ChatPath>,
    QueryOf(query): QueryOf<UploadQuery>,
    request: Request,
) -> Result<Json<Uploaded>, ApiError> {
    let chat = path.id()?;
    let folder = query.folder.unwrap_or_default();
    if !folder.is_empty() {
        folder.parse::<WorkPath>().map_err(|reason| ApiError::invalid("folder", reason))?;
    }
    // Before the files are taken: nobody wants to wait for them to hear that there is no such chat.
    app.store().read(&caller.org).await?.chat(chat).await?.ok_or_else(|| path.not_found())?;
    let arriving = match app.workspaces().arriving(&caller.org, request.headers()).await {
        Ok(arriving) => arriving,
        Err(error) => return Err(refusing(request.into_body(), error.into()).await),
    };
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let arrived = match kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
        "multipart/form-data" => from_form(&app, request, &folder, arriving).await?,
        "application/zip" | "application/x-zip-compressed" => {
            unpack(&app, &caller.org, request.into_body(), folder, arriving).await?
        }
        _ => {
            let message = "the files must come as multipart/form-data, or as a ZIP with Content-Type: application/zip";
            return Err(ApiError::new(Code::UnsupportedMediaType, message));
        }
    };
    if arrived.files.is_empty() && arrived.folders.is_empty() {
        return Err(ApiError::new(Code::BadRequest, "there is no file in the body"));
    }
    keep(&app, &caller, chat, arrived, query.replace).await
}

async fn keep(
    app: &App,
    caller: &MayUse,
    chat: ChatId,
    arrived: Arrived,
    replace: bool,
) -> Result<Json<Uploaded>, ApiError> {
    let requested: Vec<String> = arrived.files.iter().map(|file| file.path.to_string()).collect();
    let lease = app.workspaces().edit(&caller.org, chat).await?;
    let (manifest, names) = lease.upload(arrived.folders, arrived.files, replace).await.map_err(explain(chat))?;
    let went = || ApiError::new(Code::Conflict, "a file went away while it was written");
    let manifest = manifest.ok_or_else(went)?;
    let mut files = Vec::with_capacity(names.len());
    for (name, requested_path) in names.into_iter().zip(requested) {
        let path = name.to_string();
        let entry = lease.find(manifest.root, name).await.map_err(explain(chat))?.ok_or_else(went)?;
        files.push(UploadedFile { path, requested_path, entry: entry.into() });
    }
    Ok(Json(Uploaded { files, manifest_id: manifest.id.to_string() }))
}

async fn from_form(app: &App, request: Request, folder: &str, arriving: Arriving) -> Result<Arrived, ApiError> {
    let mut form = Form::open(app, request, app.settings().max_upload_bytes, Some(arriving)).await?;
    let mut files = Vec::new();
    while let Some(one) = form.next().await? {
        let path = WorkPath::below(folder, &one.name).map_err(|reason| {
            ApiError::new(Code::BadRequest, format!("the file name {:?} cannot be used: {reason}", one.name))
        })?;
        files.push(Upload { path, file: one.file, executable: None });
    }
    Ok(Arrived { folders: Vec::new(), files, _arriving: form.into_arriving() })
}

async fn unpack(
    app: &App,
    org: &OrgId,
    body: Body,
    folder: String,
    mut arriving: Arriving,
) -> Result<Arrived, ApiError> {
    let settings = app.settings();
    let most = settings.max_upload_bytes.min(LARGEST_ARCHIVE);
    let patience = settings.request_timeout;
    let packed = app.inbox().receive(body.into_data_stream(), most, patience, Some(&mut arriving)).await?;
    let place = app.fair().archives.enter(org).await?;
    let (inbox, limits) = (app.inbox().clone(), limits(settings));
    let done = tokio::task::spawn_blocking(move || {
        // In here: it goes on when whoever asked goes away, and so does what it takes.
        let _place = place;
        let bytes = std::fs::read(packed.path()).map_err(ApiError::internal)?;
        let archive = Archive::open(&bytes, &limits).map_err(refused)?;
        // All of it, before the first file is written.
        archive.verify().map_err(refused)?;
        arriving.came(archive.entries().iter().map(Entry::size).sum())?;
        let below = |path: &WorkPath| {
            WorkPath::below(&folder, path.as_str()).map_err(|reason| ApiError::invalid("folder", reason))
        };
        let mut files = Vec::with_capacity(archive.entries().len());
        for entry in archive.entries() {
            let (file, mut sink) = inbox.create()?;
            archive.copy(entry, &mut sink).map_err(refused)?;
            files.push(Upload { path: below(entry.path())?, file, executable: Some(entry.executable()) });
        }
        let folders = archive.folders().iter().map(below).collect::<Result<_, _>>()?;
        Ok(Arrived { folders, files, _arriving: Some(arriving) })
    });
    done.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}

/// What an archive may have: as much as a workspace.
fn limits(settings: &Settings) -> archive::Limits {
    let entries = usize::try_from(settings.workspace_limits.entries).unwrap_or(usize::MAX);
    archive::Limits {
        packed: LARGEST_ARCHIVE,
        unpacked: settings.workspace_limits.bytes,
        entries,
        ..archive::Limits::BUNDLE
    }
}

fn refused(error: ArchiveError) -> ApiError {
    match error {
        ArchiveError::Sink(source) if source.kind() == std::io::ErrorKind::StorageFull => {
            ApiError::new(Code::Unavailable, "the disk is full: nothing was kept")
        }
        ArchiveError::Sink(source) => ApiError::internal(source),
        error => ApiError::new(Code::BadRequest, format!("the archive is refused: {error}")),
    }
}
