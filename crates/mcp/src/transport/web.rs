//! One request to a server on the web and the head of its answer: headers, tokens, redirects within the server's own origin.
//! What an answer may take is bounded here too.

use std::borrow::Cow;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
    LOCATION, WWW_AUTHENTICATE,
};
use http::{Method, StatusCode};
use kitbag_guard::dial::{Answer, OriginClient, Unanswered, Unsent};
use url::Url;

use crate::connection::hub::Hub;
use crate::connection::{CallError, ConnectError, Options, Tokens};

/// How often a request is repeated with another token, or at another place of the same origin.
const AGAIN: usize = 4;

/// What belongs to the connection and not to the message.
const NOT_OURS: [&str; 6] = ["host", "content-length", "transfer-encoding", "connection", "upgrade", "te"];

const IDENTITY: HeaderValue = HeaderValue::from_static("identity");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

pub(super) struct Web {
    client: OriginClient,
    headers: HeaderMap,
    tokens: Option<Arc<dyn Tokens>>,
    pub hub: Arc<Hub>,
    pub url: Url,
    pub longest: usize,
    pub answer: Duration,
}

impl Web {
    pub(super) async fn new(
        url: &Url,
        headers: &[(String, String)],
        tokens: Option<Arc<dyn Tokens>>,
        options: &Options,
        hub: Arc<Hub>,
    ) -> Result<Self, ConnectError> {
        let failed = |error: &dyn Error| ConnectError::Failed(error.to_string());
        let client = OriginClient::new(url, &options.egress, options.connect).await.map_err(|error| failed(&error))?;
        let headers = checked(headers).map_err(ConnectError::Failed)?;
        Ok(Self {
            client,
            headers,
            tokens,
            hub,
            url: url.clone(),
            longest: options.longest_message,
            answer: options.answer,
        })
    }

    /// Sends, and brings an answer that is neither a redirect nor a question for a token.
    pub(super) async fn send(
        &self,
        method: Method,
        url: &Url,
        extra: HeaderMap,
        body: Option<Bytes>,
    ) -> Result<Answer, CallError> {
        let mut url = Cow::Borrowed(url);
        let mut refused = None;
        let mut common = match self.headers.is_empty() {
            true => extra,
            false => {
                let mut headers = self.headers.clone();
                headers.extend(extra);
                headers
            }
        };
        common.insert(ACCEPT_ENCODING, IDENTITY);
        if body.is_some() {
            common.insert(CONTENT_TYPE, JSON);
        }
        for _ in 0..AGAIN {
            let mut headers = common.clone();
            if let Some(tokens) = &self.tokens
                && let Some(token) = tokens.bearer().await
            {
                let mut value = HeaderValue::try_from(format!("Bearer {token}"))
                    .map_err(|_| CallError::Nonsense("the token has characters that no header can hold".to_owned()))?;
                value.set_sensitive(true);
                headers.insert(AUTHORIZATION, value);
            }
            let sent = self.client.send(method.clone(), &url, headers, body.clone()).await;
            let response = sent.map_err(|error| match error {
                Unsent::Refused(refused) => CallError::Nonsense(refused.to_string()),
                Unsent::Unanswered(error) => self.unanswered(&error),
            })?;
            let challenge = challenge(response.headers());
            match response.status() {
                // A 403 that does not say so is not about the token, and no other token would help.
                status
                    if status == StatusCode::UNAUTHORIZED
                        || (status == StatusCode::FORBIDDEN && challenge.is_some()) =>
                {
                    let again = match &self.tokens {
                        Some(tokens) => tokens.refused(challenge.clone()).await,
                        None => false,
                    };
                    if !again {
                        return Err(CallError::NeedsAuth { challenge });
                    }
                    refused = Some(challenge);
                }
                status if status.is_redirection() && status != StatusCode::NOT_MODIFIED => {
                    url = Cow::Owned(self.elsewhere(&url, &method, &response)?);
                }
                _ if response.headers().get_all(CONTENT_ENCODING).iter().any(|encoding| encoding != "identity") => {
                    return Err(CallError::Nonsense("it is compressed, which was not asked for".to_owned()));
                }
                _ => return Ok(response),
            }
        }
        Err(match refused {
            Some(challenge) => CallError::NeedsAuth { challenge },
            None => CallError::Nonsense(format!("it redirects the same request {AGAIN} times")),
        })
    }

    /// Where a redirect leads, if it may be followed: only within the origin, since the request carries what is meant for
    /// this server alone, and only where the request stays the same one.
    fn elsewhere(&self, from: &Url, method: &Method, response: &Answer) -> Result<Url, CallError> {
        let status = response.status().as_u16();
        let to = text(response.headers(), &LOCATION).and_then(|location| from.join(&location).ok());
        let Some(to) = to else {
            return Err(CallError::Nonsense(format!("it redirects ({status}) to something that is no address")));
        };
        if to.origin() != self.url.origin() {
            let host = to.host_str().unwrap_or("nowhere").to_owned();
            let why = format!("it redirects ({status}) to another server, `{host}`; if that is right, use its address");
            return Err(CallError::Nonsense(why));
        }
        if !matches!(status, 307 | 308) && *method != Method::GET {
            return Err(CallError::Nonsense(format!("it redirects ({status}) in a way that loses the request")));
        }
        Ok(to)
    }

    /// The server cannot be reached, or broke off. The first is the end of the connection.
    fn unanswered(&self, error: &Unanswered) -> CallError {
        let host = self.url.host_str().unwrap_or_default();
        let why = format!("cannot reach `{host}`: {error}");
        if error.at_connecting {
            self.hub.close(&why);
        }
        CallError::Disconnected(why)
    }

    /// The whole body of an answer.
    pub(super) async fn body(&self, response: &mut Answer, most: usize) -> Result<Bytes, CallError> {
        let too_long = || CallError::Nonsense(format!("it is longer than the {most} bytes that are allowed"));
        if response.content_length().is_some_and(|declared| declared > most as u64) {
            return Err(too_long());
        }
        // Most answers come in one piece.
        let mut first = Bytes::new();
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(|error| self.unanswered(&error))? {
            if first.len() + body.len() + piece.len() > most {
                return Err(too_long());
            }
            if body.is_empty() && first.is_empty() {
                first = piece;
                continue;
            }
            if body.is_empty() {
                body.extend_from_slice(&std::mem::take(&mut first));
            }
            body.extend_from_slice(&piece);
        }
        Ok(if body.is_empty() { first } else { body.into() })
    }
}

/// A header's text.
pub(super) fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// What a server wants before it answers. It may say so in several headers, which are one list.
fn challenge(headers: &HeaderMap) -> Option<String> {
    let all: Vec<_> = headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok()).collect();
    if all.is_empty() { None } else { Some(all.join(", ")) }
}

/// Whether an answer is of this kind.
pub(super) fn is_kind(response: &Answer, kind: &str) -> bool {
    let found = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    found.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(kind)
}

/// Headers with these added.
pub(super) fn with(headers: impl IntoIterator<Item = (String, String)>, accept: HeaderValue) -> HeaderMap {
    // As many as most requests have, with those that come later.
    let mut map = HeaderMap::with_capacity(12);
    map.insert(ACCEPT, accept);
    // What comes here is encoded already where it has to be.
    let good = headers
        .into_iter()
        .filter_map(|(name, value)| Some((HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?)));
    map.extend(good);
    map
}

/// The headers that a person gave, or what is wrong with one. Its value is never shown.
fn checked(headers: &[(String, String)]) -> Result<HeaderMap, String> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let shown = name.escape_debug();
        let key = HeaderName::try_from(name.trim()).map_err(|_| format!("`{shown}` is no name of a header"))?;
        if NOT_OURS.contains(&key.as_str()) {
            return Err(format!("the header `{shown}` belongs to the connection and cannot be set"));
        }
        let mut value = HeaderValue::try_from(value.trim())
            .map_err(|_| format!("the value of the header `{shown}` has characters that no header can hold"))?;
        value.set_sensitive(true);
        map.append(key, value);
    }
    Ok(map)
}
