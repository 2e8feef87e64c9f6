//! What can go wrong, by what the caller can do about it.

use std::path::PathBuf;

use sqlx::error::ErrorKind;

/// Why a database could not be opened. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The SQLite file cannot be opened, or is not one.
    #[error("cannot open the database {}: {source}", path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        source: sqlx::Error,
    },
    /// The URL is not one that PostgreSQL understands. It is not shown: it may hold a password.
    #[error("the database URL is not valid: {reason}. Expected postgres://USER@HOST:PORT/DATABASE")]
    BadUrl {
        /// What is wrong with it.
        reason: String,
    },
    /// The server cannot be reached; it may be starting.
    #[error("cannot reach PostgreSQL: {0}")]
    Unreachable(sqlx::Error),
    /// The server refused the connection: the role, the password, the database.
    #[error("PostgreSQL refused the connection: {0}")]
    Refused(sqlx::Error),
    /// A newer Kitbag made this database.
    #[error(
        "the database has schema version {found}, and this program knows versions up to {known}: \
         it was made by a newer Kitbag. Use that one; nothing was changed"
    )]
    Newer {
        /// The version of the database.
        found: i64,
        /// The newest version of this program.
        known: i64,
    },
    /// The schema is missing or older than the program.
    #[error(
        "the database has schema version {found}, and this program needs {needed}. \
         Run: kitbag admin migrate --database OWNER_URL"
    )]
    NeedsMigration {
        /// The version of the database; 0 if there is no schema.
        found: i64,
        /// The version that is needed.
        needed: i64,
    },
    /// A migration that was applied is not the one that this program has under that number.
    #[error(
        "migration {version} of the database is not the one that this program has: it comes from another build. \
         Nothing was changed"
    )]
    MigrationDiffers {
        /// Which.
        version: i64,
    },
    /// The role that connects could read past row-level security.
    #[error(
        "refusing to serve as the PostgreSQL role \"{role}\": {reason}. Connect as an ordinary role such as kitbag_app"
    )]
    UnsafeRole {
        /// The role.
        role: String,
        /// What makes it unsafe.
        reason: String,
    },
    /// A tenant's table is not protected.
    #[error(
        "refusing to serve: row-level security is not enabled and forced, or has a policy that is not Kitbag's, on {tables}. \
         Mend that as their owner"
    )]
    Unprotected {
        /// The tables, with commas between.
        tables: String,
    },
    /// The role that is to serve cannot be made or granted.
    #[error("cannot prepare the role \"{role}\": {reason}")]
    AppRole {
        /// The role.
        role: String,
        /// What is in the way and what to do.
        reason: String,
    },
    /// Others have tables that are to change, and keep them.
    #[error(
        "the schema could not be changed, because somebody works with what is to change (a backup, or another long transaction): {0}. \
         Nothing was changed; try again when that is over"
    )]
    InUse(sqlx::Error),
    /// A statement failed.
    #[error("the database failed: {0}")]
    Database(#[from] sqlx::Error),
}

impl OpenError {
    /// Why a connection was not made.
    pub(crate) fn connecting(error: sqlx::Error) -> Self {
        match StoreError::from(error) {
            StoreError::Unavailable(cause) => Self::Unreachable(cause),
            StoreError::Database(cause) => Self::Refused(cause),
            other => Self::Refused(sqlx::Error::Configuration(other.into())),
        }
    }
}

/// Why a request to an open database failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database cannot be reached or is too busy. Trying again later may help.
    #[error("the database is not available: {0}")]
    Unavailable(sqlx::Error),
    /// There is no room to write.
    #[error("the database's disk is full")]
    Full,
    /// Something of that key is there already.
    #[error("it exists already")]
    Exists,
    /// Something that it belongs to is not there (any more).
    #[error("what it belongs to is not there")]
    Reference,
    /// Whoever writes does not hold the chat any more: another node does, or may.
    #[error("another server may have taken over this chat")]
    LeaseLost,
    /// A stored value cannot be read; somebody else wrote it.
    #[error("the database holds an unreadable value in {column}")]
    Corrupt {
        /// Where.
        column: &'static str,
    },
    /// Anything else: a defect.
    #[error("the database failed: {0}")]
    Database(sqlx::Error),
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed => {
                Self::Unavailable(error)
            }
            sqlx::Error::Database(cause) if cause.kind() == ErrorKind::UniqueViolation => Self::Exists,
            sqlx::Error::Database(cause) if cause.kind() == ErrorKind::ForeignKeyViolation => Self::Reference,
            sqlx::Error::Database(cause) if cause.code().is_some_and(|code| code == "13" || code == "53100") => {
                Self::Full
            }
            sqlx::Error::Database(cause) if cause.code().is_some_and(|code| is_passing(&code)) => {
                Self::Unavailable(error)
            }
            _ => Self::Database(error),
        }
    }
}

/// Whether an error code of either database says that the same request may succeed later.
fn is_passing(code: &str) -> bool {
    // PostgreSQL: connection trouble, a role or a database that is not there for the moment, a server that only reads (a
    // replica that was not promoted yet), too many connections and other lacks, shutdown, time-outs, serialisation
    // failures. SQLite: busy (5), locked (6), read-only (8), an I/O error (10), no file descriptor (14), with their extended codes.
    let sqlite = code.parse::<u32>().ok().filter(|_| code.len() < 5);
    ["08", "28", "3D", "40", "53", "57"].iter().any(|class| code.len() == 5 && code.starts_with(class))
        || ["25006", "55P03"].contains(&code)
        || sqlite.is_some_and(|code| matches!(code & 0xff, 5 | 6 | 8 | 10 | 14))
}

#[cfg(test)]
mod tests {
    use super::is_passing;

    #[test]
    fn codes() {
        for code in ["08006", "28P01", "3D000", "53300", "57P01", "57014", "40001", "25006", "55P03", "5", "517", "14"]
        {
            assert!(is_passing(code), "{code}");
        }
        for code in ["23505", "42P01", "42501", "25001", "1", "13", "19", "2067"] {
            assert!(!is_passing(code), "{code}");
        }
    }
}
