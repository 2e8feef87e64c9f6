//! The part of the conformance suite's client that signs in: the product's authorizer, and a person who says yes to everything at once.

use std::sync::Arc;

use kitbag_guard::dial::loopback_client;
use kitbag_mcp::auth::{
    Authorizer, Callback, ClientSettings, Grant, InMemory, Proof, Refusal, RegisteredClient, Server, ServerTokens,
    SigningAlgorithm,
};
use kitbag_mcp::connection::Options;
use kitbag_model::Secret;
use serde_json::Value;
use url::Url;

use crate::Failure;

const PERSON: &str = "conformance";
const BACK: &str = "http://localhost:8700/oauth/callback";
/// Where the suite expects clients to say that their document is. Nobody fetches it.
const DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";

/// Somebody who signs in whenever a server wants it, but not for ever.
pub struct Person {
    authorizer: Arc<Authorizer>,
    server: Server,
    settings: ClientSettings,
    pub tokens: Arc<ServerTokens>,
    patience: u8,
}

impl Person {
    /// For one server. The scenario's context may have a client that was registered by hand.
    pub fn new(url: &Url, options: &Options, scenario: &str, context: &Value) -> Result<Self, Failure> {
        let egress = options.egress.clone();
        let authorizer = Arc::new(Authorizer::new(Arc::new(move |_| egress.clone()), Arc::new(InMemory::default())));
        let server = Server { org: "local".parse()?, key: "conformance~suite".parse()?, url: url.clone() };
        let settings = ClientSettings {
            metadata_url: Some(DOCUMENT.parse()?),
            registered: registered(context),
            grant: if scenario.starts_with("auth/client-credentials") { Grant::Machine } else { Grant::Person },
            ..ClientSettings::named("Kitbag")
        };
        let tokens = Arc::new(authorizer.tokens(server.clone(), settings.clone()));
        Ok(Self { authorizer, server, settings, tokens, patience: 3 })
    }

    /// Signs in after the server asked for it. An error: it did not work, or would not help.
    pub async fn sign_in(&mut self, challenge: Option<&str>) -> Result<(), Failure> {
        match self.tokens.verdict() {
            Some(Err(error)) => return Err(error.into()),
            Some(Ok(Refusal::NotAllowed { scopes })) => {
                return Err(format!("the server wants {scopes:?}, which was asked for already").into());
            }
            _ => {}
        }
        self.patience = self.patience.checked_sub(1).ok_or("the server wants somebody to sign in over and over")?;
        let started = self.authorizer.begin(&self.server, PERSON, challenge, BACK, &self.settings).await?;
        // What a browser does, up to the point where it comes back to us.
        let page = loopback_client()?.get(started.authorize_url).send().await?;
        let back = page.headers().get("location").ok_or("nobody sent the browser back")?.to_str()?;
        let back = Url::parse(back)?;
        let query = |name: &str| back.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned());
        let callback = Callback {
            state: query("state").unwrap_or_default(),
            code: query("code"),
            iss: query("iss"),
            error: query("error"),
            error_description: query("error_description"),
        };
        self.authorizer.finish(&self.server.org, PERSON, callback).await?;
        Ok(())
    }
}

fn registered(context: &Value) -> Option<RegisteredClient> {
    let text = |name: &str| context.get(name).and_then(Value::as_str);
    let proof = match (text("client_secret"), text("private_key_pem"), text("signing_algorithm")) {
        (Some(secret), ..) => Proof::Secret(Secret::new(secret)),
        (None, Some(pem), Some("RS256")) => Proof::Key { pem: Secret::new(pem), algorithm: SigningAlgorithm::Rs256 },
        (None, Some(pem), _) => Proof::Key { pem: Secret::new(pem), algorithm: SigningAlgorithm::Es256 },
        (None, None, _) => Proof::None,
    };
    let issuer = text("issuer").map(str::to_owned);
    Some(RegisteredClient { id: text("client_id")?.to_owned(), proof, issuer })
}
