//! An issuer that says what it is told to: mostly the truth, with one thing that is wrong.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PSS_SHA256,
    RsaKeyPair,
};
use aws_lc_rs::{hmac, rsa};
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

/// A key of the twin, by its algorithm.
pub(crate) enum Key {
    Es256(EcdsaKeyPair),
    EdDsa(Ed25519KeyPair),
    Rsa(RsaKeyPair, &'static str),
}

impl Key {
    pub(crate) fn new(algorithm: &str) -> Self {
        let random = SystemRandom::new();
        match algorithm {
            "ES256" => {
                let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
                Self::Es256(EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref()).unwrap())
            }
            "EdDSA" => {
                let pkcs8 = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
                Self::EdDsa(Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap())
            }
            "RS256" => Self::Rsa(RsaKeyPair::generate(rsa::KeySize::Rsa2048).unwrap(), "RS256"),
            "PS256" => Self::Rsa(RsaKeyPair::generate(rsa::KeySize::Rsa2048).unwrap(), "PS256"),
            other => panic!("{other}"),
        }
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Self::Es256(_) => "ES256",
            Self::EdDsa(_) => "EdDSA",
            Self::Rsa(_, name) => name,
        }
    }

    fn jwk(&self, id: &str) -> Value {
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        match self {
            Self::Es256(key) => {
                let point = key.public_key().as_ref();
                json!({ "kty": "EC", "crv": "P-256", "use": "sig", "kid": id, "x": text(&point[1..33]), "y": text(&point[33..]) })
            }
            Self::EdDsa(key) => {
                json!({ "kty": "OKP", "crv": "Ed25519", "kid": id, "x": text(key.public_key().as_ref()) })
            }
            Self::Rsa(key, algorithm) => {
                let (n, e) = (key.public_key().modulus(), key.public_key().exponent());
                let (n, e) = (text(n.big_endian_without_leading_zero()), text(e.big_endian_without_leading_zero()));
                json!({ "kty": "RSA", "kid": id, "alg": algorithm, "n": n, "e": e })
            }
        }
    }

    fn sign(&self, said: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Es256(key) => key.sign(&random, said).unwrap().as_ref().to_vec(),
            Self::EdDsa(key) => key.sign(said).as_ref().to_vec(),
            Self::Rsa(key, algorithm) => {
                let mut signature = vec![0; key.public_modulus_len()];
                let padding: &'static dyn aws_lc_rs::signature::RsaEncoding =
                    if *algorithm == "PS256" { &RSA_PSS_SHA256 } else { &RSA_PKCS1_SHA256 };
                key.sign(padding, &random, said, &mut signature).unwrap();
                signature
            }
        }
    }

    /// The public key, as somebody would use it who takes it for a secret.
    fn public_bytes(&self) -> Vec<u8> {
        match self {
            Self::Es256(key) => key.public_key().as_der().unwrap().as_ref().to_vec(),
            Self::EdDsa(key) => key.public_key().as_ref().to_vec(),
            Self::Rsa(key, _) => key.public_key().as_der().unwrap().as_ref().to_vec(),
        }
    }
}

/// How a token is signed.
#[derive(Clone, Copy, Default, PartialEq)]
pub(crate) enum Signing {
    #[default]
    Right,
    /// Not at all, and it says so.
    None,
    /// With the public key as the secret of an HMAC.
    PublicKeyAsSecret,
    /// By somebody else, under the name of the key.
    Stranger,
}

/// What it says now.
#[derive(Default)]
pub(crate) struct Said {
    /// What is other than usual in its description.
    pub(crate) metadata: Value,
    /// What is other than usual in the claims of an ID token.
    pub(crate) claims: Value,
    /// What is other than usual in the header of a token.
    pub(crate) header: Value,
    pub(crate) signing: Signing,
    /// What is other than usual in the answer that the browser brings back; null leaves something out.
    pub(crate) answer: Value,
    /// Paths that fail.
    pub(crate) down: Vec<&'static str>,
    /// Paths that never answer.
    pub(crate) slow: Vec<&'static str>,
    nonce: String,
    asked: BTreeMap<String, u32>,
}

/// The issuer.
#[derive(Clone)]
pub(crate) struct Twin(Arc<Inner>);

struct Inner {
    url: String,
    said: Mutex<Said>,
    /// Its keys, the newest last, which signs.
    keys: Mutex<Vec<(String, Arc<Key>)>>,
}

impl Twin {
    pub(crate) async fn start() -> Self {
        Self::with_keys(&["ES256"]).await
    }

    /// With a key for each of these algorithms, which is called like it. The last one signs.
    pub(crate) async fn with_keys(algorithms: &[&str]) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let key = |name: &&str| ((*name).to_owned(), Arc::new(Key::new(name)));
        let keys = Mutex::new(algorithms.iter().map(key).collect());
        let twin = Self(Arc::new(Inner { url, said: Mutex::default(), keys }));
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(metadata))
            .route("/jwks", get(jwks))
            .route("/auth", get(authorize))
            .route("/token", post(token))
            .with_state(twin.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        twin
    }

    pub(crate) fn url(&self) -> &str {
        &self.0.url
    }

    pub(crate) fn said(&self) -> MutexGuard<'_, Said> {
        self.0.said.lock().unwrap()
    }

    /// Says the truth again.
    pub(crate) fn honest(&self) {
        let asked = std::mem::take(&mut self.said().asked);
        *self.said() = Said { asked, ..Said::default() };
    }

    /// How often a path was asked for.
    pub(crate) fn asked(&self, path: &str) -> u32 {
        self.said().asked.get(path).copied().unwrap_or_default()
    }

    /// Has other keys from now on.
    pub(crate) fn rotate(&self, id: &str, key: Key) {
        *self.0.keys.lock().unwrap() = vec![(id.to_owned(), Arc::new(key))];
    }

    /// From now on the next of its keys signs.
    pub(crate) fn next_key(&self) {
        self.0.keys.lock().unwrap().rotate_right(1);
    }

    /// A signed token.
    pub(crate) fn signed(&self, kind: &str, claims: &Value) -> String {
        let (id, key) = self.0.keys.lock().unwrap().last().unwrap().clone();
        let (signing, more) = {
            let said = self.said();
            (said.signing, said.header.clone())
        };
        let mut header = json!({ "alg": key.algorithm(), "typ": kind, "kid": id });
        match signing {
            Signing::None => header["alg"] = json!("none"),
            Signing::PublicKeyAsSecret => header["alg"] = json!("HS256"),
            Signing::Right | Signing::Stranger => {}
        }
        merge(&mut header, &more);
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let text = format!("{}.{}", encode(&header), encode(claims));
        let signature = match signing {
            Signing::Right => key.sign(text.as_bytes()),
            Signing::None => Vec::new(),
            Signing::PublicKeyAsSecret => {
                let secret = hmac::Key::new(hmac::HMAC_SHA256, &key.public_bytes());
                hmac::sign(&secret, text.as_bytes()).as_ref().to_vec()
            }
            Signing::Stranger => Key::new(key.algorithm()).sign(text.as_bytes()),
        };
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// An access token for somebody, with changes.
    pub(crate) fn access_token(&self, subject: &str, audience: &str, changes: Value) -> String {
        let mut claims = json!({
            "iss": self.url(), "sub": subject, "aud": audience, "exp": now() + 300, "iat": now(), "jti": "1",
            "client_id": "an-agent", "scope": "kitbag:use",
        });
        merge(&mut claims, &changes);
        self.signed("at+jwt", &claims)
    }

    async fn met(&self, path: &'static str) -> Result<(), Response> {
        let (is_down, is_slow) = {
            let mut said = self.said();
            *said.asked.entry(path.to_owned()).or_default() += 1;
            (said.down.contains(&path), said.slow.contains(&path))
        };
        if is_slow {
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        if is_down { Err(StatusCode::INTERNAL_SERVER_ERROR.into_response()) } else { Ok(()) }
    }
}

pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

/// Null takes away.
fn merge(one: &mut Value, more: &Value) {
    let Value::Object(more) = more else { return };
    for (name, value) in more {
        match value {
            Value::Null => drop(one.as_object_mut().unwrap().remove(name)),
            value => one[name] = value.clone(),
        }
    }
}

async fn metadata(State(twin): State<Twin>) -> Result<Json<Value>, Response> {
    twin.met("/metadata").await?;
    let url = twin.url();
    let mut document = json!({
        "issuer": url, "authorization_endpoint": format!("{url}/auth"), "token_endpoint": format!("{url}/token"),
        "jwks_uri": format!("{url}/jwks"), "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": true,
    });
    merge(&mut document, &twin.said().metadata);
    Ok(Json(document))
}

async fn jwks(State(twin): State<Twin>) -> Result<Json<Value>, Response> {
    twin.met("/jwks").await?;
    let keys: Vec<Value> = twin.0.keys.lock().unwrap().iter().map(|(id, key)| key.jwk(id)).collect();
    Ok(Json(json!({ "keys": keys })))
}

/// Everybody wants to, at once.
async fn authorize(
    State(twin): State<Twin>,
    Query(asked): Query<BTreeMap<String, String>>,
) -> Result<Redirect, Response> {
    twin.met("/auth").await?;
    assert_eq!(asked["response_type"], "code");
    assert_eq!(asked["code_challenge_method"], "S256");
    let mut answer = json!({ "code": "a-code", "state": asked["state"], "iss": twin.url() });
    let mut said = twin.said();
    asked["nonce"].clone_into(&mut said.nonce);
    merge(&mut answer, &said.answer);
    let mut back = url::Url::parse(&asked["redirect_uri"]).unwrap();
    for (name, value) in answer.as_object().unwrap() {
        back.query_pairs_mut().append_pair(name, value.as_str().unwrap());
    }
    Ok(Redirect::to(back.as_str()))
}

async fn token(State(twin): State<Twin>, body: String) -> Result<Json<Value>, Response> {
    twin.met("/token").await?;
    assert!(body.contains("code_verifier=") && body.contains("code=a-code"), "{body}");
    let mut claims = json!({
        "iss": twin.url(), "sub": "1234", "aud": "kitbag", "exp": now() + 300, "iat": now(),
        "email": "grace@example.org", "email_verified": true, "name": "Grace",
    });
    {
        let said = twin.said();
        claims["nonce"] = json!(said.nonce);
        merge(&mut claims, &said.claims);
    }
    Ok(Json(json!({ "access_token": "opaque", "token_type": "Bearer", "id_token": twin.signed("JWT", &claims) })))
}
