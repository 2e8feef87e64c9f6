//! The token endpoint: who we are, what we want, and the answer, read strictly.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kitbag_model::Secret;
use reqwest::header::HeaderValue;
use serde::Deserialize;
use serde_json::Value;
use url::Url;
use url::form_urlencoded::byte_serialize;

use super::error::{AuthError, tame};
use super::http::{Answer, Http, nonsense};
use super::records::{Identity, Method, SignInRecord, TokenRecord};
use super::{assertion, pkce, scopes};

/// A token is at most this long; headers have limits too.
const LONGEST_TOKEN: usize = 32 * 1024;
/// Ten years. Nobody means more, and sums with it must not overflow.
const LONGEST_LIFE: u64 = 10 * 366 * 24 * 3600;
/// How long before its end a token is renewed at the earliest.
const AHEAD: u64 = 300;

/// How a request shows who sends it.
pub(super) struct Proven {
    header: Option<HeaderValue>,
    fields: Vec<(&'static str, Secret)>,
}

impl Proven {
    /// For `identity` at `issuer`.
    pub(super) fn new(identity: &Identity, issuer: &str, now: u64) -> Result<Self, AuthError> {
        let id = ("client_id", Secret::new(identity.id.clone()));
        let secret = identity.secret.clone().map(Secret::new);
        match (identity.method, secret, &identity.key) {
            (Method::ClientSecretBasic, Some(secret), _) => {
                Ok(Self { header: Some(basic(&identity.id, &secret)?), fields: Vec::new() })
            }
            (Method::ClientSecretPost, Some(secret), _) => {
                Ok(Self { header: None, fields: vec![id, ("client_secret", secret)] })
            }
            (Method::PrivateKeyJwt, _, Some(key)) => {
                let signed = assertion::sign(&identity.id, issuer, &Secret::new(key.pem.clone()), key.algorithm, now)?;
                let kind = Secret::new("urn:ietf:params:oauth:client-assertion-type:jwt-bearer");
                let fields = vec![id, ("client_assertion_type", kind), ("client_assertion", signed)];
                Ok(Self { header: None, fields })
            }
            _ => Ok(Self { header: None, fields: vec![id] }),
        }
    }
}

/// Both are encoded as in a form first (RFC 6749, 2.3.1): a colon in an id would move the border.
fn basic(id: &str, secret: &Secret) -> Result<HeaderValue, AuthError> {
    let encode = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
    let pair = STANDARD.encode(format!("{}:{}", encode(id), encode(secret.expose())));
    let mut value = HeaderValue::from_str(&format!("Basic {pair}"))
        .map_err(|_| AuthError::Settings("the client's id and secret do not fit into a header"))?;
    value.set_sensitive(true);
    Ok(value)
}

#[derive(Deserialize)]
struct Document {
    access_token: String,
    #[serde(default)]
    token_type: Option<String>,
    #[serde(default)]
    expires_in: Value,
    #[serde(default)]
    refresh_token: Option<String>,
    #[serde(default)]
    scope: Option<String>,
}

/// What was granted.
pub(super) struct Granted {
    access: String,
    refresh: Option<String>,
    life: Option<u64>,
    scopes: Option<Vec<String>>,
}

impl Granted {
    /// The tokens of a sign-in.
    pub(super) fn into_record(self, sign_in: &SignInRecord, now: u64) -> TokenRecord {
        let blank = TokenRecord {
            server: sign_in.server.clone(),
            resource: sign_in.resource.clone(),
            issuer: sign_in.issuer.name.clone(),
            token_endpoint: sign_in.issuer.token_endpoint.clone(),
            revocation_endpoint: sign_in.issuer.revocation_endpoint.clone(),
            identity: sign_in.identity.clone(),
            access: String::new(),
            refresh: None,
            obtained_at: now,
            expires_at: None,
            renew_at: None,
            asked: sign_in.scopes.clone(),
            granted: sign_in.scopes.clone(),
            missing: Vec::new(),
            machine: false,
        };
        self.renew(&blank, now)
    }

    /// `old` with what is new. What is not said anew stays: the refresh token, the scopes.
    pub(super) fn renew(self, old: &TokenRecord, now: u64) -> TokenRecord {
        let renew_at = self.life.map(|life| {
            // Some time ahead, and everybody at another time: many servers' tokens were had in the same minute.
            let ahead = AHEAD.min(life / 4);
            now + life - ahead - pkce::below(ahead / 2 + 1)
        });
        TokenRecord {
            access: self.access,
            refresh: self.refresh.or_else(|| old.refresh.clone()),
            obtained_at: now,
            expires_at: self.life.map(|life| now + life),
            renew_at,
            granted: self.scopes.unwrap_or_else(|| old.granted.clone()),
            missing: Vec::new(),
            ..old.clone()
        }
    }
}

/// Asks for tokens.
pub(super) async fn ask(
    http: &Http,
    endpoint: &str,
    proven: Proven,
    form: &[(&str, &str)],
) -> Result<Granted, AuthError> {
    let url = Url::parse(endpoint).map_err(|_| AuthError::Unreadable)?;
    let answer = post(http, &url, proven, form).await?;
    if !answer.is_success() {
        return Err(Complaint::of(&answer).into_error(&url));
    }
    // Some say no with a 200.
    let document: Document = match answer.json() {
        Ok(document) => document,
        Err(_) if answer.json::<Words>().is_ok() => return Err(Complaint::of(&answer).into_error(&url)),
        Err(reason) => return Err(nonsense(&url, &reason)),
    };
    read(document).map_err(|reason| nonsense(&url, reason))
}

/// Posts a form as the client that we are.
pub(super) async fn post(http: &Http, url: &Url, proven: Proven, form: &[(&str, &str)]) -> Result<Answer, AuthError> {
    let fields = proven.fields.iter().map(|(name, value)| (*name, value.expose()));
    let form: Vec<_> = form.iter().copied().chain(fields).collect();
    http.post_form(url, &form, proven.header).await
}

fn read(document: Document) -> Result<Granted, &'static str> {
    if document.token_type.is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer")) {
        return Err("its token is of a kind that is not known; only bearer tokens are");
    }
    // It becomes a header: whatever could end that is no token.
    let visible = |text: &str| !text.is_empty() && text.bytes().all(|byte| matches!(byte, 0x21..=0x7e));
    if !visible(&document.access_token) || document.access_token.len() > LONGEST_TOKEN {
        return Err("its token has letters that no token has, or is too long");
    }
    let refresh = document.refresh_token.filter(|text| !text.is_empty());
    if refresh.as_ref().is_some_and(|text| text.len() > LONGEST_TOKEN) {
        return Err("its refresh token is too long");
    }
    let life = match &document.expires_in {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    // Rounds towards zero, and what is not a number is zero: the token is renewed at once then.
    let life = life.map(|seconds| (seconds as u64).min(LONGEST_LIFE));
    Ok(Granted { access: document.access_token, refresh, life, scopes: document.scope.as_deref().map(scopes::parse) })
}

#[derive(Deserialize)]
struct Words {
    error: String,
    #[serde(default)]
    error_description: Option<String>,
}

/// A no of an authorization server.
pub(super) struct Complaint {
    status: u16,
    words: Option<Words>,
}

impl Complaint {
    pub(super) fn of(answer: &Answer) -> Self {
        Self { status: answer.status, words: answer.json().ok() }
    }

    fn into_error(self, url: &Url) -> AuthError {
        match self.words {
            Some(words) if self.status < 500 && self.status != 429 => AuthError::Denied {
                code: tame(&words.error),
                description: words.error_description.as_deref().map(tame),
            },
            _ if self.status >= 500 || self.status == 429 => {
                AuthError::Unreachable { host: super::http::host(url), reason: format!("it answered {}", self.status) }
            }
            _ => nonsense(url, &format!("it answered {}", self.status)),
        }
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.words {
            Some(words) => {
                write!(f, "{}", tame(&words.error))?;
                words.error_description.as_deref().map_or(Ok(()), |text| write!(f, " ({})", tame(text)))
            }
            None => write!(f, "it answered {}", self.status),
        }
    }
}
