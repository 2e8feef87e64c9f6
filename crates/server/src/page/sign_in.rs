//! Where a browser goes to sign in at an issuer, and where it comes back to. Both only lead on: what went wrong is told by the page at
//! `/sign-in?error=…`.

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use kitbag_identity::{Answer, Issuer, IssuerError};
use kitbag_model::{Secret, SessionId, UserId};
use serde::Deserialize;

use super::oauth::{POLICY, escaped};
use crate::access::caller::{Proven, authenticate};
use crate::access::client::ClientAddress;
use crate::access::issuers::base_url;
use crate::access::issuers::pending::{self, Pending};
use crate::access::people::admit::{self, Denied};
use crate::access::people::{let_in, return_to};
use crate::access::session;
use crate::api::error::ApiError;
use crate::api::input::{PathOf, QueryOf};
use crate::api::invitations::hold;
use crate::app::App;

/// How somebody wants to sign in.
#[derive(Deserialize)]
pub(super) struct Begin {
    /// Where to go afterwards: a place of this server.
    return_to: Option<String>,
    /// Whoever is signed in wants this issuer as another way in.
    link: Option<String>,
    /// The invitation that this browser holds is to be accepted.
    join: Option<String>,
}

/// What an issuer sends back.
#[derive(Deserialize)]
pub(super) struct Returned {
    #[serde(default)]
    state: String,
    code: Option<String>,
    iss: Option<String>,
    error: Option<String>,
}

/// Why somebody is not signed in: a code for the page.
struct Failed(&'static str);

impl From<ApiError> for Failed {
    fn from(error: ApiError) -> Self {
        Denied::from(error).into()
    }
}

impl From<IssuerError> for Failed {
    fn from(error: IssuerError) -> Self {
        tracing::warn!(%error, "nobody was signed in by an issuer");
        Self(match error {
            IssuerError::Refused(_) => "issuer_refused",
            IssuerError::Unreachable(_) => "issuer_unreachable",
            IssuerError::Invalid(_) => "not_believed",
            IssuerError::Description(_) | IssuerError::Settings(_) => "issuer_broken",
        })
    }
}

impl From<Denied> for Failed {
    fn from(denied: Denied) -> Self {
        if let Denied::Failed(error) = &denied {
            tracing::warn!(?error, "somebody whom an issuer knows was not let in");
        }
        Self(denied.code())
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        Redirect::to(&format!("/sign-in?error={}", self.0)).into_response()
    }
}

/// `GET /sign-in/{issuer}`
pub(super) async fn begin(
    State(app): State<App>,
    headers: HeaderMap,
    PathOf(issuer): PathOf<String>,
    asked: Result<QueryOf<Begin>, ApiError>,
) -> Response {
    let Ok(QueryOf(asked)) = asked else { return Failed("expired").into_response() };
    begun(&app, &headers, &issuer, asked).await.unwrap_or_else(IntoResponse::into_response)
}

async fn begun(app: &App, headers: &HeaderMap, id: &str, asked: Begin) -> Result<Response, Failed> {
    let issuer = issuer(app, id)?;
    let link = match asked.link {
        Some(_) => match authenticate(app, &Method::GET, headers).await {
            Ok(Proven::Person(person)) => Some((person.user, person.session)),
            _ => return Err(Denied::SignedOut.into()),
        },
        None => None,
    };
    let invitation = match asked.join {
        Some(_) => Some(hold::held(app, headers).ok_or(Denied::InvitationEnded)?),
        None => None,
    };
    let back = format!("{}/sign-in/{id}/callback", base_url(app, headers));
    let begun = issuer.begin(&back).await?;
    let return_to = return_to::checked(asked.return_to.as_deref());
    let pending = Pending::new((&begun.nonce, &begun.verifier), back, return_to, invitation, link);
    let cookie = pending.sealed(app, id, &begun.state).await?;
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to(begun.url.as_str())).into_response())
}

/// `GET /sign-in/{issuer}/callback`: the cookie proves that it came to the browser that was sent to ask, and the state that it is the answer
/// to that question: nobody is signed in as somebody else by a link that they follow.
pub(super) async fn callback(
    State(app): State<App>,
    client: ClientAddress,
    headers: HeaderMap,
    PathOf(issuer): PathOf<String>,
    returned: Result<QueryOf<Returned>, ApiError>,
) -> Response {
    let Ok(QueryOf(returned)) = returned else { return Failed("not_believed").into_response() };
    let state = returned.state.clone();
    let done = ended(&app, &client, &headers, &issuer, returned).await;
    let mut response = done.unwrap_or_else(IntoResponse::into_response);
    // The path of the cookie is the issuer's, so it must be one.
    let known = app.issuers().for_person(&issuer).map(|_| pending::over(&app, &issuer, &state));
    if let Some(Ok(over)) = known {
        response.headers_mut().append(header::SET_COOKIE, over);
    }
    response
}

async fn ended(
    app: &App,
    client: &ClientAddress,
    headers: &HeaderMap,
    id: &str,
    returned: Returned,
) -> Result<Response, Failed> {
    let issuer = issuer(app, id)?;
    let Returned { state, code, iss, error } = returned;
    let cookie = session::find(headers, &pending::cookie_name(app, &state)).ok_or(Failed("expired"))?;
    let pending = Pending::opened(app, id, &state, cookie).await.ok_or(Failed("expired"))?;
    app.tries().take_of_client(client).map_err(|_| Failed("too_many"))?;
    let answer = Answer { code, iss, error };
    let (nonce, verifier) = (Secret::new(pending.nonce), Secret::new(pending.verifier));
    let claimed = issuer.finish(&pending.back, &nonce, &verifier, answer).await?;
    if let Some(link) = pending.link {
        admit::link(app, issuer, &claimed, signed_in(&link).ok_or(Failed("expired"))?).await?;
        app.tries().right_of_client(client);
        return Ok(led_on(&pending.return_to, Vec::new()));
    }
    let user = admit::admit(app, issuer, &claimed, pending.invitation.as_deref()).await?;
    app.tries().right_of_client(client);
    let cookies = vec![let_in(app, user, headers).await?, hold::over(app)?];
    Ok(led_on(&pending.return_to, cookies))
}

fn issuer<'a>(app: &'a App, id: &str) -> Result<&'a Issuer, Failed> {
    app.issuers().for_person(id).ok_or(Failed("unknown_issuer"))
}

fn signed_in((user, session): &(String, String)) -> Option<(UserId, SessionId)> {
    Some((user.parse().ok()?, session.parse().ok()?))
}

/// Goes on to a place of ours. Not by a redirect: the browser was sent here by another site, and would go on without the cookie that it has
/// just got.
fn led_on(place: &str, cookies: Vec<HeaderValue>) -> Response {
    let place = escaped(place);
    let page = format!(
        "<!doctype html><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"0;url={place}\"><title>Kitbag</title>\
         <p>You are signed in. <a href=\"{place}\">Go on</a></p>\n"
    );
    let mut response = ([(header::CONTENT_SECURITY_POLICY, POLICY)], Html(page)).into_response();
    for cookie in cookies {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response
}
