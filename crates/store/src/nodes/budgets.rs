//! How much of a quota is left for all nodes together.

use kitbag_model::OrgId;

use super::{Nodes, bind};
use crate::error::StoreError;
use crate::store::uncancelled;

/// Thousandths that make a call.
const CALL: u64 = 1000;

/// What was taken of a budget.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Budget {
    /// So many calls may be made.
    pub granted: u64,
    /// So many thousandths of a call are left beside.
    pub left: u64,
}

impl Nodes {
    /// Takes up to `wanted` calls from what an organisation has left, of `most` in a minute. As many may be taken at once; they come back one by one.
    pub async fn take_calls(&self, org: &OrgId, most: u64, wanted: u64) -> Result<Budget, StoreError> {
        let (pool, org) = (self.0.clone(), org.clone());
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX / 2);
        uncancelled(async move {
            let full = number(most.saturating_mul(CALL));
            let mut tx = pool.begin().await?;
            bind(&mut tx, &org).await?;
            sqlx::query(
                "INSERT INTO call_budgets (organization_id, thousandths, at) VALUES ($1, $2, clock_timestamp())
                 ON CONFLICT (organization_id) DO NOTHING",
            )
            .bind(org.as_str())
            .bind(full)
            .execute(&mut *tx)
            .await?;
            let left: i64 = sqlx::query_scalar(
                "SELECT least($2, thousandths + floor(extract(epoch FROM clock_timestamp() - at) * $2 / 60))::bigint
                 FROM call_budgets WHERE organization_id = $1 FOR UPDATE",
            )
            .bind(org.as_str())
            .bind(full)
            .fetch_one(&mut *tx)
            .await?;
            let left = u64::try_from(left).unwrap_or_default();
            let granted = wanted.min(left / CALL);
            let left = left - granted * CALL;
            // What is taken of nothing leaves the time alone, or nothing would ever come back.
            if granted > 0 {
                sqlx::query(
                    "UPDATE call_budgets SET thousandths = $2, at = clock_timestamp() WHERE organization_id = $1",
                )
                .bind(org.as_str())
                .bind(number(left))
                .execute(&mut *tx)
                .await?;
            }
            tx.commit().await?;
            Ok(Budget { granted, left })
        })
        .await
    }

    /// How many calls of an organisation run at other nodes, beside those that are counted already.
    pub async fn running_elsewhere(&self, org: &OrgId, node: &str, counted: &[String]) -> Result<u64, StoreError> {
        let (pool, org, node, counted) = (self.0.clone(), org.clone(), node.to_owned(), counted.to_vec());
        uncancelled(async move {
            let mut tx = pool.begin_with("BEGIN READ ONLY").await?;
            bind(&mut tx, &org).await?;
            let count = sqlx::query_scalar::<_, i64>(
                "SELECT count(*) FROM tool_calls
                 WHERE organization_id = $1 AND status = 'running' AND node_id <> $2 AND NOT (id = ANY ($3))",
            );
            let count = count.bind(org.as_str()).bind(&node).bind(&counted).fetch_one(&mut *tx).await?;
            Ok(u64::try_from(count).unwrap_or_default())
        })
        .await
    }
}
