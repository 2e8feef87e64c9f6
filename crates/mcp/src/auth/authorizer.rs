//! The door of this room: the authorizer, and what goes in and out of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use kitbag_model::{OrgId, Secret, ServerKey};
use url::Url;

use super::error::AuthError;
use super::http::{Egress, Http, LONGEST};
use super::keeper::{Alone, Keeper, Kind, Slot};
use super::records::{TokenRecord, seconds};

/// A server that wants tokens.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Server {
    /// Whose it is.
    pub org: OrgId,
    /// Its key in that organisation.
    pub key: ServerKey,
    /// Where it is, with every variable resolved. What was had for another address is not used for it.
    pub url: Url,
}

/// A sign-in that has begun.
#[derive(Clone, Debug)]
pub struct Started {
    /// Where the person's browser goes. Judged: https (or this machine, for a server on it), and nothing that means something to a
    /// shell.
    pub authorize_url: Url,
    /// What comes back with the answer.
    pub state: String,
    /// The authorization server, to be shown before anybody goes there.
    pub issuer: String,
    /// What is asked for, to be shown as well.
    pub scopes: Vec<String>,
    /// Until when the answer is taken.
    pub expires_at: SystemTime,
}

/// What an authorization server sent back through the person's browser: the query of the callback.
#[derive(Clone, Default)]
pub struct Callback {
    /// `state`.
    pub state: String,
    /// `code`.
    pub code: Option<String>,
    /// `iss`.
    pub iss: Option<String>,
    /// `error`.
    pub error: Option<String>,
    /// `error_description`.
    pub error_description: Option<String>,
}

/// A sign-in that worked.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Finished {
    /// The key of the server that can be connected to now.
    pub server: ServerKey,
}

/// What to do after a server refused a token.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Refusal {
    /// There is another token; ask again with it, once.
    Renewed,
    /// A person must sign in (again).
    SignIn {
        /// What the new token must be good for besides what was asked for before.
        scopes: Vec<String>,
    },
    /// Signing in again would ask for the same and get the same: the account may not do this.
    NotAllowed {
        /// What is missing.
        scopes: Vec<String>,
    },
}

/// How things stand with a server's tokens.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Status {
    /// There are none.
    SignedOut,
    /// There are some.
    SignedIn {
        /// Who gave them.
        issuer: String,
        /// What they are good for, as far as is known.
        scopes: Vec<String>,
        /// Until when, if that was said.
        expires_at: Option<SystemTime>,
        /// Whether they are renewed without a person.
        renews: bool,
        /// What the server wants besides: a person must sign in again for these.
        missing: Vec<String>,
    },
}

/// Has tokens for servers. One for the whole process, so that a token is renewed by one flight.
pub struct Authorizer {
    egress: Egress,
    keeper: Arc<dyn Keeper>,
    longest: Duration,
    clock: Box<dyn Fn() -> SystemTime + Send + Sync>,
    flights: Mutex<HashMap<(OrgId, ServerKey), Arc<Flight>>>,
}

/// What this process knows of one server's tokens. Who holds the lock may change what is kept.
#[derive(Default)]
pub(super) struct Flight {
    pub(super) lock: tokio::sync::Mutex<()>,
    known: Mutex<Known>,
}

#[derive(Clone, Default)]
pub(super) struct Known {
    /// The address that something was looked for last.
    pub(super) server: Option<Url>,
    /// What was found for it.
    pub(super) tokens: Option<Arc<TokenRecord>>,
    /// Why it failed the last time, and until when nobody tries again.
    pub(super) failed: Option<(SystemTime, AuthError)>,
}

impl Flight {
    pub(super) fn known(&self) -> Known {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn learn(&self, server: &Server, tokens: Option<Arc<TokenRecord>>) {
        let known = Known { server: Some(server.url.clone()), tokens, failed: None };
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = known;
    }

    pub(super) fn fail(&self, until: SystemTime, error: AuthError) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).failed = Some((until, error));
    }
}

impl Authorizer {
    /// With who says whom an organisation may dial, and with what keeps.
    pub fn new(egress: Egress, keeper: Arc<dyn Keeper>) -> Self {
        Self { egress, keeper, longest: LONGEST, clock: Box::new(SystemTime::now), flights: Mutex::default() }
    }

    /// With another clock, for those who cannot wait until a token expires.
    pub fn with_clock(mut self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.clock = Box::new(clock);
        self
    }

    /// With another limit for how long one answer of an authorization server may take.
    pub fn with_deadline(mut self, longest: Duration) -> Self {
        self.longest = longest;
        self
    }

    /// How things stand with a server.
    pub async fn status(&self, server: &Server) -> Result<Status, AuthError> {
        let Some(tokens) = self.load_tokens(server).await? else { return Ok(Status::SignedOut) };
        if tokens.is_over(self.now()) && tokens.refresh.is_none() {
            return Ok(Status::SignedOut);
        }
        Ok(Status::SignedIn {
            issuer: tokens.issuer.clone(),
            scopes: tokens.granted.clone(),
            expires_at: tokens.expires_at.map(|at| SystemTime::UNIX_EPOCH + Duration::from_secs(at)),
            renews: tokens.refresh.is_some() || tokens.machine,
            missing: tokens.missing.clone(),
        })
    }

    pub(super) fn http(&self, org: &OrgId) -> Http {
        Http { egress: (self.egress)(org), longest: self.longest }
    }

    /// Seconds since 1970.
    pub(super) fn now(&self) -> u64 {
        seconds((self.clock)())
    }

    pub(super) fn time(&self) -> SystemTime {
        (self.clock)()
    }

    pub(super) fn flight(&self, server: &Server) -> Arc<Flight> {
        let mut flights = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(flights.entry((server.org.clone(), server.key.clone())).or_default())
    }

    pub(super) fn forget_flight(&self, server: &Server) {
        let mut flights = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
        flights.remove(&(server.org.clone(), server.key.clone()));
    }

    /// What is kept about the tokens of this server at this address. Those that were had for another address are none.
    pub(super) async fn load_tokens(&self, server: &Server) -> Result<Option<Arc<TokenRecord>>, AuthError> {
        let found: Option<TokenRecord> = self.load(server, Kind::Tokens).await?;
        Ok(found.filter(|tokens| tokens.server == server.url.as_str()).map(Arc::new))
    }

    /// The right to renew them, among all processes that share what is kept.
    pub(super) async fn alone(&self, server: &Server) -> Option<Alone> {
        self.keeper.alone(&slot(server, Kind::Tokens)).await
    }

    pub(super) async fn load<T: serde::de::DeserializeOwned>(
        &self,
        server: &Server,
        kind: Kind,
    ) -> Result<Option<T>, AuthError> {
        self.load_slot(&slot(server, kind)).await
    }

    pub(super) async fn load_slot<T: serde::de::DeserializeOwned>(&self, slot: &Slot) -> Result<Option<T>, AuthError> {
        match self.keeper.load(slot).await? {
            // What another version kept, and this one cannot read, is as good as nothing: somebody signs in again.
            Some(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            None => Ok(None),
        }
    }

    pub(super) async fn save<T: serde::Serialize>(
        &self,
        server: &Server,
        kind: Kind,
        value: &T,
    ) -> Result<(), AuthError> {
        let bytes = serde_json::to_vec(value).map_err(|_| AuthError::Unreadable)?;
        Ok(self.keeper.save(&slot(server, kind), bytes).await?)
    }

    pub(super) async fn delete(&self, server: &Server, kind: Kind) -> Result<bool, AuthError> {
        self.delete_slot(&slot(server, kind)).await
    }

    pub(super) async fn delete_slot(&self, slot: &Slot) -> Result<bool, AuthError> {
        Ok(self.keeper.delete(slot).await?)
    }
}

fn slot(server: &Server, kind: Kind) -> Slot {
    Slot { org: server.org.clone(), server: server.key.clone(), kind }
}

/// The access token of a record.
pub(super) fn access(tokens: &TokenRecord) -> Secret {
    Secret::new(tokens.access.clone())
}
