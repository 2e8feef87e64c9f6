//! Servers whose process another node has: led there, asked how they are, connected anew there, and given to others when this node stops or
//! was thought dead.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use kitbag_mcp::manager::{Lent, ManagerError, NotLent, ServerState, Status};
use kitbag_model::{OrgId, ServerKey, Timestamp};
use serde::{Deserialize, Serialize};

use super::{LearnError, RECONNECT, Servers};
use crate::nodes::{self, NodeAnswer};

/// How a server is where its process is.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Shown {
    key: ServerKey,
    status: String,
    pub(crate) reason: String,
    pub(crate) since: Timestamp,
    pub(crate) protocol_version: Option<String>,
    pub(crate) stderr: Vec<String>,
}

impl From<ServerState> for Shown {
    fn from(state: ServerState) -> Self {
        let ServerState { key, status, reason, since, protocol_version, stderr, .. } = state;
        Self { key, status: status.as_str().to_owned(), reason, since, protocol_version, stderr }
    }
}

impl Shown {
    pub(crate) fn status(&self) -> Option<Status> {
        Status::ALL.into_iter().find(|status| status.as_str() == self.status)
    }
}

impl Servers {
    /// The connection of a server whose process is here, for another node that knows it by this mark.
    /// It is started for that if the other node wants it.
    pub(crate) async fn lend(&self, org: &OrgId, key: &ServerKey, mark: &str, wanted: bool) -> Result<Lent, NotLent> {
        if !self.is_started() {
            return Err(NotLent::NotHere);
        }
        let manager = self.manager(org);
        let wakes = wanted && !self.0.nodes.is_draining();
        match manager.lend(org, key, mark, wakes).await {
            // The other node may have heard of a change that this one has not heard of yet.
            Err(
                NotLent::Changed
                | NotLent::Manager(ManagerError::NotFound | ManagerError::Disabled | ManagerError::NeedsTrust),
            ) => {
                self.follow(org).await;
                manager.lend(org, key, mark, wakes).await
            }
            lent => lent,
        }
    }

    /// Lets go of all servers that other nodes may need, when nobody uses them or `patience` is over. It is begun at once; what comes back
    /// waits until nothing of them runs any more.
    pub(crate) fn let_go(&self, patience: Duration) -> impl Future<Output = ()> + Send + use<> {
        let (local, others) = (self.0.local.release_all(patience), self.0.others.release_all(patience));
        async move {
            tokio::join!(local, others);
        }
    }

    /// Connects a server anew where its process is. Whether that was another node.
    pub(super) async fn reconnect_elsewhere(&self, org: &OrgId, key: &ServerKey) -> Result<bool, LearnError> {
        let Some(holder) = self.0.nodes.server_elsewhere(org, key).await? else { return Ok(false) };
        let asked = self.0.nodes.ask_about(self, &holder, nodes::RECONNECT, org, key).await;
        Ok(matches!(asked, NodeAnswer::Done(_)))
    }

    /// The same where it is here.
    pub(crate) async fn reconnect_here(&self, org: &OrgId, key: &ServerKey) -> Result<(), ManagerError> {
        self.manager(org).reconnect(org, key)?;
        self.manager(org).settled(org, key, RECONNECT).await;
        Ok(())
    }

    /// Ends the process of a server, wherever it is, and waits until it has ended: it is to have another name.
    pub(super) async fn end_everywhere(&self, org: &OrgId, key: &ServerKey) {
        match self.0.nodes.server_elsewhere(org, key).await {
            Ok(Some(holder)) => {
                self.0.nodes.ask_about(self, &holder, nodes::RELEASE, org, key).await;
            }
            Ok(None) => self.manager(org).release(org, key, Duration::ZERO).await,
            Err(error) => tracing::warn!(%error, server = %key, "which node has its process is not known"),
        }
    }

    /// How servers are whose process is here, or was last.
    pub(crate) fn shown_here(&self, org: &OrgId) -> Vec<Shown> {
        self.manager(org).states(org).into_iter().map(Shown::from).collect()
    }

    /// How servers are whose processes other nodes have. One of a node that does not answer is left out.
    pub(crate) async fn shown_elsewhere(&self, org: &OrgId) -> HashMap<ServerKey, Shown> {
        let held = match self.0.nodes.servers_elsewhere(org).await {
            Ok(held) => held,
            Err(error) => {
                tracing::warn!(%error, "which servers other nodes have is not known");
                return HashMap::new();
            }
        };
        let mut by_node: BTreeMap<String, Vec<ServerKey>> = BTreeMap::new();
        for (key, node) in held {
            by_node.entry(node).or_default().push(key);
        }
        let mut all = HashMap::new();
        for (node, keys) in by_node {
            let said = self.0.nodes.ask_how(self, &node, org).await;
            let said: Vec<Shown> = said.and_then(|said| serde_json::from_str(&said).ok()).unwrap_or_default();
            all.extend(
                said.into_iter().filter(|shown| keys.contains(&shown.key)).map(|shown| (shown.key.clone(), shown)),
            );
        }
        all
    }
}
