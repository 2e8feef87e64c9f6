//! What the audit is told of whoever comes, behind the request's back: that a token is used, and that somebody tried what they may not.
//! Both happen as often as a program likes, so each leaves a line now and then, not every time.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, Method, header};
use kitbag_model::{Action, OrgId, Timestamp, Token};
use serde_json::json;

use super::caller::Principal;
use super::issuers::lent::Lent;
use crate::app::App;

/// How often it is written down that a token is used.
const USED_EVERY_SECONDS: u32 = 5 * 60;

/// What a program calls itself is told; the rest of a long one tells nobody more.
const LONGEST_AGENT: usize = 200;

/// So often somebody's refusals leave a line.
const REFUSED_EVERY: Duration = Duration::from_secs(60);

/// So often a client leaves one that uses what an issuer gave it. There is no row that could say when it was last used.
const LENT_EVERY: Duration = Duration::from_secs(60 * 60);

/// So many are remembered; then those whose time is over are forgotten.
const MOST: usize = 10_000;

/// Who left a line a moment ago.
#[derive(Default)]
pub(crate) struct Lately(Mutex<HashMap<String, Instant>>);

impl Lately {
    /// Whether this one is worth a line, if each is so often.
    fn is_news(&self, org: &OrgId, who: &str, now: Instant, every: Duration) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST {
            all.retain(|_, at| now.duration_since(*at) < every);
        }
        let key = format!("{org} {who}");
        let recent = all.get(&key).is_some_and(|at| now.duration_since(*at) < every);
        if recent || all.len() >= MOST {
            return false;
        }
        all.insert(key, now);
        true
    }
}

impl App {
    /// Notes that a token is used, now and then. The audit has a line of it for each hour in which it was.
    pub(crate) fn token_used(&self, org: &OrgId, token: &Token, headers: Option<&HeaderMap>) {
        let now = Timestamp::now();
        if token.last_used_at.is_some_and(|at| now < at.plus_seconds(USED_EVERY_SECONDS)) {
            return;
        }
        let (store, org, id) = (self.store().clone(), org.clone(), token.id);
        let who = Principal::of_token(&org, token).who;
        let agent = headers.and_then(|headers| headers.get(header::USER_AGENT)?.to_str().ok());
        let agent: Option<String> = agent.map(|agent| agent.chars().take(LONGEST_AGENT).collect());
        tokio::spawn(async move {
            let noted = async {
                let mut tx = store.write(&org).await?;
                if tx.token_used(id, now).await? {
                    tx.audit(&who, Action::TokenUsed, &id.to_string(), &json!({ "userAgent": agent })).await?;
                }
                tx.commit().await
            };
            if let Err(error) = noted.await {
                tracing::debug!(%error, token = %id, "when a token was used was not noted");
            }
        });
    }

    /// Notes that a client uses what an issuer gave it for a person, once in an hour.
    pub(crate) fn lent_used(&self, org: &OrgId, lent: &Lent) {
        if !self.lent().is_news(org, &lent.who, Instant::now(), LENT_EVERY) {
            return;
        }
        let (app, org, lent) = (self.clone(), org.clone(), lent.clone());
        tokio::spawn(async move {
            let details = json!({ "issuer": lent.issuer });
            if let Err(error) = app.note(&org, &lent.who, Action::TokenUsed, &lent.client, &details).await {
                tracing::debug!(%error, who = lent.who, "that a client was here was not noted");
            }
        });
    }

    /// Notes that somebody tried to change something for which it takes more than they have.
    pub(crate) fn refused(&self, principal: &Principal, method: &Method, route: &str, takes: &str) {
        let news = || self.refusals().is_news(&principal.org, &principal.who, Instant::now(), REFUSED_EVERY);
        if method.is_safe() || !news() {
            return;
        }
        let (app, org, who) = (self.clone(), principal.org.clone(), principal.who.clone());
        let (subject, details) = (format!("{method} {route}"), json!({ "needs": takes }));
        tokio::spawn(async move {
            if let Err(error) = app.note(&org, &who, Action::AccessRefused, &subject, &details).await {
                tracing::warn!(%error, %who, subject, "that somebody was refused was not noted");
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_minute_for_each() {
        let (lately, org, now) = (Lately::default(), OrgId::local(), Instant::now());
        let is_news = |org: &OrgId, who: &str, now| lately.is_news(org, who, now, REFUSED_EVERY);
        let later = now + REFUSED_EVERY;
        assert!(is_news(&org, "a", now));
        assert!(!is_news(&org, "a", now));
        assert!(is_news(&org, "b", now), "others have their own");
        assert!(is_news(&"other".parse().expect("an id"), "a", now), "and so have other organisations");
        assert!(is_news(&org, "a", later));
        for one in 0..2 * MOST {
            is_news(&org, &one.to_string(), later);
        }
        assert!(!is_news(&org, "one more", later), "a flood of names does not grow for ever");
        assert!(is_news(&org, "one more", later + REFUSED_EVERY));
    }
}
