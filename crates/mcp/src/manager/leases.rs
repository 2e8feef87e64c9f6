//! Which of several nodes has the process of a server. Who keeps count of that is not known here.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use kitbag_model::{OrgId, ServerKey};

use crate::connection::{Boxed, Hold, Wire};

/// Who says which node has the process of a server.
pub trait Leases: Send + Sync {
    /// Whether other nodes may need what this one has. Then each server has a process of its own, for it is known to all by its key alone.
    fn shares(&self) -> bool;

    /// Where the process is to be. Waits for a node that is not there until it is or is known to be dead; `wanted` says whether this node
    /// takes the server if nobody has it, and is looked at when it matters.
    fn find<'a>(&'a self, server: Sought<'a>, wanted: &'a AtomicBool) -> Boxed<'a, Result<Place, String>>;

    /// Frees a server that this node may hold without knowing it: it looked for it, and did not hear how that went. Called when nothing of
    /// it runs here.
    fn give_up<'a>(&'a self, org: &'a OrgId, key: &'a ServerKey) -> Boxed<'a, ()>;
}

/// A server whose process is looked for.
#[derive(Clone, Copy, Debug)]
pub struct Sought<'a> {
    /// Whose it is.
    pub org: &'a OrgId,
    /// Its name.
    pub key: &'a ServerKey,
    /// [What it is started from](super::Configured::mark).
    pub mark: &'a str,
}

/// Where the process of a server is to be.
pub enum Place {
    /// At this node, which nobody else asks for it.
    Own,
    /// At this node, which holds it for all.
    Here(Arc<dyn Lease>),
    /// At another node, to which this way leads.
    There(Wire),
    /// Nowhere: nobody has it and it is not wanted.
    Nowhere,
}

/// A server that this node holds.
pub trait Lease: Hold {
    /// It is free for others. Called when nothing of it runs any more.
    fn give_back(&self) -> Boxed<'_, ()>;
}
