//! Sign-ins and folders of servers that are gone: whatever way a server went, by whatever name it was known, nothing of them stays.

use std::collections::BTreeSet;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use kitbag_mcp::auth::{Farewell, Kind, Server};
use kitbag_model::{OrgId, ServerKey};
use kitbag_store::StoreError;
use tokio::task::JoinSet;
use tokio::time::timeout;
use url::Url;

use super::Servers;

/// So long an authorization server may take to take tokens back.
const LONGEST_FAREWELL: Duration = Duration::from_secs(60);

/// The same, when the program ends.
const LAST_FAREWELL: Duration = Duration::from_secs(3);

impl Servers {
    /// Forgets what is kept for servers that are not there any more, and gives it back.
    pub(super) async fn forget_the_gone(&self, org: &OrgId) -> Result<(), StoreError> {
        // A server that is being given another name has its folder under the old one for a moment.
        let _held = self.hold_homes().await;
        // Listed before the rows are: a folder that is made meanwhile belongs to a server that is there.
        let homes = self.homes(org).await;
        self.forget_holders(org).await?;
        let mut tx = self.0.store.read_beside(org).await?;
        let kept = tx.secret_names(&Kind::ALL.map(Kind::as_str)).await?;
        if kept.is_empty() && homes.is_empty() {
            return Ok(());
        }
        let installed = tx.all_installed().await?;
        drop(tx);
        let there: BTreeSet<String> = installed
            .iter()
            .flat_map(|one| one.servers.iter().map(|server| one.server_key(&server.server).to_string()))
            .collect();
        self.remove_homes(org, homes.difference(&there)).await;
        for key in kept.difference(&there).filter_map(|name| name.parse::<ServerKey>().ok()) {
            // It has no address any more; what is kept knows where it was had.
            let url = Url::parse("http://gone.invalid/").expect("an address");
            let server = Server { org: org.clone(), key, url };
            match self.authorizer().forget_here(&server).await {
                Ok(farewell) => self.tell_later(server.key, farewell),
                Err(error) => tracing::error!(%error, server = %server.key, "its sign-in could not be forgotten"),
            }
        }
        Ok(())
    }

    /// Forgets which node had the processes of servers that are gone.
    async fn forget_holders(&self, org: &OrgId) -> Result<(), StoreError> {
        if !self.0.nodes.are_several() {
            return Ok(());
        }
        let installed = self.0.store.read_beside(org).await?.all_installed().await?;
        let all = installed.iter().flat_map(|one| one.servers.iter().map(|server| one.server_key(&server.server)));
        let there: Vec<String> = all.map(|key| key.to_string()).collect();
        self.0.nodes.forget_servers(org, &there).await
    }

    /// Gives tokens back, in the background: an authorization server that is silent keeps nobody waiting.
    fn tell_later(&self, key: ServerKey, farewell: Farewell) {
        let authorizer = Arc::clone(self.authorizer());
        let mut farewells = self.farewells();
        while farewells.try_join_next().is_some() {}
        farewells.spawn(async move {
            let told = timeout(LONGEST_FAREWELL, authorizer.tell(farewell)).await.unwrap_or(false);
            tracing::info!(server = %key, told, "its sign-in is forgotten");
        });
    }

    /// A program that ends gives those who are slow a little time.
    pub(super) async fn farewells_said(&self) {
        let mut farewells = std::mem::take(&mut *self.farewells());
        let said = timeout(LAST_FAREWELL, async { while farewells.join_next().await.is_some() {} }).await;
        if said.is_err() {
            tracing::warn!("an authorization server is silent; tokens that it gave end when their time is up");
        }
    }

    fn farewells(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.0.farewells.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// [`forget_the_gone`](Self::forget_the_gone), for a program that has just started and waits for nobody.
    pub(super) fn forget_later(&self, org: OrgId) {
        let servers = self.clone();
        tokio::spawn(async move {
            if let Err(error) = servers.forget_the_gone(&org).await {
                tracing::error!(%error, %org, "sign-ins of servers that are gone could not be looked for");
            }
        });
    }
}
