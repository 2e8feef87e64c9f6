//! What nodes tell each other. The lines are rows of their organisation; what is sent around (`NOTIFY`) are their ids, and whoever hears of
//! them reads them as that organisation. A row is needed for a moment: it is removed a minute later.
//!
//! Nobody says anything on the connection that hears, so one that leads nowhere any more looks like one on which nothing happens. Whoever
//! hears nothing for a while therefore asks whether anybody is there.

use std::time::Duration;

use kitbag_model::OrgId;
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use sqlx::postgres::{PgConnection, PgListener, PgPoolOptions};
use tokio::time::timeout;
use uuid::Uuid;

use super::{Nodes, bind};
use crate::error::StoreError;
use crate::row::row;
use crate::store::PATIENCE;

const CHANNEL: &str = "kitbag";

/// So many ids fit into what is sent around at once, which has 8,000 bytes.
const MOST_IDS: usize = 150;

/// The beginning of the ids of lines that are told now, and of those that were told a minute ago: both by the database's clock. A node whose own is
/// ahead would remove what others told just now.
macro_rules! beginning {
    ($before:literal) => {
        concat!(
            "(SELECT left(ms, 8) || '-' || right(ms, 4) AS beginning FROM (SELECT lpad(to_hex(floor(extract(epoch FROM
              clock_timestamp() - interval '",
            $before,
            "') * 1000)::bigint), 12, '0') AS ms) AS at)"
        )
    };
}

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
pub struct Listening {
    listener: PgListener,
    quiet: Duration,
}

impl Listening {
    /// The next news. An error: nobody knows what is said from now on, and it must be listened anew. What is sent around is not kept for whoever was
    /// away.
    pub async fn next(&mut self) -> Result<News, StoreError> {
        loop {
            let said = match timeout(self.quiet, self.listener.try_recv()).await {
                Ok(said) => said?.ok_or_else(lost)?,
                Err(_) => {
                    // It may have been cut without a word: by a failover, or by what is in between and forgets those who say nothing.
                    let asked = sqlx::query("SELECT 1").execute(&mut self.listener);
                    timeout(self.quiet, asked).await.map_err(|_| lost())??;
                    continue;
                }
            };
            match serde_json::from_str(said.payload()) {
                Ok(news) => return Ok(news),
                // Another version's, or nobody's.
                Err(error) => tracing::debug!(%error, "what was sent around cannot be read"),
            }
        }
    }
}

/// What tells the ids of two nodes apart that say something in the same moment.
fn ending() -> String {
    format!("{:012x}", Uuid::now_v7().as_u128() & 0xffff_ffff_ffff)
}

fn lost() -> StoreError {
    StoreError::Unavailable(sqlx::Error::Io(std::io::ErrorKind::ConnectionAborted.into()))
}

impl Nodes {
    /// Begins to listen. Whoever hears nothing for `quiet` asks whether the database is there, and waits for as long.
    pub async fn listen(&self, quiet: Duration) -> Result<Listening, StoreError> {
        timeout(PATIENCE, async {
            let mut listener = PgListener::connect_with(&self.connection_to_hear()).await?;
            // Whoever lost it says so at once, and does not wait until there is another.
            listener.eager_reconnect(false);
            listener.listen(CHANNEL).await?;
            Ok(Listening { listener, quiet })
        })
        .await
        .map_err(|_| lost())?
    }

    /// A connection beside those that are shared: one that leads nowhere is let go of at once, and who closes it in good order may wait for long.
    fn connection_to_hear(&self) -> PgPool {
        let options = PgPoolOptions::new().max_connections(1).max_lifetime(None).idle_timeout(None);
        options.acquire_timeout(PATIENCE).connect_lazy_with((*self.0.connect_options()).clone())
    }

    /// Tells other nodes something of an organisation, in this order.
    pub async fn tell(&self, org: &OrgId, from: &str, lines: &[String]) -> Result<(), StoreError> {
        for lines in lines.chunks(MOST_IDS) {
            let ends: Vec<String> = lines.iter().map(|_| ending()).collect();
            let mut tx = self.0.begin().await?;
            bind(&mut tx, org).await?;
            let mut ids: Vec<String> = sqlx::query_scalar(concat!(
                "INSERT INTO node_lines (organization_id, id, line)
                 SELECT $1, beginning || '-' || lpad(place::text, 4, '0') || '-' || ending, line
                 FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS told (ending, line, place), ",
                beginning!("0 s"),
                " AS now RETURNING id"
            ))
            .bind(org.as_str())
            .bind(&ends)
            .bind(lines)
            .fetch_all(&mut *tx)
            .await?;
            ids.sort_unstable();
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
        sqlx::query(concat!("DELETE FROM node_lines WHERE organization_id = $1 AND id < ", beginning!("60 s")))
            .bind(org.as_str())
            .execute(&mut *tx)
            .await?;
        Ok(tx.commit().await?)
    }
}
