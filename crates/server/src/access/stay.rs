//! Whoever stays for long (a stream of events, a session) was let in once. Here it is looked at again, by the same rule, whenever somebody's
//! rights end at this server, and now and then, since tokens run out and other servers may use the same database.

use std::collections::HashMap;
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, Method, header};
use kitbag_model::{Audience, Scope};
use tokio::sync::watch;

use super::caller::authenticate_at;
use super::issuers::lent::Door;
use crate::api::error::{ApiError, Code};
use crate::api::input::PathOf;
use crate::app::App;

/// How often it is looked at though nothing is known to have changed.
const EVERY: Duration = Duration::from_secs(20);

/// What says who somebody is. All else of a request is forgotten.
const KEPT: [HeaderName; 5] =
    [header::AUTHORIZATION, header::COOKIE, header::HOST, header::ORIGIN, HeaderName::from_static("sec-fetch-site")];

/// Says that somebody's rights may have ended.
pub(crate) struct Rights(watch::Sender<u64>);

impl Default for Rights {
    fn default() -> Self {
        Self(watch::Sender::new(0))
    }
}

impl Rights {
    /// Has everybody who stays looked at again.
    pub(crate) fn changed(&self) {
        self.0.send_modify(|times| *times = times.wrapping_add(1));
    }

    fn listen(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}

/// Somebody who stays.
pub(crate) struct Stay {
    app: App,
    door: Door,
    /// The organisation that the path names.
    org: Option<String>,
    method: Method,
    headers: HeaderMap,
    rights: watch::Receiver<u64>,
    /// What they saw when they were first looked at.
    audience: Option<Audience>,
}

impl Stay {
    pub(crate) fn new(app: &App, door: Door, org: Option<String>, parts: &Parts) -> Self {
        let mut headers = HeaderMap::new();
        for name in KEPT {
            for value in parts.headers.get_all(&name) {
                headers.append(name.clone(), value.clone());
            }
        }
        let rights = app.rights().listen();
        Self { app: app.clone(), door, org, method: parts.method.clone(), headers, rights, audience: None }
    }

    /// Is done when they may no longer be here.
    pub(crate) async fn over(mut self) {
        // At once, too: something may have changed between the door and here.
        while self.may_stay().await {
            self.changed().await;
        }
    }

    /// Is done when it is time to look at them again.
    pub(crate) async fn changed(&mut self) {
        tokio::select! {
            _ = self.rights.changed() => {}
            () = tokio::time::sleep(EVERY) => {}
        }
    }

    /// Whether they may still be here, as what they were. Whoever sees more or less than before comes in anew.
    pub(crate) async fn may_stay(&mut self) -> bool {
        let proven = authenticate_at(&self.app, &self.door, &self.method, &self.headers);
        let principal = match (proven.await, &self.org) {
            (Ok(proven), Some(org)) => proven.of(&self.app, org).await,
            (Ok(proven), None) => proven.only(&self.app).await,
            (Err(error), _) => Err(error),
        };
        match principal {
            Ok(principal) => {
                let audience = Audience::of(&principal.org, principal.role, principal.user);
                principal.scopes.contains(Scope::Use) && *self.audience.get_or_insert(audience) == audience
            }
            // A database that does not answer says nothing of anybody's rights.
            Err(error) => matches!(error.code(), Code::Unavailable | Code::Internal),
        }
    }
}

impl FromRequestParts<App> for Stay {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let PathOf(mut path) = PathOf::<HashMap<String, String>>::from_request_parts(parts, app).await?;
        Ok(Self::new(app, Door::Api, path.remove("org"), parts))
    }
}
