//! The system door. Work that belongs to no request (clean-up, queues) must learn which organisations there are, and which of their
//! runs wait (`runs/queue.rs`); it then opens a transaction bound to each. Nothing else can be read through here, and nothing written.

use kitbag_model::OrgId;

use crate::error::StoreError;
use crate::tx::{Inner, on};

/// A transaction of no organisation.
pub struct SystemTx {
    pub(crate) inner: Inner,
}

impl SystemTx {
    pub(crate) async fn open(mut inner: Inner) -> Result<Self, StoreError> {
        if let Inner::Postgres(tx) = &mut inner {
            sqlx::query("SELECT set_config('kitbag.system', 'on', true)").execute(&mut **tx).await?;
        }
        Ok(Self { inner })
    }

    /// The ids of all organisations, in order.
    pub async fn organization_ids(&mut self) -> Result<Vec<OrgId>, StoreError> {
        let ids: Vec<String> =
            on!(self, c => sqlx::query_scalar("SELECT id FROM organizations ORDER BY id").fetch_all(c))?;
        ids.iter().map(|id| id.parse().map_err(|_| StoreError::Corrupt { column: "organizations.id" })).collect()
    }
}
