//! `POST /v1/orgs/{org}/toolsets/{id}/trust`

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use kitbag_model::Action;
use kitbag_store::StoreError;
use serde::Deserialize;
use serde_json::json;
use utoipa::ToSchema;

use super::get::detail;
use super::{ToolsetDetail, ToolsetPath};
use crate::access::caller::MayManage;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::{MaybeJsonBody, PathOf};
use crate::app::App;
use crate::toolsets::{ToolsetError, other_than_shown};

/// What was shown to whoever says yes.
#[derive(Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct TrustShown {
    /// The images that were shown, by the ids of containers: `movedTo`, else `imageId`, else null.
    images: BTreeMap<String, Option<String>>,
}

/// Trust a toolset as it is now
///
/// Its servers may start, the images of its containers may be fetched, built and run, its tools may do what its permissions name, and what it says about questions before calls counts. What a
/// new version changes about that needs a new yes. Say which images of containers were shown, and nothing is trusted if one of them is
/// another by now (`CONFLICT`).
#[utoipa::path(
    post, path = "/v1/orgs/{org}/toolsets/{id}/trust", tag = "toolsets",
    params(ToolsetPath),
    request_body = Option<TrustShown>,
    responses((status = 200, body = ToolsetDetail), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn trust_toolset(
    State(app): State<App>,
    caller: MayManage,
    PathOf(path): PathOf<ToolsetPath>,
    MaybeJsonBody(shown): MaybeJsonBody<TrustShown>,
) -> Result<Json<ToolsetDetail>, ApiError> {
    let id = path.id()?;
    let mut tx = app.store().write(&caller.org).await?;
    let installed = tx.installed(&id).await?.ok_or_else(|| path.not_found())?;
    if let Some(other) = other_than_shown(&shown.images, &installed) {
        return Err(ToolsetError::OtherImage(other.to_owned()).into());
    }
    let gone = |error: StoreError| match error {
        StoreError::Reference => path.not_found(),
        other => other.into(),
    };
    for one in &installed.servers {
        tx.trust(&id, one.server.id.as_str(), &one.server.fingerprint()).await.map_err(gone)?;
    }
    tx.trust_containers(&installed, |_| true).await.map_err(gone)?;
    tx.trust(&id, "", &installed.fingerprint()).await.map_err(gone)?;
    tx.audit(&caller.who, Action::ToolsetTrusted, id.as_str(), &json!({ "fingerprint": installed.fingerprint() }))
        .await?;
    tx.commit().await?;
    app.tools_changed(&caller.org, id.as_str(), "trust").await;
    detail(&app, &caller.org, &id, true).await?.map(Json).ok_or_else(|| path.not_found())
}
