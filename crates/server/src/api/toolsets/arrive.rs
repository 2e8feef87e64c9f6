//! The ways in which a bundle arrives.

use axum::extract::{FromRequest, Request};
use axum::http::header;
use kitbag_formats::archive::Limits;
use kitbag_guard::dial::{self, FetchError, FetchLimits};
use kitbag_model::{OrgId, SourceType, ToolsetId};
use serde::Deserialize;
use tokio::io::AsyncWriteExt;
use url::Url;
use utoipa::ToSchema;

use crate::api::error::{ApiError, Code};
use crate::api::input::JsonBody;
use crate::app::App;
use crate::transfer::{Form, Staged, TransferError};

/// A bundle that has arrived.
pub(super) struct Arrived {
    pub(super) file: Staged,
    pub(super) source_type: SourceType,
    /// Where it came from, if that is known.
    pub(super) source_ref: Option<String>,
    /// The toolset that it must be, if it is to take the place of one.
    pub(super) only: Option<ToolsetId>,
}

/// Where to import from: one of the two.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ImportFrom {
    /// The address of a bundle.
    url: Option<String>,
    /// An installed toolset that came from an address: look there again.
    toolset_id: Option<String>,
}

/// Takes what came, or fetches what is named.
pub(super) async fn arrive(app: &App, org: &OrgId, request: Request) -> Result<Arrived, ApiError> {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    match kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
        "application/zip" | "application/x-zip-compressed" | "application/octet-stream" => {
            let body = request.into_body().into_data_stream();
            let file = app.inbox().receive(body, Limits::BUNDLE.packed, app.settings().request_timeout, None).await?;
            Ok(Arrived { file, source_type: SourceType::Zip, source_ref: None, only: None })
        }
        "multipart/form-data" => {
            let (file, source_ref) = from_form(app, request).await?;
            Ok(Arrived { file, source_type: SourceType::Zip, source_ref, only: None })
        }
        "application/json" => {
            let body = JsonBody::<ImportFrom>::from_request(request, app);
            let JsonBody(from) = tokio::time::timeout(app.settings().request_timeout, body)
                .await
                .map_err(|_| ApiError::new(Code::Timeout, "the body did not come in time"))??;
            let (url, only) = address(app, org, from).await?;
            let file = fetch(app, org, &url).await?;
            Ok(Arrived { file, source_type: SourceType::Url, source_ref: Some(url.to_string()), only })
        }
        _ => {
            let message =
                "a bundle comes as application/zip, as the field file of multipart/form-data, or as {\"url\"} in JSON";
            Err(ApiError::new(Code::UnsupportedMediaType, message))
        }
    }
}

/// The address that is meant, and the toolset that must be there, if one is named.
async fn address(app: &App, org: &OrgId, from: ImportFrom) -> Result<(Url, Option<ToolsetId>), ApiError> {
    let (text, only) = match (from.url, from.toolset_id) {
        (Some(url), None) => (url, None),
        (None, Some(id)) => {
            let not_found = || ApiError::new(Code::ToolsetNotFound, format!("there is no toolset {id:?}"));
            let id = id.parse().map_err(|_| not_found())?;
            let toolset = app.store().read(org).await?.toolset(&id).await?.ok_or_else(not_found)?;
            let source = toolset.source_ref.filter(|_| toolset.source_type == SourceType::Url);
            let source = source.ok_or_else(|| ApiError::invalid("toolsetId", "did not come from an address"))?;
            (source, Some(id))
        }
        _ => return Err(ApiError::new(Code::BadRequest, "give either url or toolsetId")),
    };
    let url = Url::parse(&text).map_err(|reason| ApiError::invalid("url", reason))?;
    Ok((url, only))
}

/// Fetches a bundle. Which addresses may be dialled is the operator's to say, and within that the organisation's.
async fn fetch(app: &App, org: &OrgId, url: &Url) -> Result<Staged, ApiError> {
    app.rules().of(org).await?;
    let policy = app.rules().egress(org);
    let (staged, file) = app.inbox().create()?;
    let limits = FetchLimits { bytes: Limits::BUNDLE.packed, ..FetchLimits::default() };
    let mut file = tokio::fs::File::from_std(file);
    let fetched = dial::fetch(url, &policy, &limits, &mut file).await;
    fetched.map_err(|error| match error {
        FetchError::Sink(source) => TransferError::Disk { path: "inbox".into(), source }.into(),
        error => ApiError::invalid("url", error),
    })?;
    file.flush().await.map_err(ApiError::internal)?;
    Ok(staged)
}

async fn from_form(app: &App, request: Request) -> Result<(Staged, Option<String>), ApiError> {
    let mut form = Form::open(app, request, Limits::BUNDLE.packed, None).await?;
    let mut found = None;
    while let Some(one) = form.next().await? {
        if one.field != "file" || found.is_some() {
            return Err(ApiError::new(Code::BadRequest, "the form must have one field, file, with the bundle"));
        }
        found = Some((one.file, Some(one.name)));
    }
    found.ok_or_else(|| ApiError::new(Code::BadRequest, "the form has no field file with the bundle"))
}
