//! Tree nodes from the database, remembered while a workspace is open.

use std::sync::{Arc, Mutex, PoisonError};

use kitbag_cas::CasError;
use kitbag_cas::tree::{Node, NodeError, NodeMap, Nodes};
use kitbag_model::{ChatId, ContentHash, OrgId};
use kitbag_store::{Store, StoreError};
use tokio::runtime::Handle;

use super::WorkspaceError;

/// The nodes of one chat. It is used on threads that may block.
pub(super) struct StoredNodes<'a> {
    store: &'a Store,
    org: &'a OrgId,
    chat: ChatId,
    known: &'a NodeMap,
    pub(super) runtime: Handle,
    /// Why the database did not say what a node is. Trees know no databases, and whoever works with them must be told that it is away.
    failed: Mutex<Option<StoreError>>,
}

impl<'a> StoredNodes<'a> {
    pub(super) fn new(store: &'a Store, (org, chat): (&'a OrgId, ChatId), known: &'a NodeMap, runtime: Handle) -> Self {
        Self { store, org, chat, known, runtime, failed: Mutex::default() }
    }

    /// The same nodes, remembered elsewhere.
    pub(super) fn with<'b>(&'b self, known: &'b NodeMap) -> StoredNodes<'b>
    where
        'a: 'b,
    {
        StoredNodes::new(self.store, (self.org, self.chat), known, self.runtime.clone())
    }

    /// The same error, or what the database said if that is why a node could not be read.
    pub(super) fn explain(&self, error: WorkspaceError) -> WorkspaceError {
        let is_unread = matches!(error, WorkspaceError::Cas(CasError::Node(NodeError::Unreadable { .. })));
        let said = self.failed.lock().unwrap_or_else(PoisonError::into_inner).take();
        said.filter(|_| is_unread).map_or(error, WorkspaceError::Store)
    }
}

impl Nodes for StoredNodes<'_> {
    fn node(&self, hash: &ContentHash) -> Result<Arc<Node>, NodeError> {
        if let Ok(node) = self.known.node(hash) {
            return Ok(node);
        }
        let read = async { self.store.read_beside(self.org).await?.node(self.chat, hash).await };
        let bytes = self.runtime.block_on(read).map_err(|error| {
            let reason = error.to_string();
            *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            NodeError::Unreadable { hash: *hash, reason }
        })?;
        let bytes = bytes.ok_or(NodeError::Missing { hash: *hash })?;
        self.known.add(&[(*hash, bytes)])?;
        self.known.node(hash)
    }
}
