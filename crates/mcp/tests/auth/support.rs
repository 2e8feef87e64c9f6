//! What every test of signing in needs: an authorizer with a clock that can be set, and a person with a browser.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use kitbag_guard::dial::EgressPolicy;
use kitbag_mcp::auth::{
    AuthError, Authorizer, Callback, ClientSettings, Egress, Finished, InMemory, Keeper, KeeperError, Kind, Server,
    Slot, Started,
};
use kitbag_mcp::connection::Boxed;
use url::Url;

use super::stand::{Stand, pairs};

pub const BACK: &str = "http://127.0.0.1:8700/oauth/callback";
pub const ME: &str = "me";

/// Everything on this machine may be dialled.
fn here() -> Egress {
    Arc::new(|_| EgressPolicy { allow_private: true, ..EgressPolicy::default() })
}

/// Keeps in memory, and fails when a test says so.
#[derive(Default)]
pub struct Shelf {
    inside: InMemory,
    pub full: AtomicBool,
}

impl Keeper for Shelf {
    fn load<'a>(&'a self, slot: &'a Slot) -> Boxed<'a, Result<Option<Vec<u8>>, KeeperError>> {
        // Like a database: others get their turn before the answer is there.
        Box::pin(async move {
            let found = self.inside.load(slot).await;
            tokio::task::yield_now().await;
            found
        })
    }

    fn save<'a>(&'a self, slot: &'a Slot, value: Vec<u8>) -> Boxed<'a, Result<(), KeeperError>> {
        if self.full.load(Ordering::SeqCst) {
            return Box::pin(async { Err(KeeperError("the disk is full".to_owned())) });
        }
        self.inside.save(slot, value)
    }

    fn delete<'a>(&'a self, slot: &'a Slot) -> Boxed<'a, Result<bool, KeeperError>> {
        self.inside.delete(slot)
    }
}

pub struct Desk {
    pub auth: Arc<Authorizer>,
    pub keeper: Arc<Shelf>,
    pub server: Server,
    pub settings: ClientSettings,
    clock: Arc<AtomicU64>,
    browser: reqwest::Client,
}

impl Desk {
    pub fn at(stand: &Stand) -> Self {
        Self::of(&format!("{}/mcp", stand.url))
    }

    pub fn of(url: &str) -> Self {
        let browser = kitbag_guard::dial::loopback_client().unwrap();
        let keeper = Arc::new(Shelf::default());
        let clock = Arc::new(AtomicU64::new(1_800_000_000));
        let auth = Authorizer::new(here(), keeper.clone()).with_clock({
            let clock = clock.clone();
            move || SystemTime::UNIX_EPOCH + Duration::from_secs(clock.load(Ordering::SeqCst))
        });
        let server =
            Server { org: "local".parse().unwrap(), key: "tools~one".parse().unwrap(), url: Url::parse(url).unwrap() };
        let settings = ClientSettings::named("Kitbag");
        Self { auth: Arc::new(auth), keeper, server, settings, clock, browser }
    }

    /// Another process on the same database.
    pub fn another_process(&self) -> Self {
        let clock = self.clock.clone();
        let auth = Authorizer::new(here(), self.keeper.clone())
            .with_clock(move || SystemTime::UNIX_EPOCH + Duration::from_secs(clock.load(Ordering::SeqCst)));
        Self {
            auth: Arc::new(auth),
            keeper: self.keeper.clone(),
            server: self.server.clone(),
            settings: self.settings.clone(),
            clock: self.clock.clone(),
            browser: self.browser.clone(),
        }
    }

    pub fn pass(&self, seconds: u64) {
        self.clock.fetch_add(seconds, Ordering::SeqCst);
    }

    pub async fn begin(&self, challenge: Option<&str>) -> Result<Started, AuthError> {
        self.auth.begin(&self.server, ME, challenge, BACK, &self.settings).await
    }

    /// A person opens the address and says yes; what comes back is not handed in yet.
    pub async fn browse(&self, started: &Started) -> Callback {
        let answer = self.browser.get(started.authorize_url.clone()).send().await.unwrap();
        let back = answer.headers()["location"].to_str().unwrap().to_owned();
        assert!(back.starts_with(BACK), "{back}");
        let mut query = pairs(Url::parse(&back).unwrap().query().unwrap());
        Callback {
            state: query.remove("state").unwrap(),
            code: query.remove("code"),
            iss: query.remove("iss"),
            error: query.remove("error"),
            error_description: query.remove("error_description"),
        }
    }

    pub async fn finish(&self, callback: Callback) -> Result<Finished, AuthError> {
        self.auth.finish(&"local".parse().unwrap(), ME, callback).await
    }

    /// All of it.
    pub async fn sign_in(&self, challenge: Option<&str>) -> Result<Finished, AuthError> {
        let started = self.begin(challenge).await?;
        let callback = self.browse(&started).await;
        self.finish(callback).await
    }

    pub async fn bearer(&self) -> Option<String> {
        self.try_bearer().await.unwrap()
    }

    pub async fn try_bearer(&self) -> Result<Option<String>, AuthError> {
        Ok(self.auth.bearer(&self.server, &self.settings).await?.map(|token| token.expose().to_owned()))
    }

    /// What the server says to a token.
    pub async fn try_token(&self, token: &str) -> u16 {
        let request = self.browser.post(self.server.url.clone()).bearer_auth(token);
        request.send().await.unwrap().status().as_u16()
    }

    pub async fn kept(&self, kind: Kind) -> Option<String> {
        let slot = Slot { org: self.server.org.clone(), server: self.server.key.clone(), kind };
        self.keeper.load(&slot).await.unwrap().map(|bytes| String::from_utf8(bytes).unwrap())
    }
}
