//! Who may see what on the stage: whoever knows a label. A label is random, belongs to one call of one chat, and does not
//! last. Nothing of this is kept on disk: after a restart the page asks again and gets another.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kitbag_model::{ChatId, ContentHash, OrgId};
use serde_json::Value;
use tokio::sync::watch;

/// How long a grant lasts when nobody uses it.
const LIFE: Duration = Duration::from_secs(600);

/// So many there are; the one that was not used for longest makes room.
const MOST: usize = 1024;

/// So many bytes they may hold together.
const MOST_BYTES: usize = 64 << 20;

/// What is shown.
#[derive(Debug, PartialEq)]
pub(crate) enum Show {
    /// A page with data.
    Page { page: Page, data: Value },
    /// What a process of the chat serves.
    Frame { port: u16 },
    /// The app of an MCP server's tool, and what it may reach.
    App { page: String, policy: String },
}

/// A page.
#[derive(Debug, PartialEq)]
pub(crate) enum Page {
    /// A blob of the chat.
    Artifact(ContentHash),
    /// Itself.
    Content(String),
}

/// The right to see one thing.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) org: OrgId,
    pub(crate) chat: ChatId,
    pub(crate) show: Show,
    pub(crate) call: String,
    bytes: usize,
    used: Mutex<Instant>,
    /// Becomes true when whoever holds it has to let go.
    over: watch::Sender<bool>,
}

impl Grant {
    /// Is done when nobody may see it any more.
    pub(crate) async fn over(&self) {
        // The sender is in here, so it cannot be gone.
        let _ = self.over.subscribe().wait_for(|over| *over).await;
    }

    fn touch(&self, now: Instant) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    fn last_used(&self) -> Instant {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_for(&self, org: &OrgId, chat: ChatId, call: &str) -> bool {
        self.call == call && self.chat == chat && self.org == *org
    }
}

/// All of them, by label.
#[derive(Debug, Default)]
pub(crate) struct Grants(HashMap<String, Arc<Grant>>);

impl Grants {
    /// A label for what a call shows: the one it has, if it still lasts, or a new one.
    pub(crate) fn open(&mut self, now: Instant, org: &OrgId, chat: ChatId, call: &str, show: Show) -> String {
        self.0.retain(|_, grant| !is_over(grant, now));
        let of_call = self.0.iter().find(|(_, grant)| grant.is_for(org, chat, call));
        if let Some((label, grant)) = of_call {
            let label = label.clone();
            if grant.show == show {
                grant.touch(now);
                return label;
            }
            self.0.remove(&label);
        }
        let bytes = match &show {
            Show::Page { page: Page::Content(text), data } => text.len() + size(data),
            Show::Page { data, .. } => size(data),
            Show::Frame { .. } => 0,
            Show::App { page, policy } => page.len() + policy.len(),
        };
        while self.0.len() >= MOST || self.0.values().map(|grant| grant.bytes).sum::<usize>() + bytes > MOST_BYTES {
            let oldest = self.0.iter().min_by_key(|(_, grant)| (Arc::strong_count(grant) > 1, grant.last_used()));
            let Some(label) = oldest.map(|(label, _)| label.clone()) else { break };
            self.0.remove(&label);
        }
        let label = new_label();
        let (used, over) = (Mutex::new(now), watch::Sender::new(false));
        let grant = Grant { org: org.clone(), chat, show, call: call.to_owned(), bytes, used, over };
        self.0.insert(label.clone(), Arc::new(grant));
        label
    }

    /// What a label grants. While somebody holds it, it lasts.
    pub(crate) fn find(&mut self, now: Instant, label: &str) -> Option<Arc<Grant>> {
        let grant = self.0.get(label)?;
        if is_over(grant, now) {
            self.0.remove(label);
            return None;
        }
        // A page is read once, and then asked for anew; what a process serves is used for as long as somebody looks at it.
        if matches!(grant.show, Show::Frame { .. }) {
            grant.touch(now);
        }
        Some(Arc::clone(grant))
    }

    /// Forgets everything of an organisation, also what is held.
    pub(crate) fn close_organization(&mut self, org: &OrgId) {
        self.0.retain(|_, grant| {
            let stays = grant.org != *org;
            if !stays {
                grant.over.send_replace(true);
            }
            stays
        });
    }

    /// Forgets everything of a chat.
    pub(crate) fn close(&mut self, org: &OrgId, chat: ChatId) {
        self.0.retain(|_, grant| grant.chat != chat || grant.org != *org);
    }
}

fn is_over(grant: &Arc<Grant>, now: Instant) -> bool {
    Arc::strong_count(grant) == 1 && now.saturating_duration_since(grant.last_used()) > LIFE
}

/// About how many bytes a value holds.
fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 32,
        Value::Array(items) => items.iter().map(size).sum::<usize>() + 32,
        Value::Object(fields) => fields.iter().map(|(key, value)| key.len() + 64 + size(value)).sum::<usize>() + 32,
        Value::Null | Value::Bool(_) | Value::Number(_) => 32,
    }
}

/// 160 random bits, in characters that a name may have whatever its case.
fn new_label() -> String {
    const DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).expect("the system has random numbers");
    bytes.iter().map(|byte| char::from(DIGITS[usize::from(byte % 32)])).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn page(text: &str) -> Show {
        Show::Page { page: Page::Content(text.to_owned()), data: json!(null) }
    }

    fn chat() -> ChatId {
        ChatId::generate()
    }

    #[test]
    fn one_label_for_one_call() {
        let (mut grants, now, org, chat) = (Grants::default(), Instant::now(), OrgId::local(), chat());
        let label = grants.open(now, &org, chat, "call", page("x"));
        assert!(label.len() == 32 && label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()));
        assert_eq!(grants.open(now, &org, chat, "call", page("x")), label);
        let others = [
            grants.open(now, &org, chat, "other", page("x")),
            grants.open(now, &org, ChatId::generate(), "call", page("x")),
            grants.open(now, &"other".parse().unwrap(), chat, "call", page("x")),
        ];
        assert!(!others.contains(&label));
        assert!(grants.find(now, &label).is_some() && grants.find(now, &label.to_uppercase()).is_none());
        // Something else to show is something else to see.
        let changed = grants.open(now, &org, chat, "call", page("y"));
        assert!(changed != label && grants.find(now, &label).is_none());
        grants.close(&org, chat);
        assert!(grants.find(now, &changed).is_none() && grants.find(now, &others[1]).is_some());
    }

    #[test]
    fn they_end() {
        let (mut grants, start, org) = (Grants::default(), Instant::now(), OrgId::local());
        let at = |seconds| start + Duration::from_secs(seconds);
        let of_page = grants.open(start, &org, chat(), "a", page("x"));
        let of_frame = grants.open(start, &org, chat(), "b", Show::Frame { port: 1 });
        assert!(grants.find(at(500), &of_page).is_some() && grants.find(at(500), &of_frame).is_some());
        assert!(grants.find(at(601), &of_page).is_none(), "looking at a page does not make it last");
        let held = grants.find(at(1000), &of_frame).expect("a frame that is used lasts");
        assert!(grants.find(at(9000), &of_frame).is_some(), "it is still held");
        drop(held);
        assert!(grants.find(at(9700), &of_frame).is_none());
    }

    #[test]
    fn they_are_few_and_small() {
        let (mut grants, start, org, chat) = (Grants::default(), Instant::now(), OrgId::local(), chat());
        let labels: Vec<String> = (0..=MOST as u64)
            .map(|number| {
                let now = start + Duration::from_millis(number);
                grants.open(now, &org, chat, &number.to_string(), Show::Frame { port: 1 })
            })
            .collect();
        let now = start + Duration::from_secs(5);
        assert_eq!(grants.0.len(), MOST);
        assert!(grants.find(now, &labels[0]).is_none() && grants.find(now, &labels[1]).is_some());
        for call in 0..70 {
            grants.open(now, &org, chat, &format!("large {call}"), page(&"x".repeat(1 << 20)));
        }
        assert!(grants.0.values().map(|grant| grant.bytes).sum::<usize>() <= MOST_BYTES);
    }
}
