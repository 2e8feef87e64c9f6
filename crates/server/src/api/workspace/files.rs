//! `GET /v1/orgs/{org}/chats/{chat}/workspace/files`

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::State;
use kitbag_cas::tree;
use kitbag_model::{Manifest, Source, WorkPath};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{EntryView, explain, wanted_state};
use crate::access::caller::MayUse;
use crate::api::chats::ChatPath;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::{PathOf, QueryOf};
use crate::api::list::{List, ListQuery};
use crate::app::App;
use crate::workspaces::{Lease, WorkspaceError};

/// So many states back the last tool run is looked for.
const LOOK_BACK: usize = 100;

/// A workspace may have tens of thousands of files, and each part is a look at all of them.
const MOST: u32 = 5000;

/// Which state, and which part of it.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct FilesQuery {
    /// A manifest; the active one, with what was changed in the folder since, if absent.
    manifest: Option<String>,
    /// How many items at the most: 1 to 5000, 50 if absent.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 5000)]
    limit: Option<String>,
    /// The `nextCursor` of the part before.
    cursor: Option<String>,
}

/// A file of a workspace.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WorkspaceFile)]
pub(crate) struct FileView {
    path: String,
    #[serde(flatten)]
    entry: EntryView,
    /// Whether the last tool run made or changed it.
    changed_in_last_run: bool,
}

/// List the files of a workspace, by path
#[utoipa::path(
    get, path = "/v1/orgs/{org}/chats/{chat}/workspace/files", tag = "workspace",
    params(ChatPath, FilesQuery),
    responses((status = 200, body = List<FileView>), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn get_workspace_files(
    State(app): State<App>,
    caller: MayUse,
    PathOf(path): PathOf<ChatPath>,
    QueryOf(query): QueryOf<FilesQuery>,
) -> Result<Json<List<FileView>>, ApiError> {
    let chat = path.id()?;
    let part = ListQuery::new(query.limit, query.cursor);
    let list = format!("files {chat}");
    let (after, limit) = (part.after::<WorkPath>(&list)?, part.limit_of(MOST)?);
    let lease = app.workspaces().look(&caller.org, chat).await;
    let manifest = wanted_state(&app, &caller.org, &lease, chat, query.manifest.as_deref()).await?;
    let Some(manifest) = manifest else { return Ok(Json(List::empty())) };
    let changed = changed_in_last_run(&lease, &manifest).await.map_err(explain(chat))?;
    let entries = lease.entries(manifest.root).await.map_err(explain(chat))?;
    let rest: Vec<_> =
        entries.into_iter().filter(|(path, _)| after.as_ref().is_none_or(|after| path > after)).collect();
    let view = |(path, entry): (WorkPath, kitbag_cas::Entry)| FileView {
        changed_in_last_run: changed.contains(&path),
        path: path.to_string(),
        entry: entry.into(),
    };
    Ok(Json(List::cut(&list, rest, limit, |(path, _)| path.to_string(), view)))
}

/// What the last tool run before a state changed.
async fn changed_in_last_run(lease: &Lease, manifest: &Manifest) -> Result<BTreeSet<WorkPath>, WorkspaceError> {
    let mut at = manifest.clone();
    for _ in 0..LOOK_BACK {
        let parent = match at.parent_id {
            Some(id) => Some(lease.manifest(id).await?),
            None => None,
        };
        if at.source == Source::ToolRun {
            let before = parent.map_or_else(|| tree::empty().root, |parent| parent.root);
            let changes = lease.diff(before, at.root).await?;
            return Ok(changes.into_iter().filter(|change| change.after.is_some()).map(|change| change.path).collect());
        }
        match parent {
            Some(parent) => at = parent,
            None => break,
        }
    }
    Ok(BTreeSet::new())
}
