//! Where credentials are kept, as this room sees it: opaque bytes in slots. Whoever keeps them seals them.

use std::collections::HashMap;
use std::sync::Mutex;

use kitbag_model::{OrgId, ServerKey};

use crate::connection::Boxed;

/// What is kept in a slot.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Kind {
    /// The tokens of a server.
    Tokens,
    /// How we are known to the authorization servers of a server.
    Client,
    /// A sign-in that has begun. A newer one takes its place.
    SignIn,
    /// What whoever keeps knows of the client that somebody registered for a server by hand. This room only forgets it.
    Settings,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Tokens, Self::Client, Self::SignIn, Self::Settings];

    /// Its name in a table.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tokens => "oauth_tokens",
            Self::Client => "oauth_client",
            Self::SignIn => "oauth_sign_in",
            Self::Settings => "oauth_settings",
        }
    }
}

/// A place for one value.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Slot {
    /// Whose it is.
    pub org: OrgId,
    /// The server.
    pub server: ServerKey,
    /// What it is.
    pub kind: Kind,
}

/// Why nothing was loaded or kept. The text is for the log.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct KeeperError(pub String);

/// What is held by who is alone with a slot.
pub type Alone = Box<dyn std::any::Any + Send>;

/// Keeps values that hold secrets: seals them with the slot as context, and gives them back only for the same slot.
pub trait Keeper: Send + Sync + 'static {
    /// What is in the slot. What cannot be unsealed any more (the master key is another one) is nothing: somebody signs in again.
    fn load<'a>(&'a self, slot: &'a Slot) -> Boxed<'a, Result<Option<Vec<u8>>, KeeperError>>;

    /// The right to renew what is in a slot, which one has at a time among all that share what is kept, until it is dropped. Who has had to wait looks
    /// at the slot again. Where one process keeps for itself there is nobody to wait for.
    fn alone<'a>(&'a self, _slot: &'a Slot) -> Boxed<'a, Option<Alone>> {
        Box::pin(std::future::ready(None))
    }

    /// Puts something in, in place of what was there.
    fn save<'a>(&'a self, slot: &'a Slot, value: Vec<u8>) -> Boxed<'a, Result<(), KeeperError>>;

    /// Empties the slot, and says whether there was something. Of several that empty it at once one is told so: that makes a sign-in
    /// good for once, whichever process the browser comes back to.
    fn delete<'a>(&'a self, slot: &'a Slot) -> Boxed<'a, Result<bool, KeeperError>>;
}

/// Keeps everything in memory, for programs that end soon.
#[derive(Default)]
pub struct InMemory(Mutex<HashMap<Slot, Vec<u8>>>);

impl InMemory {
    fn with<T>(&self, change: impl FnOnce(&mut HashMap<Slot, Vec<u8>>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

impl Keeper for InMemory {
    fn load<'a>(&'a self, slot: &'a Slot) -> Boxed<'a, Result<Option<Vec<u8>>, KeeperError>> {
        Box::pin(async move { Ok(self.with(|slots| slots.get(slot).cloned())) })
    }

    fn save<'a>(&'a self, slot: &'a Slot, value: Vec<u8>) -> Boxed<'a, Result<(), KeeperError>> {
        Box::pin(async move {
            self.with(|slots| slots.insert(slot.clone(), value));
            Ok(())
        })
    }

    fn delete<'a>(&'a self, slot: &'a Slot) -> Boxed<'a, Result<bool, KeeperError>> {
        Box::pin(async move { Ok(self.with(|slots| slots.remove(slot).is_some())) })
    }
}
