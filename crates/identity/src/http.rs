//! Requests to an issuer. Its own address was written by the operator, so it may be a private one; every other address that it names is
//! judged by the operator's rules for egress like any stranger's.

use std::time::Duration;

use kitbag_guard::dial::{self, Allowed, EgressPolicy, ExchangeLimits, Exchanged};
use kitbag_model::Secret;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Method, RequestBuilder};
use serde::de::DeserializeOwned;
use url::Url;

use crate::error::IssuerError;
use crate::settings::IssuerUrl;

/// The most bytes of an answer. Descriptions and sets of keys have a few thousand.
const LARGEST: usize = 256 * 1024;
/// The longest that an answer may take: somebody waits for it.
const LONGEST: Duration = Duration::from_secs(10);

/// What asks one issuer.
#[derive(Clone, Debug)]
pub(crate) struct Http {
    policy: EgressPolicy,
}

impl Http {
    pub(crate) fn new(issuer: &IssuerUrl, policy: &EgressPolicy) -> Self {
        let mut policy = policy.clone();
        let url = issuer.url();
        let entry = url.host_str().zip(url.port_or_known_default()).map(|(host, port)| format!("{host}:{port}"));
        policy.allow.extend(entry.and_then(|entry| entry.parse::<Allowed>().ok()));
        Self { policy }
    }

    /// Gets JSON; `bearer` is a token of the person that it is about.
    pub(crate) async fn get<T: DeserializeOwned>(&self, url: &Url, bearer: Option<&Secret>) -> Result<T, IssuerError> {
        let authorization = bearer.map(|token| sensitive(&format!("Bearer {}", token.expose()))).transpose()?;
        let answer = self
            .send(Method::GET, url, |request| match authorization {
                Some(value) => request.header(AUTHORIZATION, value),
                None => request,
            })
            .await?;
        if !(200..300).contains(&answer.status) {
            return Err(IssuerError::Unreachable(format!("{} answered {}", place(url), answer.status)));
        }
        read(url, &answer)
    }

    /// Posts a form. The answer as it is, since a no has words too.
    pub(crate) async fn post_form(
        &self,
        url: &Url,
        form: &[(&str, &str)],
        authorization: Option<&str>,
    ) -> Result<Exchanged, IssuerError> {
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        let authorization = authorization.map(sensitive).transpose()?;
        self.send(Method::POST, url, |request| {
            let request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(body);
            match authorization {
                Some(value) => request.header(AUTHORIZATION, value),
                None => request,
            }
        })
        .await
    }

    async fn send(
        &self,
        method: Method,
        url: &Url,
        fill: impl FnOnce(RequestBuilder) -> RequestBuilder,
    ) -> Result<Exchanged, IssuerError> {
        let limits = ExchangeLimits { bytes: LARGEST, total: LONGEST };
        let filled = |request: RequestBuilder| fill(request.header(ACCEPT, "application/json"));
        let answer = dial::exchange(method, url, &self.policy, limits, filled).await;
        answer.map_err(|error| IssuerError::Unreachable(error.to_string()))
    }
}

/// Reads JSON. What is wrong with it is told without a word of it: it may hold a token.
pub(crate) fn read<T: DeserializeOwned>(url: &Url, answer: &Exchanged) -> Result<T, IssuerError> {
    serde_json::from_slice(&answer.body).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        IssuerError::Description(format!("{}: no JSON of the right shape (line {line}, column {column})", place(url)))
    })
}

fn sensitive(text: &str) -> Result<HeaderValue, IssuerError> {
    let mut value = HeaderValue::from_str(text)
        .map_err(|_| IssuerError::Settings("a secret or token does not fit into a header".to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}

fn place(url: &Url) -> String {
    format!("{}{}", url.host_str().unwrap_or_default(), url.path())
}
