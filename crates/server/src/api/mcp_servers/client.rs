//! `PUT` and `DELETE /v1/orgs/{org}/mcp-servers/{serverKey}/client`

use axum::extract::State;
use axum::http::StatusCode;
use kitbag_mcp::auth::{SigningAlgorithm, can_sign};
use kitbag_model::{Action, OrgId, Secret};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::{Found, ServerPath, find, live, sign_in};
use crate::access::caller::MayManage;
use crate::api::error::{ApiError, Code, ErrorBody};
use crate::api::input::{JsonBody, PathOf};
use crate::app::App;
use crate::servers::{Client, ClientError, ClientKey};

/// No id, secret or scope is longer.
const LONGEST: usize = 4096;

/// No key is longer.
const LONGEST_KEY: usize = 16_384;

/// So many scopes at the most.
const MOST_SCOPES: usize = 100;

/// How Kitbag is known to a server's authorization server. It is taken and never shown again.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = RegisteredClient)]
pub(crate) struct ClientBody {
    /// The id that the authorization server gave it.
    #[serde(deserialize_with = "quiet")]
    client_id: String,
    /// Its secret; absent: it has none.
    #[serde(default, deserialize_with = "quiet_or_none")]
    #[schema(nullable = false)]
    client_secret: Option<String>,
    /// A private key that it signs with instead (`private_key_jwt`): PKCS#8 as PEM.
    #[serde(default, deserialize_with = "quiet_or_none")]
    #[schema(nullable = false)]
    private_key: Option<String>,
    /// How the private key signs.
    #[schema(nullable = false)]
    algorithm: Option<AlgorithmBody>,
    /// Who signs in: a `person` with a browser, or the `machine`, Kitbag itself, with the secret or the key.
    #[serde(default)]
    grant: GrantBody,
    /// What to ask for when the server does not say.
    #[serde(default)]
    scopes: Vec<String>,
    /// The authorization server that knows the client, as it calls itself. Absent: the first one that the server names.
    issuer: Option<String>,
}

#[derive(Clone, Copy, Default, Deserialize, Eq, PartialEq, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = ClientGrant)]
pub(crate) enum GrantBody {
    #[default]
    Person,
    Machine,
}

#[derive(Clone, Copy, Deserialize, Eq, PartialEq, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
#[schema(as = ClientAlgorithm)]
pub(crate) enum AlgorithmBody {
    Es256,
    Rs256,
}

/// A text whose value is not repeated if it is none.
fn quiet<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::String(text) => Ok(text),
        _ => Err(D::Error::custom("clientId, clientSecret and privateKey must be texts")),
    }
}

fn quiet_or_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    quiet(deserializer).map(Some)
}

impl ClientBody {
    fn checked(self) -> Result<Client, ApiError> {
        let fits = |text: &str| (1..=LONGEST).contains(&text.len()) && !text.chars().any(char::is_control);
        let wrong = "must have 1 to 4096 bytes and no line breaks or other control characters";
        if !fits(&self.client_id) {
            return Err(ApiError::invalid("clientId", wrong));
        }
        if self.client_secret.as_deref().is_some_and(|secret| !fits(secret)) {
            return Err(ApiError::invalid("clientSecret", wrong));
        }
        let is_scope = |scope: &String| fits(scope) && scope.bytes().all(|byte| byte.is_ascii_graphic());
        if self.scopes.len() > MOST_SCOPES || !self.scopes.iter().all(is_scope) {
            return Err(ApiError::invalid("scopes", "must be at most 100 words of visible ASCII characters"));
        }
        if self.issuer.as_deref().is_some_and(|issuer| !fits(issuer) || !issuer.starts_with("http")) {
            return Err(ApiError::invalid("issuer", "must be an address that begins with https://"));
        }
        let machine = self.grant == GrantBody::Machine;
        if machine && self.client_secret.is_none() && self.private_key.is_none() {
            return Err(ApiError::invalid("clientSecret", "or privateKey is needed where the machine signs in"));
        }
        let key = self.key()?;
        let Self { client_id: id, client_secret: secret, scopes, issuer, .. } = self;
        Ok(Client { id, secret, key, machine, scopes, issuer })
    }

    /// The key, which must be able to sign: a wrong one would show only when somebody signs in.
    fn key(&self) -> Result<Option<ClientKey>, ApiError> {
        let (pem, algorithm) = match (&self.private_key, self.algorithm) {
            (None, None) => return Ok(None),
            (Some(_), None) => {
                return Err(ApiError::invalid("algorithm", "is needed with a privateKey: ES256 or RS256"));
            }
            (None, Some(_)) => return Err(ApiError::invalid("privateKey", "is needed with an algorithm")),
            (Some(pem), Some(algorithm)) => (pem, algorithm),
        };
        if self.client_secret.is_some() {
            return Err(ApiError::invalid("privateKey", "takes the place of a clientSecret; give one of them"));
        }
        let algorithm = match algorithm {
            AlgorithmBody::Es256 => SigningAlgorithm::Es256,
            AlgorithmBody::Rs256 => SigningAlgorithm::Rs256,
        };
        let wrong = "must be a PKCS#8 private key as PEM, of at most 16384 bytes, that fits the algorithm";
        if pem.len() > LONGEST_KEY || !can_sign(&Secret::new(pem.clone()), algorithm) {
            return Err(ApiError::invalid("privateKey", wrong));
        }
        Ok(Some(ClientKey { pem: pem.clone(), algorithm }))
    }
}

/// Say how Kitbag is known to a server's authorization server
///
/// For a client that somebody registered there by hand. Whoever was signed in to the server is signed out. Nothing of it is ever
/// shown again.
#[utoipa::path(
    put, path = "/v1/orgs/{org}/mcp-servers/{serverKey}/client", tag = "mcp-servers",
    params(ServerPath),
    request_body = ClientBody,
    responses((status = 204), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn set_mcp_server_client(
    State(app): State<App>,
    caller: MayManage,
    PathOf(path): PathOf<ServerPath>,
    JsonBody(body): JsonBody<ClientBody>,
) -> Result<StatusCode, ApiError> {
    let grant = if body.grant == GrantBody::Machine { "machine" } else { "person" };
    let details = json!({ "grant": grant, "secret": body.client_secret.is_some(), "key": body.private_key.is_some() });
    let client = body.checked()?;
    let found = find(&app, &caller, &path).await?;
    change(&app, &caller.org, &caller.who, &found, Some(client), &details).await
}

/// Forget how Kitbag is known to a server's authorization server: it registers itself again
#[utoipa::path(
    delete, path = "/v1/orgs/{org}/mcp-servers/{serverKey}/client", tag = "mcp-servers",
    params(ServerPath),
    responses((status = 204), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn forget_mcp_server_client(
    State(app): State<App>,
    caller: MayManage,
    PathOf(path): PathOf<ServerPath>,
) -> Result<StatusCode, ApiError> {
    let found = find(&app, &caller, &path).await?;
    change(&app, &caller.org, &caller.who, &found, None, &json!({ "grant": null })).await
}

async fn change(
    app: &App,
    org: &OrgId,
    who: &str,
    found: &Found,
    client: Option<Client>,
    details: &Value,
) -> Result<StatusCode, ApiError> {
    let server = sign_in::address(app, org, &found.key).await?;
    app.servers().set_client(&server, client).await.map_err(|error| match error {
        ClientError::Store(error) => error.into(),
        ClientError::Auth(error) => sign_in::told(error),
        ClientError::Keeper(error) => {
            tracing::error!(%error, server = %server.key, "a client could not be kept");
            ApiError::new(Code::Internal, "it could not be kept; the log has the cause")
        }
    })?;
    let mut tx = app.store().write(org).await?;
    tx.audit(who, Action::McpServerClientChanged, &found.key.to_string(), details).await?;
    tx.commit().await?;
    live::reconnect_if_on(app, org, found).await?;
    Ok(StatusCode::NO_CONTENT)
}
