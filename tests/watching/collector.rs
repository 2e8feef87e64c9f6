//! What takes spans: a collector of OTLP over HTTP, in JSON, that keeps everything it is sent. It can be away.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use serde_json::{Value, json};
use tokio::net::TcpListener;

#[derive(Default)]
struct Kept {
    bodies: Vec<String>,
    headers: Vec<HeaderMap>,
}

#[derive(Clone)]
pub(crate) struct Collector {
    pub(crate) url: String,
    kept: Arc<Mutex<Kept>>,
}

/// A span, as far as tests look.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) service: String,
    pub(crate) name: String,
    pub(crate) trace: String,
    pub(crate) id: String,
    pub(crate) parent: String,
    pub(crate) links: Vec<String>,
    pub(crate) attributes: Vec<(String, Value)>,
}

impl Span {
    pub(crate) fn says(&self, key: &str, value: &Value) -> bool {
        self.attributes.iter().any(|(name, said)| name == key && said == value)
    }
}

impl Collector {
    pub(crate) async fn start() -> Self {
        let kept = Arc::new(Mutex::new(Kept::default()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let take = |State(kept): State<Arc<Mutex<Kept>>>, headers: HeaderMap, body: Bytes| async move {
            let mut kept = kept.lock().unwrap();
            kept.bodies.push(String::from_utf8(body.to_vec()).expect("JSON was asked for"));
            kept.headers.push(headers);
            (StatusCode::OK, axum::Json(json!({})))
        };
        let router = Router::new().route("/v1/traces", post(take)).with_state(Arc::clone(&kept));
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, kept }
    }

    /// Everything that came, as it came.
    pub(crate) fn text(&self) -> String {
        self.kept.lock().unwrap().bodies.concat()
    }

    pub(crate) fn headers(&self) -> Vec<HeaderMap> {
        self.kept.lock().unwrap().headers.clone()
    }

    pub(crate) fn spans(&self) -> Vec<Span> {
        let mut spans = Vec::new();
        for body in &self.kept.lock().unwrap().bodies {
            let read: Value = serde_json::from_str(body).unwrap();
            for resource in read["resourceSpans"].as_array().unwrap() {
                let said = attributes(&resource["resource"]);
                let service = said.iter().find(|(name, _)| name == "service.name").unwrap().1.as_str().unwrap();
                for span in
                    resource["scopeSpans"].as_array().unwrap().iter().flat_map(|it| it["spans"].as_array().unwrap())
                {
                    let text = |name: &str| span[name].as_str().unwrap_or_default().to_owned();
                    let links = span["links"].as_array().into_iter().flatten();
                    spans.push(Span {
                        service: service.to_owned(),
                        name: text("name"),
                        trace: text("traceId"),
                        id: text("spanId"),
                        parent: text("parentSpanId"),
                        links: links.map(|link| link["spanId"].as_str().unwrap().to_owned()).collect(),
                        attributes: attributes(span),
                    });
                }
            }
        }
        spans
    }

    /// Waits for a span.
    pub(crate) async fn until(&self, what: &str, fits: impl Fn(&Span) -> bool) -> Span {
        for _ in 0..1200 {
            if let Some(span) = self.spans().into_iter().find(&fits) {
                return span;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("no span is {what}: {:#?}", self.spans());
    }

    /// Waits for what a span is a part of.
    pub(crate) async fn parent(&self, span: &Span) -> Span {
        let wanted = span.clone();
        self.until(&format!("the parent of {span:?}"), |it| it.id == wanted.parent && it.trace == wanted.trace).await
    }
}

fn attributes(of: &Value) -> Vec<(String, Value)> {
    let all = of["attributes"].as_array().into_iter().flatten();
    all.map(|it| {
        let value = it["value"].as_object().unwrap().values().next().unwrap().clone();
        // Numbers of 64 bits are texts in JSON.
        let number = it["value"]["intValue"].as_str().and_then(|text| text.parse::<i64>().ok());
        (it["key"].as_str().unwrap().to_owned(), number.map_or(value, Value::from))
    })
    .collect()
}
