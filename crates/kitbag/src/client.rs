//! How a command asks: the API of the server that runs on its data folder, or, if none does, the same API on the folder
//! itself, inside this process. Either way it is one API, so a command can do what a program can, and no more.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderName, Method, Request, StatusCode, header};
use http_body_util::BodyExt;
pub(crate) use kitbag_formats::clients::reach::segment;
use kitbag_server::{App, NodeSettings};
use kitbag_store::Store;
use serde_json::Value;
use tower::ServiceExt;

use crate::cli::Place;
use crate::commands::serve::settle_bytes;
use crate::config::Config;
use crate::data::{Attempt, DataFolder, Hold, RunningServer, own_file_mode};
use crate::failure::{Doing, Failure, not_opened};
use crate::file_body::FileBody;

/// How long a server that is just starting may take to say where it is.
const PATIENCE: Duration = Duration::from_secs(10);

const PREFER: HeaderName = HeaderName::from_static("prefer");
const NO_WAIT: &str = "respond-async";

/// A way to the API.
pub(crate) enum Client {
    Running { http: reqwest::Client, server: RunningServer },
    Inside { router: Router, app: App, _hold: Hold },
}

impl Client {
    /// Finds the running server, or opens the folder.
    pub(crate) async fn open(place: &Place) -> Result<Self, Failure> {
        let folder = DataFolder::open(place)?;
        let end = Instant::now() + PATIENCE;
        loop {
            if let Attempt::Held(hold) = folder.hold_shared()? {
                return Self::inside(place, &folder, hold).await;
            }
            if let Some(server) = folder.announced()? {
                return Ok(Self::Running { http: kitbag_guard::dial::loopback_client()?, server });
            }
            if Instant::now() > end {
                return Err(Failure::failed(format!(
                    "another Kitbag holds {} and does not say where it listens",
                    folder.path().display()
                )));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// A server that is known to be there.
    pub(crate) fn of(http: reqwest::Client, server: RunningServer) -> Self {
        Self::Running { http, server }
    }

    /// The server that runs on the folder now, which may listen elsewhere than the one that was asked before. The folder itself is not
    /// opened: a server could not start on it meanwhile.
    pub(crate) fn again(place: &Place) -> Result<Option<Self>, Failure> {
        let Some(server) = DataFolder::open(place)?.announced()? else { return Ok(None) };
        Ok(Some(Self::Running { http: kitbag_guard::dial::loopback_client()?, server }))
    }

    async fn inside(place: &Place, folder: &DataFolder, hold: Hold) -> Result<Self, Failure> {
        let config = Config::of_folder(folder, place.config.as_deref())?;
        settle_bytes(folder, &config.settings)?;
        let store = Store::open(&config.database).await.map_err(not_opened)?;
        // Whoever can open the folder owns what is in it: there is nobody else to ask for a token.
        // Nobody reaches a command, whatever the servers of this configuration say of themselves.
        let nodes = NodeSettings { advertise: None, ..config.settings.nodes.clone() };
        let settings = kitbag_server::Settings { no_auth: true, nodes, ..config.settings };
        let app = App::new(store, settings, None);
        app.join().await.doing("cannot be one of the servers of this database")?;
        Ok(Self::Inside { router: kitbag_server::router(app.clone()), app, _hold: hold })
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value, Failure> {
        self.ask(Method::GET, path, Sent::Nothing).await
    }

    /// Gets with headers of one's own.
    pub(crate) async fn get_with(&self, path: &str, headers: &[(String, String)]) -> Result<Value, Failure> {
        self.ask(Method::GET, path, Sent::Headers(headers)).await
    }

    /// Writes an answer, however large, to `to`.
    pub(crate) async fn download(&self, path: &str, to: &mut dyn Write) -> Result<(), Failure> {
        let mut answer = self.send(Method::GET, path, Sent::Nothing).await?;
        while let Some(part) = answer.next().await? {
            to.write_all(&part).doing("cannot write what was read")?;
        }
        to.flush().doing("cannot write what was read")
    }

    /// Writes an answer to a file, whole or not at all. How many bytes it has.
    pub(crate) async fn save(&self, path: &str, target: &Path) -> Result<u64, Failure> {
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let cannot = || format!("cannot write {}", target.display());
        let mut file = tempfile::NamedTempFile::new_in(folder).doing(cannot())?;
        self.download(path, &mut file).await?;
        let size = file.as_file().metadata().doing(cannot())?.len();
        let mode = std::fs::Permissions::from_mode(own_file_mode());
        file.as_file().set_permissions(mode).doing(cannot())?;
        file.persist(target).doing(cannot())?;
        Ok(size)
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.ask(Method::POST, path, Sent::Json(body)).await
    }

    /// Posts and does not wait for what that starts.
    pub(crate) async fn post_and_go(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.ask(Method::POST, path, Sent::Begin(body)).await
    }

    /// An answer that goes on and on, part by part.
    pub(crate) async fn stream(&self, path: &str) -> Result<Answer, Failure> {
        self.send(Method::GET, path, Sent::Nothing).await
    }

    /// The same for what is asked with a body.
    pub(crate) async fn post_stream(&self, path: &str, body: &Value) -> Result<Answer, Failure> {
        self.send(Method::POST, path, Sent::Json(body)).await
    }

    /// Where the running server listens.
    pub(crate) fn address(&self) -> Option<&str> {
        match self {
            Self::Running { server, .. } => Some(&server.url),
            Self::Inside { .. } => None,
        }
    }

    /// Whether there is no server: what this process starts ends with it.
    pub(crate) fn is_inside(&self) -> bool {
        matches!(self, Self::Inside { .. })
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.ask(Method::PUT, path, Sent::Json(body)).await
    }

    pub(crate) async fn patch(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.ask(Method::PATCH, path, Sent::Json(body)).await
    }

    pub(crate) async fn post_nothing(&self, path: &str) -> Result<Value, Failure> {
        self.ask(Method::POST, path, Sent::Nothing).await
    }

    pub(crate) async fn put_file(&self, path: &str, body: FileBody) -> Result<Value, Failure> {
        self.ask(Method::PUT, path, Sent::Stream(body)).await
    }

    pub(crate) async fn post_file(&self, path: &str, body: FileBody) -> Result<Value, Failure> {
        self.ask(Method::POST, path, Sent::Stream(body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Result<Value, Failure> {
        self.ask(Method::DELETE, path, Sent::Nothing).await
    }

    /// All items of a list, or the first `most` of them.
    pub(crate) async fn list(
        &self,
        path: &str,
        filter: &Option<String>,
        most: Option<usize>,
    ) -> Result<Vec<Value>, Failure> {
        let most = most.unwrap_or(usize::MAX);
        let mut items = Vec::new();
        let filter = filter.as_ref().map(|filter| format!("{filter}&")).unwrap_or_default();
        let mut query = format!("?{filter}limit=200");
        loop {
            let mut page = self.get(&format!("{path}{query}")).await?;
            if let Some(more) = page["items"].as_array_mut() {
                items.append(more);
            }
            match page["nextCursor"].as_str().filter(|_| items.len() < most) {
                Some(cursor) => query = format!("?{filter}limit=200&cursor={cursor}"),
                None => break,
            }
        }
        items.truncate(most);
        Ok(items)
    }

    /// Lets go of the folder. SQLite folds its log into the file.
    pub(crate) async fn close(self) {
        if let Self::Inside { app, .. } = self {
            app.shut_down().await;
            app.save();
            app.store().close().await;
        }
    }

    async fn ask(&self, method: Method, path: &str, body: Sent<'_>) -> Result<Value, Failure> {
        let bytes = self.send(method, path, body).await?.all().await?;
        if bytes.is_empty() {
            Ok(Value::Null)
        } else {
            serde_json::from_slice(&bytes).doing("the answer cannot be read")
        }
    }

    async fn send(&self, method: Method, path: &str, body: Sent<'_>) -> Result<Answer, Failure> {
        let (status, answer) = match self {
            Self::Running { http, server } => over_http(http, server, method, path, body).await?,
            Self::Inside { router, .. } => in_process(router, method, path, body).await?,
        };
        if status.is_success() {
            return Ok(answer);
        }
        let answer: Value = serde_json::from_slice(&answer.all().await?).unwrap_or_default();
        let message =
            answer["message"].as_str().map_or_else(|| format!("the server answered {status}"), ToOwned::to_owned);
        let code = answer["code"].as_str().unwrap_or("FAILED").to_owned();
        Err(Failure::refused(status.as_u16(), code, message, answer["details"].clone()))
    }
}

/// What goes with a request.
enum Sent<'a> {
    Nothing,
    Headers(&'a [(String, String)]),
    Json(&'a Value),
    /// JSON, to be answered before the work is done.
    Begin(&'a Value),
    Stream(FileBody),
}

/// The body of an answer, part by part.
pub(crate) enum Answer {
    Http(Box<reqwest::Response>),
    Inside(Body),
}

impl Answer {
    /// The next part. One that was not waited for to its end is not lost.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        let broken = "the answer broke off";
        match self {
            Self::Http(response) => response.chunk().await.doing(broken),
            Self::Inside(body) => loop {
                match body.frame().await.transpose().doing(broken)?.map(|frame| frame.into_data()) {
                    Some(Ok(part)) => return Ok(Some(part)),
                    Some(Err(_)) => {}
                    None => return Ok(None),
                }
            },
        }
    }

    async fn all(mut self) -> Result<Vec<u8>, Failure> {
        let mut bytes = Vec::new();
        while let Some(part) = self.next().await? {
            bytes.extend_from_slice(&part);
        }
        Ok(bytes)
    }
}

async fn over_http(
    http: &reqwest::Client,
    server: &RunningServer,
    method: Method,
    path: &str,
    body: Sent<'_>,
) -> Result<(StatusCode, Answer), Failure> {
    let mut request = http.request(method, format!("{}{path}", server.url)).bearer_auth(&server.token);
    request = match body {
        Sent::Nothing => request,
        Sent::Headers(headers) => headers.iter().fold(request, |request, (name, value)| request.header(name, value)),
        Sent::Json(value) => request.header(header::CONTENT_TYPE, "application/json").body(value.to_string()),
        Sent::Begin(value) => {
            request.header(header::CONTENT_TYPE, "application/json").header(PREFER, NO_WAIT).body(value.to_string())
        }
        Sent::Stream(body) => {
            request.header(header::CONTENT_TYPE, &body.kind).body(reqwest::Body::wrap_stream(body.parts))
        }
    };
    let gone = || format!("cannot reach the server (process {}) at {}", server.pid, server.url);
    let response = request.send().await.doing(gone())?;
    Ok((response.status(), Answer::Http(Box::new(response))))
}

async fn in_process(
    router: &Router,
    method: Method,
    path: &str,
    body: Sent<'_>,
) -> Result<(StatusCode, Answer), Failure> {
    let request = Request::builder().method(method).uri(path).header(header::HOST, "localhost");
    let request = match body {
        Sent::Nothing => request.body(Body::empty()),
        Sent::Headers(headers) => {
            let request = headers.iter().fold(request, |request, (name, value)| request.header(name, value));
            request.body(Body::empty())
        }
        Sent::Json(value) => {
            request.header(header::CONTENT_TYPE, "application/json").body(Body::from(value.to_string()))
        }
        Sent::Begin(value) => {
            let request = request.header(header::CONTENT_TYPE, "application/json").header(PREFER, NO_WAIT);
            request.body(Body::from(value.to_string()))
        }
        Sent::Stream(body) => request.header(header::CONTENT_TYPE, &body.kind).body(Body::from_stream(body.parts)),
    };
    let response = router.clone().oneshot(request?).await?;
    Ok((response.status(), Answer::Inside(response.into_body())))
}
