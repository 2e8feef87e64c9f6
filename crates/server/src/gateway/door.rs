//! What a request to the endpoint says of itself beside its message: who sends it, what it is about, and its settings.

use axum::extract::{Path, RawQuery};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use kitbag_mcp::serve::Fault;
use kitbag_model::resolution::{Lists, Setting, from_request};
use kitbag_model::{Audience, OrgId, Scope, ServerKey, ToolsetId};
use serde::Deserialize;

use crate::access::caller::{Principal, authenticate_at};
use crate::access::issuers::lent::Door;
use crate::access::issuers::resource;
use crate::access::origin::only;
use crate::api::error::{ApiError, Code};
use crate::app::App;

/// What an address is about.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) enum Place {
    Everything,
    Toolset(ToolsetId),
    Server(ServerKey),
}

/// What the path names.
#[derive(Deserialize)]
pub(crate) struct Named {
    pub(super) org: Option<String>,
    id: Option<String>,
    #[serde(rename = "serverKey")]
    server: Option<String>,
}

/// Somebody at the door.
pub(super) struct Guest {
    pub(super) org: OrgId,
    pub(super) who: String,
    /// Whose eyes look at the toolsets.
    pub(super) audience: Audience,
    pub(super) place: Place,
}

impl Guest {
    /// Who it is, and whether there is such a place. What belongs to another organisation is not there.
    pub(super) async fn new(app: &App, parts: &Parts, Path(named): Path<Named>) -> Result<Self, ApiError> {
        let principal = Self::proven(app, parts, named.org).await;
        let principal = principal.map_err(|error| resource::challenged(app, parts, error))?;
        let audience = Audience::of(&principal.org, principal.role, principal.user);
        let Principal { org, who, .. } = principal;
        let place = match (named.id, named.server) {
            (Some(id), _) => {
                let missing = || ApiError::new(Code::ToolsetNotFound, format!("there is no toolset {id:?}"));
                Place::Toolset(id.parse().map_err(|_| missing())?)
            }
            (None, Some(key)) => {
                let missing = || ApiError::not_found("MCP server", &key);
                Place::Server(key.parse().map_err(|_| missing())?)
            }
            (None, None) => Place::Everything,
        };
        Ok(Self { org, who, audience, place })
    }

    /// Who it is, if it may use tools.
    async fn proven(app: &App, parts: &Parts, org: Option<String>) -> Result<Principal, ApiError> {
        // It would stand in logs and in histories, on the way here and behind.
        let query = parts.uri.query().unwrap_or_default();
        if url::form_urlencoded::parse(query.as_bytes()).any(|(name, _)| name == "access_token") {
            let message = "a token is taken from the Authorization header alone, and this one is in the address";
            let has_another = parts.headers.contains_key(header::AUTHORIZATION);
            return Err(ApiError::new(if has_another { Code::BadRequest } else { Code::Unauthorized }, message));
        }
        let proven = authenticate_at(app, &door(parts), &parts.method, &parts.headers).await?;
        let principal = match org {
            Some(org) => proven.of(app, &org).await?,
            None => proven.only(app).await?,
        };
        if !principal.scopes.contains(Scope::Use) {
            let has = principal.scopes.to_string();
            let message = format!("this needs a token with the scope \"use\"; this one has {has:?}");
            return Err(ApiError::new(Code::Forbidden, message));
        }
        Ok(principal)
    }

    /// Who must be told apart from all others. Somebody who is not what they were when a session began has to begin another: a session
    /// serves what its owner saw then.
    pub(super) fn owner(&self) -> String {
        let sees = if self.audience == Audience::Everything { "" } else { " (member)" };
        format!("{} {}{sees}", self.org, self.who)
    }
}

/// The door that a request knocks at.
pub(super) fn door(parts: &Parts) -> Door {
    Door::Mcp(parts.uri.path().to_owned())
}

/// What a request asks for beside its message.
pub(super) struct Wishes {
    pub(super) lists: Lists,
    pub(super) chat: Option<String>,
}

impl Wishes {
    /// From headers and the query. The same by both ways is an error: which of them was meant?
    pub(super) fn read(app: &App, headers: &HeaderMap, query: &RawQuery) -> Result<Self, Fault> {
        let prefix = app.settings().resolution.header_prefix.as_str();
        let text = query.0.as_deref().unwrap_or_default();
        let pairs: Vec<(String, String)> =
            url::form_urlencoded::parse(text.as_bytes()).map(|(name, value)| (name.into(), value.into())).collect();
        check_names(&pairs, headers, prefix)?;
        let given = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let said = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        let lists = from_request(given, said, prefix).map_err(|problems| refused(&problems.to_string()))?;
        let asked = pairs.into_iter().filter(|(name, _)| name == "chat").map(|(_, value)| value);
        let chat = chat_of(headers, &asked.collect::<Vec<_>>(), prefix).map_err(|problem| refused(&problem))?;
        Ok(Self { lists, chat })
    }
}

/// The chat that a request names, by the query or by a header; what is wrong if it names several.
pub(crate) fn chat_of(headers: &HeaderMap, asked: &[String], prefix: &str) -> Result<Option<String>, String> {
    let name = format!("{prefix}Chat").to_ascii_lowercase();
    let named = match prefix {
        "" => None,
        _ => match header::HeaderName::from_bytes(name.as_bytes()).ok().filter(|name| headers.contains_key(name)) {
            Some(name) => Some(only(headers, &name).ok_or_else(|| format!("{name} must be there once"))?),
            None => None,
        },
    };
    match (asked, named) {
        ([], named) => Ok(named.map(ToOwned::to_owned)),
        ([one], None) => Ok(Some(one.clone())),
        ([_], Some(_)) => Err("Both query and header specify chat".to_owned()),
        _ => Err("chat is there more than once in the query".to_owned()),
    }
}

/// What clients of the protocol and its tools say for themselves under names that could be taken for settings.
const NOT_SETTINGS: [&str; 6] =
    ["mcp-session-id", "mcp-protocol-version", "mcp-method", "mcp-name", "x-mcp-proxy-auth", "x-mcp-remote-auth"];

/// Refuses what is no setting and looks like one: a client that misspells what it should not have would get all of it.
fn check_names(pairs: &[(String, String)], headers: &HeaderMap, prefix: &str) -> Result<(), Fault> {
    let mut wrong = Vec::new();
    let queries = || Setting::ALL.map(Setting::query).into_iter().chain(["chat"]);
    for (name, _) in pairs.iter().filter(|(name, _)| !queries().any(|known| known == name)) {
        let known: Vec<&str> = queries().collect();
        wrong.push(format!("Unknown query name: {name}; known are {}", known.join(", ")));
    }
    let known = || Setting::ALL.map(Setting::header).into_iter().chain(["Chat"]).map(|name| format!("{prefix}{name}"));
    // `X-` alone is everybody's.
    let is_ours = prefix.trim_end_matches('-').len() > 1;
    let looks_like_one = |name: &&str| {
        let front = name.get(..prefix.len()).is_some_and(|front| front.eq_ignore_ascii_case(prefix));
        is_ours && front && !NOT_SETTINGS.contains(name) && !name.starts_with("mcp-param-")
    };
    for name in headers.keys().map(header::HeaderName::as_str).filter(looks_like_one) {
        if !known().any(|known| known.eq_ignore_ascii_case(name)) {
            let known: Vec<String> = known().collect();
            wrong.push(format!("Unknown header: {name}; known are {}", known.join(", ")));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(refused(&wrong.join("; "))) }
}

/// The settings of a request are wrong: nothing is served, least of all more than was asked for.
pub(super) fn refused(message: &str) -> Fault {
    Fault::params(message).with_status(400)
}
