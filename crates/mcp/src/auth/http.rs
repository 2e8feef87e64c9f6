//! Every request of this room goes through here: by a client that was judged for the address, bounded in size and time, following
//! nothing.

use std::sync::Arc;
use std::time::Duration;

use kitbag_guard::dial::{self, EgressPolicy, ExchangeLimits, Exchanged, FetchError};
use kitbag_model::OrgId;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Method, RequestBuilder};
use serde::de::DeserializeOwned;
use url::Url;

use super::error::AuthError;

/// Whom we may dial, by organisation.
pub type Egress = Arc<dyn Fn(&OrgId) -> EgressPolicy + Send + Sync>;

/// The most bytes of an answer. Descriptions of authorization servers have a few thousand.
const LARGEST: usize = 256 * 1024;
/// The longest that one answer may take, unless somebody says otherwise.
pub(super) const LONGEST: Duration = Duration::from_secs(20);

/// An answer, whole.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Its JSON. What is wrong with it is told without a word of it: it may hold a token.
    pub(super) fn json<T: DeserializeOwned>(&self) -> Result<T, String> {
        serde_json::from_slice(&self.body)
            .map_err(|error| format!("no JSON of the right shape (line {}, column {})", error.line(), error.column()))
    }
}

/// What dials for one organisation.
#[derive(Clone)]
pub(super) struct Http {
    pub(super) egress: EgressPolicy,
    pub(super) longest: Duration,
}

impl Http {
    pub(super) async fn get(&self, url: &Url) -> Result<Answer, AuthError> {
        self.send(Method::GET, url, |request| request).await
    }

    /// Posts a form; `authorization` is a whole header.
    pub(super) async fn post_form(
        &self,
        url: &Url,
        form: &[(&str, &str)],
        authorization: Option<HeaderValue>,
    ) -> Result<Answer, AuthError> {
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        self.send(Method::POST, url, |request| {
            let request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(body);
            match authorization {
                Some(value) => request.header(AUTHORIZATION, value),
                None => request,
            }
        })
        .await
    }

    pub(super) async fn post_json(&self, url: &Url, body: &serde_json::Value) -> Result<Answer, AuthError> {
        self.send(Method::POST, url, |request| request.header(CONTENT_TYPE, "application/json").body(body.to_string()))
            .await
    }

    async fn send(
        &self,
        method: Method,
        url: &Url,
        fill: impl FnOnce(RequestBuilder) -> RequestBuilder,
    ) -> Result<Answer, AuthError> {
        let limits = ExchangeLimits { bytes: LARGEST, total: self.longest };
        let filled = |request: RequestBuilder| fill(request.header(ACCEPT, "application/json"));
        match dial::exchange(method, url, &self.egress, limits, filled).await {
            Ok(Exchanged { status, body }) => Ok(Answer { status, body }),
            Err(FetchError::Encoded { .. }) => Err(nonsense(url, "it is compressed, which was not asked for")),
            Err(FetchError::TooLarge { limit, .. }) => {
                Err(nonsense(url, &format!("it has more than the {limit} bytes that are allowed")))
            }
            Err(FetchError::Slow { limit, .. }) => {
                Err(unreachable(url, format!("no answer within {} seconds", limit.as_secs_f64())))
            }
            Err(FetchError::Connect { reason, .. } | FetchError::Broken { reason, .. }) => {
                Err(unreachable(url, reason))
            }
            Err(refused) => Err(unreachable(url, refused.to_string())),
        }
    }
}

pub(super) fn host(url: &Url) -> String {
    url.host_str().unwrap_or_default().to_owned()
}

pub(super) fn nonsense(url: &Url, reason: &str) -> AuthError {
    AuthError::Nonsense { host: host(url), reason: reason.to_owned() }
}

fn unreachable(url: &Url, reason: String) -> AuthError {
    AuthError::Unreachable { host: host(url), reason }
}
