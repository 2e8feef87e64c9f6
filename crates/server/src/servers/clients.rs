//! How Kitbag is known where servers have people sign in. Mostly it registers itself on the way; where somebody registered it by
//! hand, that is sealed in the database, and in memory here, since connections ask without waiting.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use kitbag_mcp::auth::{
    Authorizer, ClientSettings, Grant, Keeper, KeeperError, Kind, Proof, RegisteredClient, Server, ServerTokens,
    SigningAlgorithm, Slot,
};
use kitbag_mcp::connection::{Boxed, Tokens};
use kitbag_mcp::manager::TokenSource;
use kitbag_model::{OrgId, Secret, ServerKey};
use serde::{Deserialize, Serialize};
use url::Url;

use super::keeper::StoreKeeper;

/// The name on the page where a person says yes.
const NAME: &str = "Kitbag";

/// A client that somebody registered by hand. It is never shown again.
#[derive(Deserialize, Serialize)]
pub(crate) struct Client {
    pub(crate) id: String,
    pub(crate) secret: Option<String>,
    /// What it signs with, in place of a secret.
    #[serde(default)]
    pub(crate) key: Option<ClientKey>,
    /// Whether Kitbag signs in by itself, with the secret or the key, rather than a person.
    pub(crate) machine: bool,
    pub(crate) scopes: Vec<String>,
    /// The authorization server that knows it; none is the first one that the server names.
    pub(crate) issuer: Option<String>,
}

/// A private key: PKCS#8 as PEM.
#[derive(Deserialize, Serialize)]
pub(crate) struct ClientKey {
    pub(crate) pem: String,
    pub(crate) algorithm: SigningAlgorithm,
}

impl Client {
    fn settings(self) -> ClientSettings {
        let proof = match (self.key, self.secret) {
            (Some(ClientKey { pem, algorithm }), _) => Proof::Key { pem: Secret::new(pem), algorithm },
            (None, Some(secret)) => Proof::Secret(Secret::new(secret)),
            (None, None) => Proof::None,
        };
        ClientSettings {
            registered: Some(RegisteredClient { id: self.id, proof, issuer: self.issuer }),
            scopes: self.scopes,
            grant: if self.machine { Grant::Machine } else { Grant::Person },
            ..ClientSettings::named(NAME)
        }
    }
}

/// What is known of one, with the bytes that it was read from.
type Known = (Vec<u8>, Arc<ClientSettings>);

/// How Kitbag is known, by server.
pub(super) struct Clients {
    keeper: Arc<StoreKeeper>,
    nobody: Arc<ClientSettings>,
    known: RwLock<HashMap<(OrgId, ServerKey), Known>>,
}

impl Clients {
    pub(super) fn new(keeper: Arc<StoreKeeper>) -> Self {
        Self { keeper, nobody: Arc::new(ClientSettings::named(NAME)), known: RwLock::default() }
    }

    /// How Kitbag introduces itself at a server's authorization server.
    pub(super) fn of(&self, org: &OrgId, key: &ServerKey) -> Arc<ClientSettings> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let found = known.get(&(org.clone(), key.clone()));
        Arc::clone(found.map_or(&self.nobody, |(_, settings)| settings))
    }

    /// Reads what is kept for these servers again.
    pub(super) async fn read(&self, org: &OrgId, names: impl IntoIterator<Item = String>) -> Result<(), KeeperError> {
        let mut found = HashMap::new();
        for key in names.into_iter().filter_map(|name| name.parse::<ServerKey>().ok()) {
            if let Some(bytes) = self.keeper.load(&slot(org, &key)).await? {
                found.insert((org.clone(), key), bytes);
            }
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(of, key), _| of != org || found.contains_key(&(of.clone(), key.clone())));
        for (place, bytes) in found {
            if known.get(&place).is_none_or(|(before, _)| *before != bytes)
                && let Ok(client) = serde_json::from_slice::<Client>(&bytes)
            {
                known.insert(place, (bytes, Arc::new(client.settings())));
            }
        }
        Ok(())
    }

    /// Keeps a client, in place of the one that there was; none forgets it.
    pub(super) async fn keep(&self, org: &OrgId, key: &ServerKey, client: Option<Client>) -> Result<(), KeeperError> {
        match client {
            Some(client) => {
                let bytes = serde_json::to_vec(&client).map_err(|error| KeeperError(error.to_string()))?;
                self.keeper.save(&slot(org, key), bytes).await
            }
            None => self.keeper.delete(&slot(org, key)).await.map(drop),
        }
    }

    /// A server has another name: what is kept for it goes along.
    pub(super) async fn rename(&self, org: &OrgId, from: &ServerKey, to: &ServerKey) -> Result<(), KeeperError> {
        let Some(bytes) = self.keeper.load(&slot(org, from)).await? else { return Ok(()) };
        self.keeper.save(&slot(org, to), bytes).await?;
        self.keeper.delete(&slot(org, from)).await.map(drop)
    }
}

fn slot(org: &OrgId, key: &ServerKey) -> Slot {
    Slot { org: org.clone(), server: key.clone(), kind: Kind::Settings }
}

/// Tokens of servers that somebody signed in to.
pub(super) struct SignedIn {
    pub(super) authorizer: Arc<Authorizer>,
    pub(super) clients: Arc<Clients>,
}

impl TokenSource for SignedIn {
    fn tokens(&self, org: &OrgId, key: &ServerKey, url: &Url) -> Option<Arc<dyn Tokens>> {
        let server = Server { org: org.clone(), key: key.clone(), url: url.clone() };
        let (authorizer, clients) = (Arc::clone(&self.authorizer), Arc::clone(&self.clients));
        let settings = clients.of(org, key);
        let tokens = Arc::new(authorizer.tokens(server.clone(), (*settings).clone()));
        Some(Arc::new(Current { authorizer, clients, server, now: Mutex::new((settings, tokens)) }))
    }
}

/// Tokens for one server, had as the client that Kitbag is known as at the moment: a connection outlives a change of that.
struct Current {
    authorizer: Arc<Authorizer>,
    clients: Arc<Clients>,
    server: Server,
    now: Mutex<(Arc<ClientSettings>, Arc<ServerTokens>)>,
}

impl Current {
    fn tokens(&self) -> Arc<ServerTokens> {
        let settings = self.clients.of(&self.server.org, &self.server.key);
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(&settings, &now.0) {
            let tokens = Arc::new(self.authorizer.tokens(self.server.clone(), (*settings).clone()));
            *now = (settings, tokens);
        }
        Arc::clone(&now.1)
    }
}

impl Tokens for Current {
    fn bearer(&self) -> Boxed<'_, Option<String>> {
        let tokens = self.tokens();
        Box::pin(async move { tokens.bearer().await })
    }

    fn refused(&self, challenge: Option<String>) -> Boxed<'_, bool> {
        let tokens = self.tokens();
        Box::pin(async move { tokens.refused(challenge).await })
    }
}
