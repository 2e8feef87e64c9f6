//! Signing a person in: the authorization code flow of OpenID Connect, with PKCE.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use kitbag_model::{Email, Secret};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use url::Url;
use url::form_urlencoded::byte_serialize;

use crate::claims::{Claims, PersonClaims};
use crate::error::{IssuerError, tame};
use crate::http::read;
use crate::issuer::Issuer;
use crate::keys::opened;
use crate::metadata::Metadata;
use crate::settings::ClientSettings;

/// A sign-in that has begun. Whoever keeps the last three ends it, in the same browser.
#[derive(Debug)]
pub struct Begun {
    /// Where the browser goes.
    pub url: Url,
    /// What comes back with the answer.
    pub state: Secret,
    /// What the ID token must have in it.
    pub nonce: Secret,
    /// What proves at the token endpoint that it was we who asked.
    pub verifier: Secret,
}

/// What the browser brings back.
#[derive(Debug, Default)]
pub struct Answer {
    /// The code, which is swapped for the ID token.
    pub code: Option<String>,
    /// Whose answer it is.
    pub iss: Option<String>,
    /// Why there is none.
    pub error: Option<String>,
}

/// Who somebody is, by the issuer's word.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Claimed {
    /// What the issuer calls them, for good.
    pub subject: String,
    /// Their address.
    pub email: Option<Email>,
    /// Whether the issuer says that it is theirs.
    pub is_verified: bool,
    /// What they are called.
    pub name: Option<String>,
}

#[derive(Deserialize)]
struct Tokens {
    id_token: String,
    #[serde(default)]
    access_token: Option<String>,
}

#[derive(Deserialize)]
struct Complaint {
    error: String,
    #[serde(default)]
    error_description: Option<String>,
}

#[derive(Deserialize)]
struct UserInfo {
    sub: String,
    #[serde(flatten)]
    person: PersonClaims,
}

impl Issuer {
    /// Begins a sign-in whose answer comes to `back`.
    pub async fn begin(&self, back: &str) -> Result<Begun, IssuerError> {
        let client = self.client()?;
        let metadata = self.metadata().get().await?;
        let mut url = metadata.authorization_endpoint.clone().ok_or_else(|| missing("authorization_endpoint"))?;
        let (state, nonce, verifier) = (Secret::generate(), Secret::generate(), Secret::generate());
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.expose().as_bytes()));
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &client.id)
            .append_pair("redirect_uri", back)
            .append_pair("scope", &self.settings().scopes.join(" "))
            .append_pair("state", state.expose())
            .append_pair("nonce", nonce.expose())
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256");
        Ok(Begun { url, state, nonce, verifier })
    }

    /// Ends it: who it is, if the issuer's answer can be believed. `state` has been compared by whoever kept it.
    pub async fn finish(
        &self,
        back: &str,
        nonce: &Secret,
        verifier: &Secret,
        answer: Answer,
    ) -> Result<Claimed, IssuerError> {
        let metadata = self.metadata().get().await?;
        // Before anything else of the answer: of whom is it (RFC 9207)? Another issuer's code must not be sent to this one.
        match answer.iss.as_deref() {
            Some(iss) if iss == self.settings().issuer.as_str() => {}
            Some(_) => return Err(IssuerError::invalid("the answer is of another issuer")),
            None if metadata.says_iss => return Err(IssuerError::invalid("the answer does not say whose it is")),
            None => {}
        }
        if let Some(error) = answer.error {
            return Err(IssuerError::Refused(tame(&error)));
        }
        let code = answer.code.ok_or_else(|| IssuerError::invalid("the answer has no code"))?;
        let tokens = self.swap(&metadata, back, &code, verifier).await?;
        let claims = self.id_token(&tokens.id_token, nonce).await?;
        let person = match (&claims.person.email, &metadata.userinfo_endpoint, tokens.access_token) {
            // Many issuers tell an address only here.
            (None, Some(place), Some(token)) => {
                let info: UserInfo = self.http().get(place, Some(&Secret::new(token))).await?;
                if info.sub != claims.sub {
                    return Err(IssuerError::invalid("what it says of the person is of somebody else"));
                }
                info.person
            }
            _ => claims.person,
        };
        let is_verified = person.is_verified();
        let email = person.email.and_then(|email| email.parse().ok());
        Ok(Claimed { subject: claims.sub, email, is_verified, name: person.name })
    }

    async fn swap(
        &self,
        metadata: &Metadata,
        back: &str,
        code: &str,
        verifier: &Secret,
    ) -> Result<Tokens, IssuerError> {
        let client = self.client()?;
        let place = metadata.token_endpoint.as_ref().ok_or_else(|| missing("token_endpoint"))?;
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", back),
            ("code_verifier", verifier.expose()),
        ];
        let secret = client.secret.as_ref().map(|secret| secret.read()).transpose()?;
        let knows = |method: &str| metadata.methods.as_ref().is_some_and(|all| all.iter().any(|one| one == method));
        let by_form = knows("client_secret_post") && !knows("client_secret_basic");
        let authorization = match &secret {
            Some(secret) if !by_form => Some(basic(&client.id, secret)),
            Some(secret) => {
                form.extend([("client_id", client.id.as_str()), ("client_secret", secret.expose())]);
                None
            }
            None => {
                form.push(("client_id", &client.id));
                None
            }
        };
        let answer = self.http().post_form(place, &form, authorization.as_deref()).await?;
        match answer.status {
            200..300 => read(place, &answer),
            400..500 => Err(match read::<Complaint>(place, &answer) {
                Ok(Complaint { error, error_description }) => {
                    let more = error_description.map(|text| format!(" ({})", tame(&text))).unwrap_or_default();
                    IssuerError::Refused(format!("{}{more}", tame(&error)))
                }
                Err(_) => IssuerError::Refused(format!("its token endpoint answered {}", answer.status)),
            }),
            status => Err(IssuerError::Unreachable(format!("its token endpoint answered {status}"))),
        }
    }

    async fn id_token(&self, token: &str, nonce: &Secret) -> Result<Claims, IssuerError> {
        let client = self.client()?;
        let (kind, claims) = opened::<Claims>(self.keys(), token).await?;
        if kind.is_some_and(|kind| !kind.eq_ignore_ascii_case("jwt")) {
            return Err(IssuerError::invalid("it is no ID token"));
        }
        claims.check(self.settings().issuer.as_str())?;
        if claims.iat.is_none() {
            return Err(IssuerError::invalid("it does not say when it was made"));
        }
        if !claims.aud.contains(&client.id) {
            return Err(IssuerError::invalid("it is for another client"));
        }
        let presented = claims.azp.as_deref();
        if presented.is_some_and(|azp| azp != client.id) || claims.aud.len() > 1 && presented.is_none() {
            return Err(IssuerError::invalid("it was made for another client"));
        }
        let said = claims.nonce.as_deref().map(Secret::new);
        if said.is_none_or(|said| said.hash() != nonce.hash()) {
            return Err(IssuerError::invalid("it was not made for this sign-in"));
        }
        Ok(claims)
    }

    fn client(&self) -> Result<&ClientSettings, IssuerError> {
        self.settings().client.as_ref().ok_or_else(|| IssuerError::Settings("it has no client_id".to_owned()))
    }
}

fn missing(what: &str) -> IssuerError {
    IssuerError::Description(format!("it has no {what}"))
}

/// Both are encoded as in a form first (RFC 6749, 2.3.1): a colon in an id would move the border.
fn basic(id: &str, secret: &Secret) -> String {
    let encode = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
    format!("Basic {}", STANDARD.encode(format!("{}:{}", encode(id), encode(secret.expose()))))
}
