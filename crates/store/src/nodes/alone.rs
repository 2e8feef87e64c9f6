//! Work that one node does at a time, and that is over soon: a lock of the database's, which ends with its transaction, however that ends.

use sqlx::{Postgres, Transaction};

use super::Nodes;
use crate::error::StoreError;
use crate::store::uncancelled;

/// Held by whoever is alone with something, until it is dropped.
pub struct Alone(#[allow(dead_code, reason = "it is held")] Transaction<'static, Postgres>);

impl Nodes {
    /// Waits, a few seconds at the most, until nobody else is at work under this name.
    pub async fn alone(&self, name: &str) -> Result<Alone, StoreError> {
        let (pool, name) = (self.0.clone(), name.to_owned());
        uncancelled(async move {
            let mut tx = pool.begin().await?;
            sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))").bind(name).execute(&mut *tx).await?;
            Ok(Alone(tx))
        })
        .await
    }
}
