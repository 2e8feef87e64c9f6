//! Tree nodes from the database, remembered while a workspace is open.

use std::sync::Arc;

use kitbag_cas::tree::{Node, NodeError, NodeMap, Nodes};
use kitbag_model::{ChatId, ContentHash, OrgId};
use kitbag_store::Store;
use tokio::runtime::Handle;

/// The nodes of one chat. It is used on threads that may block.
pub(super) struct StoredNodes<'a> {
    pub(super) store: &'a Store,
    pub(super) org: &'a OrgId,
    pub(super) chat: ChatId,
    pub(super) known: &'a NodeMap,
    pub(super) runtime: Handle,
}

impl<'a> StoredNodes<'a> {
    /// The same nodes, remembered elsewhere.
    pub(super) fn with<'b>(&'b self, known: &'b NodeMap) -> StoredNodes<'b>
    where
        'a: 'b,
    {
        StoredNodes { store: self.store, org: self.org, chat: self.chat, known, runtime: self.runtime.clone() }
    }
}

impl Nodes for StoredNodes<'_> {
    fn node(&self, hash: &ContentHash) -> Result<Arc<Node>, NodeError> {
        if let Ok(node) = self.known.node(hash) {
            return Ok(node);
        }
        let read = async { self.store.read_beside(self.org).await?.node(self.chat, hash).await };
        let bytes = self
            .runtime
            .block_on(read)
            .map_err(|error| NodeError::Unreadable { hash: *hash, reason: error.to_string() })?;
        let bytes = bytes.ok_or(NodeError::Missing { hash: *hash })?;
        self.known.add(&[(*hash, bytes)])?;
        self.known.node(hash)
    }
}
