//! How requests to the store travel: through the guard's clients, one for each origin. The operator named the store, so that it may be
//! inside a company's network or on this machine; a proxy and certificate authorities are those of all that is dialled. Link-local
//! addresses, where clouds give out credentials, need an entry of their own in the operator's list, as everywhere.

use std::collections::HashMap;
use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{BoxStream, Stream, StreamExt, unfold};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame};
use kitbag_guard::dial::{Answer, EgressPolicy, OriginClient, Unsent};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};
use tokio::sync::Mutex;
use tokio::time::timeout;
use url::Url;

use crate::Pace;

/// So long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);

/// Requests that failed, of all buckets of this process.
static FAILURES: AtomicU64 = AtomicU64::new(0);

/// So many requests to a store were not answered, or with an error of its own, since this process began. Each try counts.
pub fn failures() -> u64 {
    FAILURES.load(Ordering::Relaxed)
}

/// Makes clients that dial through the guard. All have the same connections.
#[derive(Clone, Debug)]
pub(crate) struct Connector {
    policy: EgressPolicy,
    pace: Pace,
    clients: Arc<Mutex<HashMap<String, OriginClient>>>,
}

impl Connector {
    pub(crate) fn new(egress: &EgressPolicy, pace: Pace) -> Self {
        let policy = EgressPolicy { only: None, allow_private: true, ..egress.clone() };
        Self { policy, pace, clients: Arc::default() }
    }
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Wire(self.clone())))
    }
}

#[derive(Debug)]
struct Wire(Connector);

fn failed(kind: HttpErrorKind, error: impl Into<Box<dyn Error + Send + Sync>>) -> HttpError {
    HttpError::new_boxed(kind, error.into())
}

impl Wire {
    async fn client(&self, url: &Url) -> Result<OriginClient, HttpError> {
        let origin = url.origin().ascii_serialization();
        let mut clients = self.0.clients.lock().await;
        if let Some(client) = clients.get(&origin) {
            return Ok(client.clone());
        }
        let made = OriginClient::new(url, &self.0.policy, CONNECT).await;
        let client = made.map_err(|error| failed(HttpErrorKind::Unknown, error))?;
        clients.insert(origin, client.clone());
        Ok(client)
    }
}

#[async_trait]
impl HttpService for Wire {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let done = self.ask(request).await;
        if done.as_ref().map_or(true, |response| response.status().is_server_error()) {
            FAILURES.fetch_add(1, Ordering::Relaxed);
        }
        done
    }
}

impl Wire {
    async fn ask(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (parts, body) = request.into_parts();
        let url: Url = parts.uri.to_string().parse().map_err(|error| failed(HttpErrorKind::Unknown, error))?;
        let body = body.collect().await?.to_bytes();
        let client = self.client(&url).await?;
        let limit = self.0.pace.limit(body.len() as u64);
        let sent = timeout(limit, client.send(parts.method, &url, parts.headers, Some(body))).await;
        // Asked again whatever it was: everything here may happen twice, since a name has one content.
        let answer = sent.map_err(|_| failed(HttpErrorKind::Request, "no answer in time"))?;
        let answer = answer.map_err(|error| match error {
            Unsent::Refused(refused) => failed(HttpErrorKind::Unknown, refused),
            Unsent::Unanswered(error) if error.at_connecting => failed(HttpErrorKind::Connect, error),
            Unsent::Unanswered(error) => failed(HttpErrorKind::Request, error),
        })?;
        let mut response = http::Response::new(());
        *response.status_mut() = answer.status();
        *response.headers_mut() = answer.headers().clone();
        Ok(response.map(|()| HttpResponseBody::new(Coming::of(answer, self.0.pace.silence))))
    }
}

/// The body of an answer, as it comes. Only its owner reads it; the lock is never waited for.
struct Coming(std::sync::Mutex<BoxStream<'static, Result<Bytes, HttpError>>>);

impl Coming {
    fn of(answer: Answer, silence: Duration) -> Self {
        let pieces = unfold(Some(answer), move |answer| async move {
            let mut answer = answer?;
            match timeout(silence, answer.chunk()).await {
                Ok(Ok(Some(piece))) => Some((Ok(piece), Some(answer))),
                Ok(Ok(None)) => None,
                Ok(Err(error)) => Some((Err(failed(HttpErrorKind::Interrupted, error)), None)),
                Err(_) => Some((Err(failed(HttpErrorKind::Timeout, "the answer stopped coming")), None)),
            }
        });
        // Whoever reads may look again behind its end.
        Self(std::sync::Mutex::new(pieces.fuse().boxed()))
    }
}

impl Body for Coming {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let stream = self.0.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        Pin::new(stream).poll_next(context).map(|next| next.map(|piece| piece.map(Frame::data)))
    }
}
