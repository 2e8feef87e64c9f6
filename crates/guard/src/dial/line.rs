//! Plain HTTP to one origin over connections that have no task of their own: whoever waits for an answer moves the bytes.
//!
//! A connection that is a task costs every request two wakes, often of another processor, and a server on this machine or beside it
//! answers in less time than that takes. Encrypted connections, and those through a proxy, are `reqwest`'s.

use std::error::Error;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::header::{HOST, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use http_body_util::Full;
use hyper::body::{Body, Bytes, Incoming};
use hyper::client::conn::http1::{Connection, SendRequest, handshake};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};
use tower::Service;
use url::Url;

use super::fetch::innermost;

/// The bytes of one connection, which move when this is polled.
type Wire = Connection<TokioIo<TcpStream>, Full<Bytes>>;

/// So long a connection that nobody uses is kept, and so many of them.
const IDLE: Duration = Duration::from_secs(60);
const MOST_IDLE: usize = 256;

const OURS: HeaderValue = HeaderValue::from_static(concat!("kitbag/", env!("CARGO_PKG_VERSION")));

/// Why a request was not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Unanswered {
    /// Whether there was not even a connection.
    pub at_connecting: bool,
    /// The innermost cause.
    pub reason: String,
}

impl Unanswered {
    pub(super) fn new(error: &dyn Error, at_connecting: bool) -> Self {
        Self { at_connecting, reason: innermost(error) }
    }
}

/// The connections to one origin.
pub(super) struct Lines {
    connector: HttpConnector<Resolver>,
    origin: Uri,
    host: HeaderValue,
    connect: Duration,
    idle: Mutex<Idle>,
}

#[derive(Default)]
struct Idle {
    lines: Vec<Line>,
    /// Whether somebody sees to it that they do not stay for ever.
    is_tended: bool,
}

/// One connection. Nothing happens on it unless it is polled.
struct Line {
    sender: SendRequest<Full<Bytes>>,
    wire: Wire,
    used: Instant,
}

/// An answer whose body comes over a line, which goes back when the body is over.
pub(super) struct Spoken {
    pub(super) head: Response<()>,
    body: Incoming,
    line: Option<Line>,
    lines: Arc<Lines>,
}

/// The judge in the form that the connector wants.
#[derive(Clone)]
struct Resolver(Arc<dyn Judge>);

/// Finds the addresses that may be dialled.
pub(super) trait Judge: Send + Sync {
    fn judged(&self, name: String) -> Judged;
}

pub(super) type Judged =
    Pin<Box<dyn Future<Output = Result<Vec<SocketAddr>, Box<dyn Error + Send + Sync>>> + Send + 'static>>;

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = Box<dyn Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let found = self.0.judged(name.as_str().to_owned());
        Box::pin(async move { Ok(found.await?.into_iter()) })
    }
}

impl Lines {
    /// None if the origin is not one that is spoken to in this way.
    pub(super) fn new(judging: Arc<dyn Judge>, url: &Url, connect: Duration) -> Option<Arc<Self>> {
        let authority = url.authority();
        let origin: Uri = (url.scheme() == "http").then(|| format!("http://{authority}/"))?.parse().ok()?;
        let host = HeaderValue::from_str(authority).ok()?;
        let mut connector = HttpConnector::new_with_resolver(Resolver(judging));
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(connect));
        Some(Arc::new(Self { connector, origin, host, connect, idle: Mutex::default() }))
    }

    /// Sends a request and brings the head of its answer.
    pub(super) async fn send(
        self: &Arc<Self>,
        method: Method,
        url: &Url,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Spoken, Unanswered> {
        let mut request = self.request(method, url, headers, body)?;
        while let Some(mut line) = self.take() {
            match line.ask(request).await {
                Ok(answer) => return Ok(Spoken::new(answer, line, self)),
                // It was over before anything was said: another one may not be.
                Err((_, Some(unsaid))) => request = unsaid,
                Err((error, None)) => return Err(Unanswered::new(&error, false)),
            }
        }
        // Boxed: most requests find a line.
        let mut line = Box::pin(self.dial()).await?;
        match line.ask(request).await {
            Ok(answer) => Ok(Spoken::new(answer, line, self)),
            Err((error, _)) => Err(Unanswered::new(&error, false)),
        }
    }

    fn request(
        &self,
        method: Method,
        url: &Url,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, Unanswered> {
        let path = &url[url::Position::BeforePath..url::Position::AfterQuery];
        let uri = Uri::try_from(path).map_err(|error| Unanswered::new(&error, false))?;
        let mut request = Request::new(Full::new(body));
        (*request.method_mut(), *request.uri_mut(), *request.headers_mut()) = (method, uri, headers);
        request.headers_mut().insert(HOST, self.host.clone());
        request.headers_mut().entry(USER_AGENT).or_insert(OURS);
        Ok(request)
    }

    async fn dial(&self) -> Result<Line, Unanswered> {
        let mut connector = self.connector.clone();
        let dialled = timeout(self.connect, async {
            poll_fn(|context| connector.poll_ready(context)).await?;
            connector.call(self.origin.clone()).await
        });
        let late = || io::Error::new(io::ErrorKind::TimedOut, "operation timed out");
        let stream = dialled.await.map_err(|_| Unanswered::new(&late(), true))?;
        let stream = stream.map_err(|error| Unanswered::new(&error, true))?;
        let (sender, wire) = handshake(stream).await.map_err(|error| Unanswered::new(&error, true))?;
        Ok(Line { sender, wire, used: Instant::now() })
    }

    /// A line that nobody uses and that is not over.
    fn take(&self) -> Option<Line> {
        loop {
            // The one that was used last, so that those which are too many grow old.
            let mut line = self.idle().lines.pop()?;
            if line.is_ready() {
                return Some(line);
            }
        }
    }

    /// Nobody uses it any more.
    fn give(self: &Arc<Self>, mut line: Line) {
        if !line.is_ready() {
            return;
        }
        line.used = Instant::now();
        let mut idle = self.idle();
        if idle.lines.len() < MOST_IDLE {
            idle.lines.push(line);
        }
        if !std::mem::replace(&mut idle.is_tended, true) {
            drop(idle);
            self.tend();
        }
    }

    /// Lets lines go that nobody uses.
    fn tend(self: &Arc<Self>) {
        let lines = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                sleep(IDLE / 4).await;
                let Some(lines) = lines.upgrade() else { return };
                let mut idle = lines.idle();
                idle.lines.retain_mut(|line| line.used.elapsed() < IDLE && line.is_ready());
                if idle.lines.is_empty() {
                    idle.is_tended = false;
                    return;
                }
            }
        });
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Line {
    /// Whether a request can be sent. It notices the other side's end, which nobody has looked for since the line was used last.
    fn is_ready(&mut self) -> bool {
        // Nobody is to be woken: who used it last is busy with something else.
        let over = Pin::new(&mut self.wire).poll(&mut Context::from_waker(Waker::noop()));
        over.is_pending() && self.sender.is_ready()
    }

    /// Sends a request and waits for the head of its answer. The request comes back if nothing of it was sent.
    async fn ask(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, (hyper::Error, Option<Request<Full<Bytes>>>)> {
        let mut asking = pin!(self.sender.try_send_request(request));
        let wire = &mut self.wire;
        let answer = poll_fn(|context| moved(wire, context, |context| asking.as_mut().poll(context)));
        answer
            .await
            .map_err(|mut error| (error.take_message(), error.into_error()))
            .map_err(|(unsaid, error)| (error, unsaid))
    }
}

/// What `look` finds when the bytes have moved. All that it can find comes of that, so its own wakes would only wake who is here, and
/// nobody hears them; the wire's are for the caller if there was nothing yet.
fn moved<T>(wire: &mut Wire, context: &mut Context<'_>, mut look: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
    let mut unheard = Context::from_waker(Waker::noop());
    let _ = Pin::new(&mut *wire).poll(&mut unheard);
    let found = look(&mut unheard);
    if found.is_ready() {
        return found;
    }
    let _ = Pin::new(wire).poll(context);
    look(&mut unheard)
}

impl Spoken {
    fn new(answer: Response<Incoming>, line: Line, lines: &Arc<Lines>) -> Self {
        let (head, body) = answer.into_parts();
        Self { head: Response::from_parts(head, ()), body, line: Some(line), lines: Arc::clone(lines) }
    }

    /// The next piece of the body; none after its end.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, Unanswered> {
        loop {
            let Some(line) = &mut self.line else { return Ok(None) };
            let (body, wire) = (&mut self.body, &mut line.wire);
            let next = poll_fn(|context| moved(wire, context, |context| Pin::new(&mut *body).poll_frame(context)));
            match next.await {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(piece) => return Ok(Some(piece)),
                    // What follows the body says nothing to anybody here.
                    Err(_) => continue,
                },
                Some(Err(error)) => {
                    self.line = None;
                    return Err(Unanswered::new(&error, false));
                }
                None => {
                    if let Some(line) = self.line.take() {
                        self.lines.give(line);
                    }
                    return Ok(None);
                }
            }
        }
    }

    /// How long the body says that it is.
    pub(super) fn content_length(&self) -> Option<u64> {
        self.body.size_hint().exact()
    }
}
