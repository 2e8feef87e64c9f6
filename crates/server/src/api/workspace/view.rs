//! States and files as the API shows them.

use std::collections::BTreeMap;

use kitbag_cas::{Entry, Kind};
use kitbag_model::{Manifest, WorkPath};
use serde::Serialize;
use utoipa::ToSchema;

/// What a path of a workspace has.
#[derive(Serialize, ToSchema)]
#[schema(as = WorkspaceEntry)]
pub(crate) struct EntryView {
    /// The hash of its content.
    sha256: String,
    /// How many bytes its content has.
    size: u64,
    /// `100644` a file, `100755` an executable one, `120000` a link, `040000` an empty folder.
    mode: &'static str,
}

impl From<Entry> for EntryView {
    fn from(entry: Entry) -> Self {
        let mode = match entry.kind {
            Kind::File => "100644",
            Kind::Executable => "100755",
            Kind::Link => "120000",
            Kind::Folder => "040000",
        };
        Self { sha256: entry.hash.to_string(), size: entry.size, mode }
    }
}

/// One state of a workspace.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Manifest)]
pub(crate) struct ManifestView {
    id: String,
    chat_id: String,
    /// The state that it followed.
    #[schema(required)]
    parent_id: Option<String>,
    /// The hash of each file's content. Empty folders are not in it.
    files: BTreeMap<String, String>,
    #[schema(format = DateTime)]
    created_at: String,
    /// `initial`, `user_upload`, `tool_run`, `branch` or `edit`.
    source: String,
    /// Which upload, call or manifest that was.
    #[schema(required)]
    source_ref: Option<String>,
}

impl ManifestView {
    pub(crate) fn new(manifest: Manifest, entries: Vec<(WorkPath, Entry)>) -> Self {
        let files = entries.into_iter().filter(|(_, entry)| entry.kind != Kind::Folder);
        Self {
            id: manifest.id.to_string(),
            chat_id: manifest.chat_id.to_string(),
            parent_id: manifest.parent_id.map(|id| id.to_string()),
            files: files.map(|(path, entry)| (path.to_string(), entry.hash.to_string())).collect(),
            created_at: manifest.created_at.to_string(),
            source: manifest.source.to_string(),
            source_ref: manifest.source_ref,
        }
    }
}
