//! How Kitbag introduces itself to an authorization server.

use kitbag_model::Secret;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use url::Url;

/// What is known of the client before any authorization server was asked.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// The name on the page where a person says yes.
    pub name: String,
    /// Where [`client_document`] is served, if the installation has a public address: https, with a path.
    pub metadata_url: Option<Url>,
    /// A client that somebody registered by hand and gave to Kitbag.
    pub registered: Option<RegisteredClient>,
    /// What to ask for when the server does not say. Empty: what the server supports.
    pub scopes: Vec<String>,
    /// Who signs in.
    pub grant: Grant,
}

impl ClientSettings {
    /// With a name and nothing else.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), metadata_url: None, registered: None, scopes: Vec::new(), grant: Grant::Person }
    }
}

/// Who signs in at a server.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Grant {
    /// A person, in a browser (authorization code with PKCE).
    #[default]
    Person,
    /// Kitbag itself, with a registered client's proof (client credentials). Nobody is asked.
    Machine,
}

/// A client that was registered by hand.
#[derive(Clone, Debug)]
pub struct RegisteredClient {
    /// Its id.
    pub id: String,
    /// How it shows that it is this client.
    pub proof: Proof,
    /// The authorization server that knows it. If it is not given, the first one that the server names, from then on: a server that
    /// names another one later does not get the proof sent there.
    pub issuer: Option<String>,
}

/// How a client shows that it is who it says.
#[derive(Clone, Debug)]
pub enum Proof {
    /// Not at all: a public client.
    None,
    /// By a secret.
    Secret(Secret),
    /// By signing (`private_key_jwt`).
    Key {
        /// The private key: PKCS#8 as PEM.
        pem: Secret,
        /// How it signs.
        algorithm: SigningAlgorithm,
    },
}

/// How an assertion is signed.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum SigningAlgorithm {
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// RSA PKCS#1 with SHA-256.
    Rs256,
}

/// The client ID metadata document that belongs at `metadata_url`.
pub fn client_document(metadata_url: &Url, name: &str, redirect_uris: &[&str]) -> Value {
    json!({
        "client_id": metadata_url.as_str(),
        "client_name": name,
        "redirect_uris": redirect_uris,
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    })
}
