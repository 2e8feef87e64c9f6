//! Sign-ins of servers that are gone: whatever way a server went, by whatever name it was known, nothing of them stays.

use std::collections::BTreeSet;

use kitbag_mcp::auth::{Kind, Server};
use kitbag_model::{OrgId, ServerKey};
use kitbag_store::StoreError;
use url::Url;

use super::Servers;

impl Servers {
    /// Gives back and forgets what is kept for servers that are not there any more.
    pub(super) async fn forget_the_gone(&self, org: &OrgId) -> Result<(), StoreError> {
        let mut tx = self.0.store.read_beside(org).await?;
        let kept = tx.secret_names(&Kind::ALL.map(Kind::as_str)).await?;
        if kept.is_empty() {
            return Ok(());
        }
        let installed = tx.all_installed().await?;
        drop(tx);
        let there: BTreeSet<String> = installed
            .iter()
            .flat_map(|one| one.servers.iter().map(|server| one.server_key(&server.server).to_string()))
            .collect();
        for key in kept.difference(&there).filter_map(|name| name.parse::<ServerKey>().ok()) {
            // It has no address any more; what is kept knows where it was had.
            let url = Url::parse("http://gone.invalid/").expect("an address");
            let server = Server { org: org.clone(), key, url };
            match self.authorizer().forget(&server).await {
                Ok(told) => tracing::info!(server = %server.key, told, "its sign-in is forgotten"),
                Err(error) => tracing::error!(%error, server = %server.key, "its sign-in could not be forgotten"),
            }
        }
        Ok(())
    }

    /// The same, for a program that has just started and waits for nobody.
    pub(super) fn forget_later(&self, org: OrgId) {
        let servers = self.clone();
        tokio::spawn(async move {
            if let Err(error) = servers.forget_the_gone(&org).await {
                tracing::error!(%error, %org, "sign-ins of servers that are gone could not be looked for");
            }
        });
    }
}
