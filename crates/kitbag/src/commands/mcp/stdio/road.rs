//! The way to a server: the one that runs on the data folder, or one inside this process when there is none; and the token that
//! is shown there. It knows addresses, not messages.

use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kitbag_server::embedded::write_private;
use reqwest::{Method, StatusCode, Url};
use serde_json::json;
use tokio::sync::Mutex;

use crate::cli::{Place, StdioFlags};
use crate::client::{Client, segment};
use crate::data::{Attempt, DataFolder, RunningServer};
use crate::embedded::Embedded;
use crate::failure::{Doing, Failure};
use crate::output::text;

/// How long it may take to find a server.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long a server that went away is given to come back, before we are one ourselves.
const RETURN: Duration = Duration::from_secs(3);

const TOKENS: &str = "/v1/orgs/local/tokens";
const CHATS: &str = "/v1/orgs/local/chats?limit=1";
const SERVERS: &str = "/v1/orgs/local/mcp-servers";
const TOOLSETS: &str = "/v1/orgs/local/toolsets";

/// Where messages go.
pub(super) struct Way {
    url: Url,
    token: String,
}

/// How to find where messages go.
pub(super) struct Road {
    folder: DataFolder,
    config: Option<PathBuf>,
    http: reqwest::Client,
    path: String,
    query: Vec<(&'static str, String)>,
    found: Mutex<Found>,
}

#[derive(Default)]
struct Found {
    way: Option<Arc<Way>>,
    embedded: Option<Embedded>,
}

impl Road {
    /// Finds a server, and on it what the flags name.
    pub(super) async fn open(place: &Place, flags: StdioFlags) -> Result<Self, Failure> {
        let folder = DataFolder::open(place)?;
        let lists = flags.lists.given().map(|(name, value)| (name, value.to_owned()));
        let query = lists.chain(flags.chat.iter().map(|chat| ("chat", chat.clone()))).collect();
        let http = kitbag_guard::dial::loopback_client()?;
        let found = Mutex::default();
        let mut road = Self { folder, config: place.config.clone(), http, path: "/mcp".to_owned(), query, found };
        let (server, embedded) = road.find(Duration::ZERO).await?;
        let named = road.named(server, flags.toolset, flags.server).await;
        road.found.get_mut().embedded = embedded;
        match named {
            Ok(path) => road.path = path,
            Err(failure) => {
                road.end().await;
                return Err(failure);
            }
        }
        Ok(road)
    }

    /// The address of what the flags name. What is not there is told at once, not to the client's first request.
    async fn named(
        &self,
        server: RunningServer,
        toolset: Option<String>,
        key: Option<String>,
    ) -> Result<String, Failure> {
        let client = Client::of(self.http.clone(), server);
        match (toolset, key) {
            (Some(id), _) => {
                let path = format!("{TOOLSETS}/{}", segment(&id));
                client.get(&path).await?;
                Ok(format!("{path}/mcp"))
            }
            (None, Some(key)) => {
                let server = client.get(&format!("{SERVERS}/{}", segment(&key))).await?;
                Ok(format!("{SERVERS}/{}/mcp", segment(text(&server, "id"))))
            }
            (None, None) => Ok(self.path.clone()),
        }
    }

    /// The way, found anew if it was lost.
    pub(super) async fn way(&self) -> Result<Arc<Way>, Failure> {
        let mut found = self.found.lock().await;
        if let Some(way) = &found.way {
            return Ok(way.clone());
        }
        let (server, embedded) = match &found.embedded {
            Some(embedded) => (embedded.server().clone(), None),
            None => self.find(RETURN).await?,
        };
        if embedded.is_some() {
            found.embedded = embedded;
        }
        let mut url: Url = format!("{}{}", server.url, self.path).parse().doing("the server's address")?;
        if !self.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&self.query);
        }
        let way = Arc::new(Way { url, token: self.token(&server).await? });
        found.way = Some(way.clone());
        Ok(way)
    }

    /// Nobody is there any more.
    pub(super) async fn lost(&self, way: &Arc<Way>) {
        let mut found = self.found.lock().await;
        if found.way.as_ref().is_some_and(|found| Arc::ptr_eq(found, way)) {
            found.way = None;
        }
    }

    /// A request to be filled in.
    pub(super) fn request(&self, way: &Way, method: Method) -> reqwest::RequestBuilder {
        self.http.request(method, way.url.clone()).bearer_auth(&way.token)
    }

    /// Ends the server, if it is ours.
    pub(super) async fn end(&self) {
        let embedded = self.found.lock().await.embedded.take();
        if let Some(embedded) = embedded {
            embedded.end().await;
        }
    }

    /// The server of the folder. If there is none for `patience`, this process becomes one.
    async fn find(&self, patience: Duration) -> Result<(RunningServer, Option<Embedded>), Failure> {
        let began = Instant::now();
        loop {
            if self.folder.is_held_alone()? {
                // One that is on its way out is announced, but not there.
                if let Some(server) = self.folder.announced()?
                    && self.http.get(format!("{}/healthz", server.url)).send().await.is_ok()
                {
                    return Ok((server, None));
                }
            } else if began.elapsed() >= patience
                && let Attempt::Held(hold) = self.folder.hold_alone()?
            {
                let embedded = Embedded::start(&self.folder, self.config.as_deref(), hold).await?;
                return Ok((embedded.server().clone(), Some(embedded)));
            }
            if began.elapsed() > PATIENCE {
                let folder = self.folder.path().display();
                return Err(Failure::failed(format!("another Kitbag holds {folder} and cannot be reached")));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The token that is shown. It has the scope `use` alone, so whoever is at the other end of the pipe cannot say yes to their
    /// own calls. It is kept, because the client's chat is its token's.
    async fn token(&self, server: &RunningServer) -> Result<String, Failure> {
        let folder = self.folder.path().join("cli");
        fs::create_dir_all(&folder).doing(folder.display())?;
        let file = folder.join("mcp-stdio.token");
        // Two that begin at once must not make two.
        let lock = File::options().create(true).truncate(false).write(true).open(folder.join("mcp-stdio.lock"));
        let lock = lock.doing(folder.display())?;
        lock.lock().doing(folder.display())?;
        let kept = fs::read_to_string(&file).unwrap_or_default().trim().to_owned();
        if !kept.is_empty() {
            let asked = self.http.get(format!("{}{CHATS}", server.url)).bearer_auth(&kept).send().await;
            let status = asked.doing("the server does not answer")?.status();
            if ![StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&status) {
                return Ok(kept);
            }
        }
        let client = Client::of(self.http.clone(), server.clone());
        let made = client.post(TOKENS, &json!({ "name": "mcp stdio", "scopes": ["use"] })).await?;
        let token = text(&made, "secret").to_owned();
        write_private(&file, token.as_bytes()).doing(file.display())?;
        Ok(token)
    }
}
