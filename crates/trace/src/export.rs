//! Spans on their way to a collector, by OTLP over HTTP.
//!
//! Whoever ends a span puts it into a queue, or drops it when that is full: nobody who works waits for a collector. One task takes them
//! from there, many at a time, and what could not be sent is lost. The collector's address is the operator's, so it may be a private one;
//! it is dialled through the guard all the same, with its certificates and its proxy.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use kitbag_guard::dial::{EgressPolicy, OriginClient};
use opentelemetry::trace::TracerProvider;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{Protocol, RetryPolicy, SpanExporter as Otlp, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, Span, SpanData, SpanExporter, SpanProcessor};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};
use url::Url;

use crate::span::record_with;

/// So many spans wait at most.
const QUEUE: usize = 4096;
/// So many go at once.
const BATCH: usize = 512;
/// So long the first of them waits for others.
const GATHER: Duration = Duration::from_secs(1);
/// So long a collector may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most bytes of its answer.
const LARGEST: usize = 256 << 10;

/// Why nothing is traced.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address is none.
    #[error("{0:?} is not the address of a collector; write one such as http://127.0.0.1:4318")]
    Address(String),
    /// Something that the variables of OpenTelemetry say cannot be.
    #[error("{0}")]
    Settings(String),
    /// It cannot be dialled.
    #[error("the collector cannot be dialled: {0}")]
    Dial(String),
}

/// What sends spans, until it is stopped.
#[derive(Debug)]
pub struct Exporter {
    provider: SdkTracerProvider,
    stop: oneshot::Sender<()>,
    sending: JoinHandle<()>,
}

impl Exporter {
    /// From now on everything is traced. `service` is what this program is called there, unless a variable says something else; `version`
    /// is its own.
    pub async fn start(
        endpoint: &str,
        policy: &EgressPolicy,
        service: &'static str,
        version: &'static str,
    ) -> Result<Self, StartError> {
        let url = traces(endpoint).ok_or_else(|| StartError::Address(endpoint.to_owned()))?;
        let client = Client::new(&url, policy).await?;
        let built = Otlp::builder()
            .with_http()
            .with_http_client(client)
            .with_endpoint(url.as_str())
            // What is not taken is lost: to keep it for later would be another queue.
            .with_retry_policy(RetryPolicy::disabled())
            .with_timeout(PATIENCE);
        let built = match std::env::var("OTEL_EXPORTER_OTLP_PROTOCOL").as_deref() {
            Ok("http/json") => built.with_protocol(Protocol::HttpJson),
            Err(_) | Ok("http/protobuf" | "") => built.with_protocol(Protocol::HttpBinary),
            Ok(other) => {
                let reason = "write http/protobuf or http/json";
                return Err(StartError::Settings(format!("OTEL_EXPORTER_OTLP_PROTOCOL: {other:?}: {reason}")));
            }
        };
        let mut exporter = built.build().map_err(|error| StartError::Settings(error.to_string()))?;
        let resource = resource(service, version);
        exporter.set_resource(&resource);
        let (sender, queue) = mpsc::channel(QUEUE);
        let (stop, stopped) = oneshot::channel();
        let provider = SdkTracerProvider::builder().with_resource(resource).with_span_processor(Queue(sender)).build();
        record_with(provider.tracer("kitbag"));
        let sending = tokio::spawn(send(exporter, queue, stopped));
        Ok(Self { provider, stop, sending })
    }

    /// Sends what is left, and waits for that, but not longer than this. Spans that end later are lost.
    pub async fn stop(self, within: Duration) {
        let _ = self.stop.send(());
        if timeout(within, self.sending).await.is_err() {
            tracing::warn!("some spans were not sent: the collector did not take them in time");
        }
        drop(self.provider);
    }
}

/// Where spans go: the address of a collector, and the place that the protocol has for them.
fn traces(endpoint: &str) -> Option<Url> {
    let mut url = Url::parse(endpoint).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    url.host_str()?;
    let path = format!("{}/v1/traces", url.path().trim_end_matches('/'));
    url.set_path(&path);
    Some(url)
}

/// Who speaks. What the variables of OpenTelemetry say of it holds.
fn resource(service: &'static str, version: &'static str) -> Resource {
    let is_named = std::env::var_os("OTEL_SERVICE_NAME").is_some()
        || std::env::var("OTEL_RESOURCE_ATTRIBUTES").is_ok_and(|said| said.contains("service.name="));
    let builder = Resource::builder().with_attribute(opentelemetry::KeyValue::new("service.version", version));
    match is_named {
        true => builder.build(),
        false => builder.with_service_name(service).build(),
    }
}

/// What a span that ended is given to.
#[derive(Debug)]
struct Queue(mpsc::Sender<SpanData>);

impl SpanProcessor for Queue {
    fn on_start(&self, _: &mut Span, _: &opentelemetry::Context) {}

    fn on_end(&self, span: SpanData) {
        if span.span_context.is_sampled() && self.0.try_send(span).is_err() {
            count("dropped", 1);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

fn count(outcome: &'static str, spans: usize) {
    metrics::counter!("kitbag_trace_spans_total", "outcome" => outcome).increment(spans as u64);
}

async fn send(exporter: Otlp, mut queue: mpsc::Receiver<SpanData>, mut stopped: oneshot::Receiver<()>) {
    let mut ship = Ship { exporter, was_taken: true };
    let mut batch = Vec::new();
    loop {
        tokio::select! {
            biased;
            _ = &mut stopped => break,
            () = gather(&mut queue, &mut batch) => {}
        }
        ship.send(std::mem::take(&mut batch)).await;
    }
    // Nothing comes any more, and what is there goes, as long as somebody takes it.
    queue.close();
    loop {
        while batch.len() < BATCH
            && let Ok(span) = queue.try_recv()
        {
            batch.push(span);
        }
        if batch.is_empty() || !ship.send(std::mem::take(&mut batch)).await {
            return;
        }
    }
}

/// The way to the collector, and whether it was open last time.
struct Ship {
    exporter: Otlp,
    was_taken: bool,
}

impl Ship {
    /// Sends spans. Whether they were taken.
    async fn send(&mut self, batch: Vec<SpanData>) -> bool {
        let spans = batch.len();
        let problem = match timeout(PATIENCE, self.exporter.export(batch)).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("no answer within {} seconds", PATIENCE.as_secs())),
        };
        count(if problem.is_some() { "failed" } else { "sent" }, spans);
        // Told once, and again when it changes: a collector that is away for a day is no news every second.
        match (&problem, self.was_taken) {
            (Some(problem), true) => tracing::warn!(%problem, "the collector does not take spans; they are lost"),
            (None, false) => tracing::info!("the collector takes spans again"),
            _ => {}
        }
        self.was_taken = problem.is_none();
        self.was_taken
    }
}

/// Waits for a span, and a little for others.
async fn gather(queue: &mut mpsc::Receiver<SpanData>, batch: &mut Vec<SpanData>) {
    match queue.recv().await {
        Some(first) => batch.push(first),
        // Nobody can send any more. There is a signal for that, too.
        None => std::future::pending().await,
    }
    let until = Instant::now() + GATHER;
    while batch.len() < BATCH {
        match timeout_at(until, queue.recv()).await {
            Ok(Some(span)) => batch.push(span),
            Ok(None) | Err(_) => return,
        }
    }
}

/// The guard's client, as the exporter wants one.
struct Client {
    client: OriginClient,
    url: Url,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.client.fmt(f)
    }
}

impl Client {
    async fn new(url: &Url, policy: &EgressPolicy) -> Result<Self, StartError> {
        // The operator wrote the address. What is theirs to say of other people's addresses does not hold for it.
        let policy = EgressPolicy { allow_private: true, https_only: false, only: None, ..policy.clone() };
        let client = OriginClient::new(url, &policy, PATIENCE).await;
        let client = client.map_err(|error| StartError::Dial(error.to_string()))?;
        Ok(Self { client, url: url.clone() })
    }
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (parts, body) = request.into_parts();
        let asked = self.client.request(parts.method, &self.url)?;
        let mut answer = asked.headers(parts.headers).body(body).send().await?;
        let status = answer.status();
        let mut said = Vec::new();
        while let Some(part) = answer.chunk().await? {
            if said.len() + part.len() > LARGEST {
                return Err("the collector's answer is too long".into());
            }
            said.extend_from_slice(&part);
        }
        Ok(Response::builder().status(status).body(said.into())?)
    }
}
