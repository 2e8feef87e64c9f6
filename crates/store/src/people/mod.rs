//! People. They belong to no organisation, so there is a door of their own: a transaction bound to one person, who sees their own
//! rows. Whoever signs in is nobody yet and may ask who has a name that they know.

mod invitations;
mod members;
mod own;
mod sessions;

use kitbag_model::{Identity, OrgId, UserId};

use crate::error::StoreError;
use crate::store::{Store, uncancelled};
use crate::tx::{Edition, Inner, Tx, WriteTx, on};

pub use members::RoleError;
pub use own::UnlinkError;

/// A transaction bound to one person. Dropped without [`PersonTx::commit`], it leaves no trace.
pub struct PersonTx {
    inner: Inner,
    user: UserId,
    edition: Edition,
}

impl Store {
    /// A transaction that reads and writes the rows of one person.
    pub async fn person(&self, user: UserId) -> Result<PersonTx, StoreError> {
        let (database, edition) = self.parts();
        uncancelled(async move { PersonTx::bind(database.begin_write().await?, user, edition).await }).await
    }

    /// The same for one that only reads.
    pub async fn read_person(&self, user: UserId) -> Result<PersonTx, StoreError> {
        let (database, edition) = self.parts();
        uncancelled(async move { PersonTx::bind(database.begin_read().await?, user, edition).await }).await
    }

    /// Who has a name.
    pub async fn whose(&self, identity: &Identity) -> Result<Option<UserId>, StoreError> {
        let (database, _) = self.parts();
        let identity = identity.as_str().to_owned();
        uncancelled(async move {
            let mut asked = Asked { inner: database.begin_read().await? };
            if let Inner::Postgres(tx) = &mut asked.inner {
                let bind = "SELECT set_config('kitbag.identity', $1, true)";
                sqlx::query(bind).bind(&identity).execute(&mut **tx).await?;
            }
            let found: Option<String> = on!(asked, c => sqlx::query_scalar(
                "SELECT user_id FROM identities WHERE id = $1").bind(&identity).fetch_optional(c))?;
            found.map(|id| id.parse().map_err(|_| StoreError::Corrupt { column: "identities.user_id" })).transpose()
        })
        .await
    }
}

/// A transaction of nobody, for one question.
struct Asked {
    inner: Inner,
}

impl PersonTx {
    /// Like an organisation's, the setting lives and dies with the transaction.
    async fn bind(mut inner: Inner, user: UserId, edition: Edition) -> Result<Self, StoreError> {
        if let Inner::Postgres(tx) = &mut inner {
            let bind = "SELECT set_config('kitbag.user', $1, true)";
            sqlx::query(bind).bind(user.to_string()).execute(&mut **tx).await?;
        }
        Ok(Self { inner, user, edition })
    }

    /// Whose it is.
    pub fn user(&self) -> UserId {
        self.user
    }

    /// Goes on as a transaction of an organisation: what was written so far is committed with what follows, or not at all.
    pub async fn enter(self, org: &OrgId) -> Result<WriteTx, StoreError> {
        Tx::bind(self.inner, org, self.edition, None).await
    }

    /// Makes everything that was written durable.
    pub async fn commit(self) -> Result<(), StoreError> {
        let committed = match self.inner {
            Inner::Sqlite(tx) => tx.commit().await,
            Inner::Postgres(tx) => tx.commit().await,
        };
        self.edition.advance();
        Ok(committed?)
    }
}
