//! Kitbag as an MCP server: one address for every tool, for clients of every revision of the protocol.
//!
//! The protocol itself is `kitbag_mcp::serve`'s. This room says what is served to whom: which tools a request resolves to
//! ([`menu`]), calls of them through the same [`crate::calls`] as everybody's ([`tools`], [`confirm`], [`tasks`]), what the servers behind
//! have beside tools ([`upstream`], [`names`]), and what Kitbag itself has: files of a workspace ([`files`]), skills
//! ([`skills`], [`shelves`]) and pages of tools ([`apps`]). What need not be changed passes as the text that it came as.

mod approvals;
mod apps;
mod beside;
mod carried;
mod chat;
mod confirm;
mod door;
mod dynamic;
mod files;
pub(crate) mod http;
mod instructions;
mod listen;
mod lists;
mod menu;
mod names;
mod pace;
mod progress;
mod renamed;
mod shelves;
mod skills;
mod state;
mod tasks;
mod tools;
mod traced;
mod upstream;
mod view;
mod watches;

pub(crate) use chat::selectors_of;
pub(crate) use door::chat_of;
use kitbag_mcp::serve::{Front, Limits};
use kitbag_model::{ChatId, OrgId};

use crate::nodes::Nodes;
use crate::recent::Recent;
use approvals::Approvals;
use menu::Menus;
pub(crate) use menu::listed;
use pace::Pace;
use tasks::Tasks;
use watches::Watches;

/// Everything that goes on between clients and this server.
pub(crate) struct Gateway {
    front: Front,
    menus: Menus,
    pace: Pace,
    /// The chats of clients that name none.
    chats: Recent<(OrgId, String), ChatId>,
    tasks: Tasks,
    approvals: Approvals,
    watches: Watches,
}

impl Gateway {
    pub(crate) fn new(nodes: &Nodes) -> Self {
        let nodes = nodes.clone();
        Self {
            front: Front::new(Limits::default()).marked(move || nodes.mark()),
            menus: Menus::default(),
            pace: Pace::default(),
            chats: Recent::default(),
            watches: Watches::default(),
            tasks: Tasks::default(),
            approvals: Approvals::default(),
        }
    }

    /// Lets all clients go.
    pub(crate) fn close(&self) {
        self.front.close();
    }
}
