//! What nodes tell each other. The lines are rows of their organisation; what is sent around (`NOTIFY`) are their ids, and whoever hears of
//! them reads them as that organisation. A row is needed for a moment: it is removed a minute later.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kitbag_model::OrgId;
use serde::{Deserialize, Serialize};
use sqlx::postgres::{PgConnection, PgListener};
use uuid::Uuid;

use super::{Nodes, bind};
use crate::error::StoreError;
use crate::row::row;

const CHANNEL: &str = "kitbag";

/// So many ids fit into what is sent around at once, which has 8,000 bytes.
const MOST_IDS: usize = 150;

/// So long lines are kept.
const KEPT: Duration = Duration::from_secs(60);

/// What is sent around.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct News {
    /// The node that says it.
    pub from: String,
    /// Whose lines there are. None: nodes came or went.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub org: Option<OrgId>,
    /// Which.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<String>,
}

impl News {
    pub(super) fn of_nodes(from: &str) -> Self {
        Self { from: from.to_owned(), org: None, ids: Vec::new() }
    }
}

row!(LineRow { line: String });

pub(super) async fn notify(connection: &mut PgConnection, news: &News) -> Result<(), StoreError> {
    let text = serde_json::to_string(news).unwrap_or_default();
    sqlx::query("SELECT pg_notify($1, $2)").bind(CHANNEL).bind(text).execute(connection).await?;
    Ok(())
}

/// Hears what is sent around.
pub struct Listening(PgListener);

impl Listening {
    /// The next news. None: the connection was lost and is there again, and nobody knows what was said in between.
    pub async fn next(&mut self) -> Result<Option<News>, StoreError> {
        loop {
            let Some(said) = self.0.try_recv().await? else { return Ok(None) };
            match serde_json::from_str(said.payload()) {
                Ok(news) => return Ok(Some(news)),
                // Another version's, or nobody's.
                Err(error) => tracing::debug!(%error, "what was sent around cannot be read"),
            }
        }
    }
}

impl Nodes {
    /// Begins to listen.
    pub async fn listen(&self) -> Result<Listening, StoreError> {
        let mut listener = PgListener::connect_with(&self.0).await?;
        listener.listen(CHANNEL).await?;
        Ok(Listening(listener))
    }

    /// Tells other nodes something of an organisation, in this order.
    pub async fn tell(&self, org: &OrgId, from: &str, lines: &[String]) -> Result<(), StoreError> {
        for lines in lines.chunks(MOST_IDS) {
            let ids: Vec<String> = lines.iter().map(|_| Uuid::now_v7().to_string()).collect();
            let mut tx = self.0.begin().await?;
            bind(&mut tx, org).await?;
            sqlx::query(
                "INSERT INTO node_lines (organization_id, id, line)
                 SELECT $1, id, line FROM unnest($2::text[], $3::text[]) AS told (id, line)",
            )
            .bind(org.as_str())
            .bind(&ids)
            .bind(lines)
            .execute(&mut *tx)
            .await?;
            notify(&mut tx, &News { from: from.to_owned(), org: Some(org.clone()), ids }).await?;
            tx.commit().await?;
        }
        Ok(())
    }

    /// What was told under these ids, in order.
    pub async fn told(&self, org: &OrgId, ids: &[String]) -> Result<Vec<String>, StoreError> {
        let mut tx = self.0.begin_with("BEGIN READ ONLY").await?;
        bind(&mut tx, org).await?;
        let rows: Vec<LineRow> =
            sqlx::query_as("SELECT line FROM node_lines WHERE organization_id = $1 AND id = ANY ($2) ORDER BY id")
                .bind(org.as_str())
                .bind(ids)
                .fetch_all(&mut *tx)
                .await?;
        Ok(rows.into_iter().map(|row| row.line).collect())
    }

    /// Removes what was told longer than a minute ago.
    pub async fn forget_told(&self, org: &OrgId) -> Result<(), StoreError> {
        let mut tx = self.0.begin().await?;
        bind(&mut tx, org).await?;
        // Ids begin with the time at which they were made.
        let since = SystemTime::now() - KEPT;
        let since = since.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let hex = format!("{since:012x}");
        sqlx::query("DELETE FROM node_lines WHERE organization_id = $1 AND id < $2")
            .bind(org.as_str())
            .bind(format!("{}-{}", &hex[..8], &hex[8..]))
            .execute(&mut *tx)
            .await?;
        Ok(tx.commit().await?)
    }
}
