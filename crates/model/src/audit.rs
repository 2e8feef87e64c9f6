//! The audit: who did what to what, and what one may ask of it.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use crate::id::{AuditId, TokenId, UserId};
use crate::time::Timestamp;

/// Something that must be known later: who did what to what.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditEntry {
    /// Its id.
    pub id: AuditId,
    /// When.
    pub at: Timestamp,
    /// Who.
    pub actor: String,
    /// The person that it was, or whose token.
    pub user: Option<UserId>,
    /// The token that it was done with.
    pub token: Option<TokenId>,
    /// What was done, such as `tool_call.approved`.
    pub action: String,
    /// To what.
    pub subject: String,
    /// More.
    pub details: Value,
}

impl AuditEntry {
    /// Where it stands in the list.
    pub fn place(&self) -> AuditPlace {
        AuditPlace { at: self.at, id: self.id }
    }
}

/// Whom a text that says who did something speaks of: `token ID`, `token ID of user ID`, `EMAIL (user ID)`, and each of them behind
/// `the person at`. Others, such as `server`, have no ids.
pub fn actor_ids(actor: &str) -> (Option<UserId>, Option<TokenId>) {
    let rest = actor.strip_prefix("the person at ").unwrap_or(actor);
    let token = rest.strip_prefix("token ").and_then(|rest| rest.split(' ').next()?.parse().ok());
    // From the end: nothing that a person chose stands there.
    let user = rest.strip_suffix(')').unwrap_or(rest).rsplit_once("user ").and_then(|(_, id)| id.parse().ok());
    (user, token)
}

/// Where a line stands among the others: by time, and by id among those of one moment.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct AuditPlace {
    /// Its time.
    pub at: Timestamp,
    /// Its id.
    pub id: AuditId,
}

impl fmt::Display for AuditPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.at, self.id)
    }
}

/// A text that is no place in the audit.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("not a place in the audit")]
pub struct NoAuditPlace;

impl FromStr for AuditPlace {
    type Err = NoAuditPlace;

    fn from_str(text: &str) -> Result<Self, NoAuditPlace> {
        let (at, id) = text.split_once(' ').ok_or(NoAuditPlace)?;
        Ok(Self { at: at.parse().map_err(|_| NoAuditPlace)?, id: id.parse().map_err(|_| NoAuditPlace)? })
    }
}

/// Whose lines are wanted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ActorFilter {
    /// Those with this id, of a person or of a token.
    Id(String),
    /// Those that say so, or a person with this address.
    Text(String),
}

impl ActorFilter {
    /// What somebody asks for: ids are told from texts by how they look.
    pub fn new(text: String) -> Self {
        if text.parse::<UserId>().is_ok() { Self::Id(text) } else { Self::Text(text) }
    }
}

/// Which actions are wanted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ActionFilter {
    /// This one.
    Is(String),
    /// All that begin like this, up to and with a dot: `toolset.`
    Begins(String),
}

impl ActionFilter {
    /// What somebody asks for: a name, or the beginning of one with a dot at its end.
    pub fn new(text: String) -> Self {
        if text.ends_with('.') { Self::Begins(text) } else { Self::Is(text) }
    }
}

/// Which lines of the audit are wanted.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AuditFilter {
    /// Of whom.
    pub actor: Option<ActorFilter>,
    /// About what kind of deed.
    pub action: Option<ActionFilter>,
    /// About what.
    pub subject: Option<String>,
    /// Not older than this.
    pub since: Option<Timestamp>,
    /// Older than this.
    pub until: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "01890a5d-ac96-774b-bcce-b302099a8057";
    const B: &str = "01890a5d-ac96-774b-bcce-b302099a8058";

    #[test]
    fn whom_a_text_speaks_of() {
        for (text, user, token) in [
            (format!("token {A}"), None, Some(A)),
            (format!("token {A} of user {B}"), Some(B), Some(A)),
            (format!("the person at token {A} of user {B}"), Some(B), Some(A)),
            (format!("ada@example.org (user {B})"), Some(B), None),
            // What somebody calls themselves is not who they are.
            (format!("user@{A}.example (user {B})"), Some(B), None),
            (format!("ada (user {A}) (user {B})"), Some(B), None),
            (format!("user {A} of nobody"), None, None),
            ("server".to_owned(), None, None),
            ("owner".to_owned(), None, None),
            ("the person at owner".to_owned(), None, None),
            (String::new(), None, None),
        ] {
            let found = actor_ids(&text);
            let found = (found.0.map(|id| id.to_string()), found.1.map(|id| id.to_string()));
            assert_eq!(found, (user.map(str::to_owned), token.map(str::to_owned)), "{text}");
        }
    }

    #[test]
    fn places_are_read_as_they_are_written() {
        let place = AuditPlace { at: Timestamp::now(), id: AuditId::generate() };
        assert_eq!(place.to_string().parse(), Ok(place));
        for wrong in ["", " ", A, "2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z x"] {
            assert_eq!(wrong.parse::<AuditPlace>(), Err(NoAuditPlace));
        }
    }

    #[test]
    fn what_is_asked_for() {
        assert_eq!(ActorFilter::new(A.to_owned()), ActorFilter::Id(A.to_owned()));
        assert_eq!(ActorFilter::new("server".to_owned()), ActorFilter::Text("server".to_owned()));
        assert_eq!(ActionFilter::new("toolset.".to_owned()), ActionFilter::Begins("toolset.".to_owned()));
        assert_eq!(ActionFilter::new("toolset".to_owned()), ActionFilter::Is("toolset".to_owned()));
    }
}
