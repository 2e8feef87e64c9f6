//! What the audit is told of whoever comes, behind the request's back: that a token is used, and that somebody tried what they may not.
//! Both happen as often as a program likes, so each leaves a line now and then, not every time.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, Method, header};
use kitbag_model::{Action, OrgId, Timestamp, Token};
use serde_json::json;

use super::caller::Principal;
use crate::app::App;

/// How often it is written down that a token is used.
const USED_EVERY_SECONDS: u32 = 5 * 60;

/// What a program calls itself is told; the rest of a long one tells nobody more.
const LONGEST_AGENT: usize = 200;

/// So often somebody's refusals leave a line.
const REFUSED_EVERY: Duration = Duration::from_secs(60);

/// So many are remembered; then those whose time is over are forgotten.
const MOST: usize = 10_000;

/// Who was refused something a moment ago.
#[derive(Default)]
pub(crate) struct Refusals(Mutex<HashMap<String, Instant>>);

impl Refusals {
    /// Whether this one is worth a line.
    fn is_news(&self, org: &OrgId, who: &str, now: Instant) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST {
            all.retain(|_, at| now.duration_since(*at) < REFUSED_EVERY);
        }
        let key = format!("{org} {who}");
        let recent = all.get(&key).is_some_and(|at| now.duration_since(*at) < REFUSED_EVERY);
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

    /// Notes that somebody tried to change something for which it takes more than they have.
    pub(crate) fn refused(&self, principal: &Principal, method: &Method, route: &str, takes: &str) {
        if method.is_safe() || !self.refusals().is_news(&principal.org, &principal.who, Instant::now()) {
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
        let (refusals, org, now) = (Refusals::default(), OrgId::local(), Instant::now());
        let later = now + REFUSED_EVERY;
        assert!(refusals.is_news(&org, "a", now));
        assert!(!refusals.is_news(&org, "a", now));
        assert!(refusals.is_news(&org, "b", now), "others have their own");
        assert!(refusals.is_news(&"other".parse().expect("an id"), "a", now), "and so have other organisations");
        assert!(refusals.is_news(&org, "a", later));
        for one in 0..2 * MOST {
            refusals.is_news(&org, &one.to_string(), later);
        }
        assert!(!refusals.is_news(&org, "one more", later), "a flood of names does not grow for ever");
        assert!(refusals.is_news(&org, "one more", later + REFUSED_EVERY));
    }
}
