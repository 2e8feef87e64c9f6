//! Encryption at rest: what Kitbag keeps for people (tokens, secrets) is sealed with the installation's master key.
//!
//! A [`Vault`] has the key that seals and, after a rotation, older ones that still open. It knows nothing of what is sealed, nor
//! where it is kept: a sealed value names its key and is bound to a context, so that it opens in the row that it was made for and
//! nowhere else.

mod envelope;
mod file;
mod key;

use std::path::{Path, PathBuf};

use kitbag_model::Secret;

pub use envelope::UnsealError;
use key::Key;
pub use key::{BadKey, KeyId};
pub use zeroize::Zeroizing;

/// The file in the data folder that has the key. One key a line: the first seals, the others only open.
pub const KEY_FILE: &str = "master.key";

/// The keys of an installation.
pub struct Vault {
    /// The first seals. There is always one.
    keys: Vec<Key>,
}

/// Why there is no vault.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    /// The key that was given is none.
    #[error("the master key that was given cannot be used: {0}")]
    Given(#[source] BadKey),
    /// A line of the key's file is none.
    #[error("`{}` is not a file of master keys: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: BadKey,
    },
    /// Others could have read the key, so it may not be one any more.
    #[error(
        "others on this machine may read or change the master key `{}` (its mode is {mode:o}); if nobody has, run `chmod 600` on \
         it; otherwise put a new key in its first line",
        path.display()
    )]
    Open {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// It is a folder, a link or something else that keys are not kept in.
    #[error("the master key `{}` is not a plain file", .0.display())]
    NotAFile(PathBuf),
    /// The disk says no.
    #[error("cannot {what} the master key `{}`: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

impl Vault {
    /// The vault of the data folder `data`. Its key is `given` (32 bytes in base64 or hex; more, with commas between, are older ones
    /// that only open), or else the one in the folder, which is made if there is none. With a key given, those of a file that is there
    /// still open what they sealed.
    pub fn open(data: &Path, given: Option<&Secret>) -> Result<Self, VaultError> {
        let path = data.join(KEY_FILE);
        let keys = match given {
            Some(given) => {
                let mut keys = key::parse(given.expose()).map_err(VaultError::Given)?;
                keys.extend(file::read(&path)?.unwrap_or_default());
                keys
            }
            None => file::read_or_make(&path)?,
        };
        Ok(Self { keys })
    }

    /// The name of the key that seals. It says nothing of the key itself.
    pub fn key_id(&self) -> KeyId {
        self.current().id()
    }

    /// The names of all keys that open, that one first.
    pub fn key_ids(&self) -> impl Iterator<Item = KeyId> {
        self.keys.iter().map(Key::id)
    }

    /// Seals `plain` for one place. `context` says which: organisation, kind, name. Its parts are kept apart, so that `["a", "bc"]` is
    /// another place than `["ab", "c"]`.
    pub fn seal(&self, context: &[&str], plain: &[u8]) -> Vec<u8> {
        envelope::seal(self.current(), context, plain)
    }

    /// Opens what [`Self::seal`] made for the same place.
    pub fn unseal(&self, context: &[&str], sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, UnsealError> {
        envelope::unseal(&self.keys, context, sealed)
    }

    /// Whether it was sealed with an older key, so that it should be sealed again when the opportunity is there.
    pub fn is_stale(&self, sealed: &[u8]) -> bool {
        envelope::key_of(sealed).is_some_and(|id| id != self.key_id())
    }

    fn current(&self) -> &Key {
        self.keys.first().expect("a vault is made with at least one key")
    }
}

impl std::fmt::Debug for Vault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.keys.iter().map(Key::id)).finish()
    }
}
