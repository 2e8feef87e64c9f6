//! Executors as a server knows them: how they come in (a pairing token, once), how they prove who they are from then on, and what
//! is known of each. What an executor says of itself is its version, its engines and its capacity; the rest is said of it here.

use std::fmt;
use std::str::FromStr;

use super::selector::{Candidate, Pool};
use super::wire::FoundEngine;
use crate::credential;
use crate::id::{ExecutorId, OrgId, PairingId};
use crate::secret::{Secret, SecretHash};
use crate::text::line_type;
use crate::time::Timestamp;

line_type!(
    /// What people call an executor.
    ExecutorName,
    120
);
line_type!(
    /// The version of an executor, as it says it.
    ExecutorVersion,
    60
);

/// For how many seconds a pairing token can be used.
pub const PAIRING_SECONDS: u32 = 15 * 60;

/// How many runs an executor may say that it does at once.
pub const MOST_CAPACITY: u32 = 200;

/// Declares the text of a credential: a prefix, then `<organisation>.<id>.<secret>`.
macro_rules! credential_type {
    ($(#[$doc:meta])* $name:ident, $id:ty, $prefix:literal, $malformed:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            /// Whose rows it opens.
            pub org: OrgId,
            /// Which row holds its hash.
            pub id: $id,
            /// What proves it.
            pub secret: Secret,
        }

        impl $name {
            /// A new one for `org`.
            pub fn generate(org: OrgId, id: $id) -> Self {
                Self { org, id, secret: Secret::generate() }
            }

            /// The whole text, which is itself a secret.
            pub fn to_secret(&self) -> Secret {
                Secret::new(format!(concat!($prefix, "{}"), credential::join(&self.org, &self.id, &self.secret)))
            }
        }

        /// A text that is none. It says no more, since the text may be one with a typing error.
        #[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
        #[error("it must look like {}<organisation>.<id>.<secret>", $prefix)]
        pub struct $malformed;

        impl FromStr for $name {
            type Err = $malformed;

            fn from_str(text: &str) -> Result<Self, $malformed> {
                let parts = text.strip_prefix($prefix).and_then(credential::split);
                parts.map(|(org, id, secret)| Self { org, id, secret }).ok_or($malformed)
            }
        }
    };
}

credential_type!(
    /// What lets a machine become an executor, once.
    PairingToken, PairingId, "kitbagpair_", MalformedPairingToken
);
credential_type!(
    /// What an executor proves itself with.
    ExecutorToken, ExecutorId, "kitbagexec_", MalformedExecutorToken
);

/// A way in for an executor that is about to be kept.
#[derive(Clone, Debug)]
pub struct NewPairing {
    /// Its id.
    pub id: PairingId,
    /// The hash of its secret.
    pub hash: SecretHash,
    /// Whose the executor will be.
    pub pool: Pool,
    /// The labels it will have.
    pub labels: Vec<String>,
    /// Who made it.
    pub created_by: String,
    /// When it ends.
    pub expires_at: Timestamp,
}

/// A way in as it is kept.
#[derive(Clone, Debug)]
pub struct Pairing {
    /// The hash of its secret.
    pub hash: SecretHash,
    /// Whose the executor will be.
    pub pool: Pool,
    /// The labels it will have.
    pub labels: Vec<String>,
    /// When it ends.
    pub expires_at: Timestamp,
    /// Whether somebody came in by it.
    pub is_used: bool,
}

/// An executor about to be kept.
#[derive(Clone, Debug)]
pub struct NewExecutor {
    /// Its id.
    pub id: ExecutorId,
    /// What people call it.
    pub name: ExecutorName,
    /// Its version.
    pub version: ExecutorVersion,
    /// Whose it is.
    pub pool: Pool,
    /// Its labels.
    pub labels: Vec<String>,
    /// The hash of its secret.
    pub hash: SecretHash,
}

/// An executor.
#[derive(Clone)]
pub struct Executor {
    /// Its id.
    pub id: ExecutorId,
    /// What people call it.
    pub name: String,
    /// Its version, as it said it last.
    pub version: String,
    /// Whose it is.
    pub pool: Pool,
    /// Its labels. A group is the label `group:<name>`.
    pub labels: Vec<String>,
    /// The agents that it found on its machine.
    pub engines: Vec<FoundEngine>,
    /// How many runs it does at once.
    pub capacity: u32,
    /// Whether there is an engine on its machine that runs containers.
    pub containers: bool,
    /// The hash of its secret.
    pub hash: SecretHash,
    /// When it came in.
    pub created_at: Timestamp,
    /// When it was last heard of.
    pub last_seen_at: Option<Timestamp>,
    /// Since when it is not let in any more.
    pub revoked_at: Option<Timestamp>,
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executor").field("id", &self.id).field("name", &self.name).finish_non_exhaustive()
    }
}

impl Executor {
    /// Whether `secret` proves it, and it is let in.
    pub fn admits(&self, secret: &Secret) -> bool {
        self.revoked_at.is_none() && self.hash == secret.hash()
    }

    /// What selectors look at.
    pub fn candidate(&self) -> Candidate<'_> {
        Candidate { id: self.id, pool: self.pool, labels: &self.labels, engines: &self.engines }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_written_and_read_and_are_not_each_other() {
        let org: OrgId = "acme".parse().unwrap();
        let pairing = PairingToken::generate(org.clone(), PairingId::generate()).to_secret();
        let executor = ExecutorToken::generate(org.clone(), ExecutorId::generate()).to_secret();
        let read: PairingToken = pairing.expose().parse().unwrap();
        assert_eq!(read.org, org);
        assert!(executor.expose().parse::<ExecutorToken>().is_ok());
        assert!(executor.expose().parse::<PairingToken>().is_err());
        assert!(pairing.expose().parse::<ExecutorToken>().is_err());
        for text in [pairing.expose(), executor.expose()] {
            assert!(text.parse::<crate::BearerToken>().is_err(), "it opens nothing of the API");
        }
    }

    #[test]
    fn one_that_was_taken_out_is_not_let_in() {
        let secret = Secret::generate();
        let mut executor = Executor {
            id: ExecutorId::generate(),
            name: "one".into(),
            version: "1".into(),
            pool: Pool::Byon,
            labels: Vec::new(),
            engines: Vec::new(),
            capacity: 1,
            containers: false,
            hash: secret.hash(),
            created_at: Timestamp::now(),
            last_seen_at: None,
            revoked_at: None,
        };
        assert!(executor.admits(&secret));
        assert!(!executor.admits(&Secret::generate()));
        executor.revoked_at = Some(Timestamp::now());
        assert!(!executor.admits(&secret));
    }
}
