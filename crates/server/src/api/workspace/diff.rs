//! `GET /v1/orgs/{org}/chats/{chat}/workspace/diff`

use std::collections::HashMap;

use axum::Json;
use axum::extract::State;
use kitbag_cas::{Change, Entry, Kind};
use kitbag_model::ContentHash;
use serde::{Deserialize, Serialize};
use similar::TextDiff;
use utoipa::{IntoParams, ToSchema};

use super::{EntryView, explain, manifest_id};
use crate::access::caller::MayUse;
use crate::api::chats::ChatPath;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::{PathOf, QueryOf};
use crate::api::list::List;
use crate::app::App;
use crate::workspaces::{Lease, WorkspaceError};

/// Larger files are only said to differ.
const LARGEST_PATCH: u64 = 256 * 1024;

/// So many patches are made at the most; further files are only said to differ.
const MOST_PATCHES: usize = 200;

/// Between which states.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct DiffQuery {
    /// The earlier manifest.
    from: String,
    /// The later manifest.
    to: String,
}

/// One path that differs.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WorkspaceChange)]
pub(crate) struct ChangeView {
    path: String,
    /// `added`, `changed`, `deleted` or `renamed`.
    change: &'static str,
    /// What it was called, if it was renamed.
    #[schema(required)]
    renamed_from: Option<String>,
    #[schema(required)]
    before: Option<EntryView>,
    #[schema(required)]
    after: Option<EntryView>,
    /// A unified patch, for texts that are not too large.
    #[schema(required)]
    patch: Option<String>,
}

/// What differs between two states
#[utoipa::path(
    get, path = "/v1/orgs/{org}/chats/{chat}/workspace/diff", tag = "workspace",
    params(ChatPath, DiffQuery),
    responses((status = 200, body = List<ChangeView>), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn diff_workspace(
    State(app): State<App>,
    caller: MayUse,
    PathOf(path): PathOf<ChatPath>,
    QueryOf(query): QueryOf<DiffQuery>,
) -> Result<Json<List<ChangeView>>, ApiError> {
    let chat = path.id()?;
    let lease = app.workspaces().look(&caller.org, chat).await;
    lease.active().await.map_err(explain(chat))?;
    let from = lease.manifest(manifest_id(&query.from)?).await.map_err(explain(chat))?;
    let to = lease.manifest(manifest_id(&query.to)?).await.map_err(explain(chat))?;
    let views = changes(&lease, from.root, to.root).await.map_err(explain(chat))?;
    Ok(Json(List::part("", views, None)))
}

/// What differs between two trees, by path.
pub(crate) async fn changes(
    lease: &Lease,
    from: ContentHash,
    to: ContentHash,
) -> Result<Vec<ChangeView>, WorkspaceError> {
    let mut views = Vec::new();
    for change in pair_renames(lease.diff(from, to).await?) {
        let with_patch = views.len() < MOST_PATCHES;
        views.push(view(lease, change, with_patch).await?);
    }
    Ok(views)
}

/// A change, and what the path was called before.
type Renamed = (Change, Option<String>);

/// A file that went and one that came with the same content are one that was renamed.
fn pair_renames(changes: Vec<Change>) -> Vec<Renamed> {
    let mut gone: HashMap<(ContentHash, bool), Vec<Change>> = HashMap::new();
    let is_file = |entry: &Entry| entry.kind != Kind::Folder;
    let mut rest = Vec::new();
    for change in changes {
        match (change.before, change.after) {
            (Some(before), None) if is_file(&before) => {
                gone.entry((before.hash, before.kind == Kind::Link)).or_default().push(change);
            }
            _ => rest.push(change),
        }
    }
    let mut paired = Vec::new();
    for mut change in rest {
        let source = match (change.before, change.after) {
            (None, Some(after)) if is_file(&after) => {
                gone.get_mut(&(after.hash, after.kind == Kind::Link)).and_then(Vec::pop)
            }
            _ => None,
        };
        let from = source.map(|source| {
            change.before = source.before;
            source.path.to_string()
        });
        paired.push((change, from));
    }
    paired.extend(gone.into_values().flatten().map(|change| (change, None)));
    paired.sort_by(|(a, _), (b, _)| a.path.cmp(&b.path));
    paired
}

async fn view(lease: &Lease, (change, renamed_from): Renamed, with_patch: bool) -> Result<ChangeView, WorkspaceError> {
    let patch = if with_patch && renamed_from.is_none() { patch(lease, &change).await? } else { None };
    let kind = match (&change.before, &change.after, &renamed_from) {
        (_, _, Some(_)) => "renamed",
        (None, _, None) => "added",
        (_, None, None) => "deleted",
        _ => "changed",
    };
    Ok(ChangeView {
        path: change.path.to_string(),
        change: kind,
        renamed_from,
        before: change.before.map(EntryView::from),
        after: change.after.map(EntryView::from),
        patch,
    })
}

async fn patch(lease: &Lease, change: &Change) -> Result<Option<String>, WorkspaceError> {
    let mut texts = Vec::new();
    for entry in [change.before, change.after] {
        let text = match entry {
            None => String::new(),
            Some(entry) if entry.size > LARGEST_PATCH || entry.kind == Kind::Folder => return Ok(None),
            Some(entry) => match String::from_utf8(lease.read(entry.hash).await?) {
                Ok(text) if !text.contains('\0') => text,
                _ => return Ok(None),
            },
        };
        texts.push(text);
    }
    let name = |side: &str, entry: &Option<Entry>| {
        entry.map_or_else(|| "/dev/null".to_owned(), |_| format!("{side}/{}", change.path))
    };
    let diff = TextDiff::from_lines(&texts[0], &texts[1]);
    let patch = diff.unified_diff().header(&name("a", &change.before), &name("b", &change.after)).to_string();
    Ok((!patch.is_empty()).then_some(patch))
}
