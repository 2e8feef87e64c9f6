//! People: who they are, how they sign in, and how they get into an organisation.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};

use crate::access::OrgRole;
use crate::credential;
use crate::id::{InvitationId, OrgId, SessionId, UserId};
use crate::secret::{Secret, SecretHash};
use crate::text::{TextError, line_type, one_line};
use crate::time::Timestamp;

/// An e-mail address, in lower case: two that differ in nothing else are one person's.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Email(String);

/// Why a text is not an e-mail address.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum EmailError {
    /// It has a character, or too many, that no name has.
    #[error(transparent)]
    Text(#[from] TextError),
    /// It is not written as one.
    #[error("must be an e-mail address such as ada@example.org")]
    Shape,
}

impl Email {
    /// The most characters that an address may have.
    pub const MOST: usize = 254;

    /// The address.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Email {
    type Err = EmailError;

    /// Only the shape is looked at; whether somebody reads mail there no text can tell.
    fn from_str(text: &str) -> Result<Self, EmailError> {
        let text = text.trim();
        one_line(text, Self::MOST)?;
        let (name, host) = text.rsplit_once('@').ok_or(EmailError::Shape)?;
        let plain = text.chars().all(|c| !c.is_whitespace() && !matches!(c, '<' | '>' | ',' | ';' | '"' | '\\'));
        let whole = plain && !name.is_empty() && !name.contains('@');
        let host_is_one = !host.is_empty() && host.split('.').all(|label| !label.is_empty());
        (whole && host_is_one).then(|| Self(text.to_lowercase())).ok_or(EmailError::Shape)
    }
}

impl fmt::Display for Email {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

line_type!(
    /// What a person is called.
    PersonName,
    120
);

/// The hash of a name that somebody signs in with. Whoever looks a person up must know the name; nothing lists them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Identity(String);

impl Identity {
    /// Of an address, which is proven with a password.
    pub fn of_email(email: &Email) -> Self {
        Self::of(&["email", email.as_str()])
    }

    /// Of what an issuer of OpenID Connect calls somebody.
    pub fn of_issuer(issuer: &str, subject: &str) -> Self {
        Self::of(&["oidc", issuer, subject])
    }

    /// Each part has its length in front, so that no two lists of parts read the same.
    fn of(parts: &[&str]) -> Self {
        let mut hasher = Sha256::new();
        for part in parts {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        Self(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// As it is kept.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What an issuer calls somebody, about to be kept.
#[derive(Clone, Debug)]
pub struct NewLinkedIdentity {
    /// The hash of the name.
    pub identity: Identity,
    /// Which issuer it is of, as it is called in addresses.
    pub issuer: String,
    /// The address that the issuer has for them, to tell one from another in a list.
    pub label: Option<String>,
}

/// A way in through an issuer, as it is kept.
#[derive(Clone, Debug)]
pub struct LinkedIdentity {
    /// The hash of what the issuer calls them.
    pub id: String,
    /// Which issuer it is of, as it is called in addresses.
    pub issuer: String,
    /// The address that the issuer had for them.
    pub label: Option<String>,
    /// Since when it is theirs.
    pub created_at: Timestamp,
}

/// A person about to be kept.
#[derive(Clone, Debug)]
pub struct NewPerson {
    /// Their id.
    pub id: UserId,
    /// Their address.
    pub email: Email,
    /// What they are called.
    pub display_name: Option<PersonName>,
    /// The slow hash of their password; none if they sign in elsewhere.
    pub password_hash: Option<Secret>,
}

/// A person.
#[derive(Clone, Debug)]
pub struct Person {
    /// Their id.
    pub id: UserId,
    /// Their address.
    pub email: Email,
    /// What they are called.
    pub display_name: Option<String>,
    /// The slow hash of their password; none if they sign in elsewhere.
    pub password_hash: Option<Secret>,
    /// Since when they are known.
    pub created_at: Timestamp,
}

/// A member, as the organisation knows them.
#[derive(Clone, Debug)]
pub struct Member {
    /// Who it is.
    pub user: UserId,
    /// What they are there.
    pub role: OrgRole,
    /// Their address.
    pub email: String,
    /// What they are called.
    pub display_name: Option<String>,
    /// Since when they are a member.
    pub created_at: Timestamp,
}

/// What a browser holds after somebody signed in: `person.<user>.<session>.<secret>`.
#[derive(Clone, Debug)]
pub struct PersonCookie {
    /// Whose it is.
    pub user: UserId,
    /// Which session it is.
    pub id: SessionId,
    /// What proves it.
    pub secret: Secret,
}

const PERSON: &str = "person.";

impl PersonCookie {
    /// A new one.
    pub fn generate(user: UserId) -> Self {
        Self { user, id: SessionId::generate(), secret: Secret::generate() }
    }

    /// The whole text, which is itself a secret.
    pub fn to_secret(&self) -> Secret {
        Secret::new(format!("{PERSON}{}", credential::join(&self.user, &self.id, &self.secret)))
    }

    /// Reads a cookie's value.
    pub fn parse(text: &str) -> Option<Self> {
        let (user, id, secret) = credential::split(text.strip_prefix(PERSON)?)?;
        Some(Self { user, id, secret })
    }
}

/// The session of somebody who signed in, as it is kept.
#[derive(Clone, Debug)]
pub struct PersonSession {
    /// Which it is.
    pub id: SessionId,
    /// The hash of its secret.
    pub hash: SecretHash,
    /// What the browser called itself.
    pub user_agent: Option<String>,
    /// When somebody signed in.
    pub created_at: Timestamp,
    /// When it was last used, give or take a few minutes.
    pub last_seen_at: Timestamp,
    /// When it ends.
    pub expires_at: Timestamp,
}

impl PersonSession {
    /// Whether `secret` proves this session at the time `now`.
    pub fn admits(&self, secret: &Secret, now: Timestamp) -> bool {
        self.hash == secret.hash() && now < self.expires_at
    }
}

/// The text of an invitation: `<organisation>.<id>.<secret>`.
#[derive(Clone, Debug)]
pub struct InvitationText {
    /// Where it leads.
    pub org: OrgId,
    /// Which it is.
    pub id: InvitationId,
    /// What proves it.
    pub secret: Secret,
}

impl InvitationText {
    /// A new one.
    pub fn generate(org: OrgId) -> Self {
        Self { org, id: InvitationId::generate(), secret: Secret::generate() }
    }

    /// The whole text, which is itself a secret.
    pub fn to_secret(&self) -> Secret {
        Secret::new(credential::join(&self.org, &self.id, &self.secret))
    }

    /// Reads one.
    pub fn parse(text: &str) -> Option<Self> {
        credential::split(text).map(|(org, id, secret)| Self { org, id, secret })
    }
}

/// An invitation about to be kept.
#[derive(Clone, Debug)]
pub struct NewInvitation {
    /// Its public id.
    pub id: InvitationId,
    /// Whom it is for.
    pub email: Email,
    /// What they will be.
    pub role: OrgRole,
    /// The hash of its secret.
    pub hash: SecretHash,
    /// Who made it, as records tell it.
    pub invited_by: String,
    /// When it ends.
    pub expires_at: Timestamp,
}

/// An invitation as it is kept.
#[derive(Clone, Debug)]
pub struct Invitation {
    /// Its public id.
    pub id: InvitationId,
    /// Whom it is for.
    pub email: Email,
    /// What they will be.
    pub role: OrgRole,
    /// The hash of its secret.
    pub hash: SecretHash,
    /// Who made it, as records tell it.
    pub invited_by: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ends.
    pub expires_at: Timestamp,
}

impl Invitation {
    /// Whether `secret` proves this invitation at the time `now`.
    pub fn admits(&self, secret: &Secret, now: Timestamp) -> bool {
        self.hash == secret.hash() && now < self.expires_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        assert_eq!(" Ada@Example.ORG ".parse().map(|email: Email| email.to_string()), Ok("ada@example.org".to_owned()));
        for good in ["a@b", "a.b+c@d.example", "grüße@bücher.example"] {
            assert!(good.parse::<Email>().is_ok(), "{good}");
        }
        for bad in ["", " ", "a", "@", "a@", "@b", "a@b@c", "a b@c", "a@b c", "a@.b", "a@b.", "<a@b>", "a,b@c", "a\0@b"]
        {
            assert!(bad.parse::<Email>().is_err(), "{bad:?}");
        }
        assert!(format!("{}@b", "a".repeat(253)).parse::<Email>().is_err());
    }

    #[test]
    fn identities_are_told_apart() {
        let all = [
            Identity::of_email(&"a@b".parse().expect("an address")),
            Identity::of_issuer("a@b", ""),
            Identity::of_issuer("a", "@b"),
            Identity::of_issuer("a@", "b"),
        ];
        for (index, one) in all.iter().enumerate() {
            assert!(all[index + 1..].iter().all(|other| other != one));
        }
    }

    #[test]
    fn written_and_read() {
        let cookie = PersonCookie::generate(UserId::generate());
        let read = PersonCookie::parse(cookie.to_secret().expose()).expect("what was written is read");
        assert_eq!((read.user, read.id), (cookie.user, cookie.id));
        let text = InvitationText::generate(OrgId::local());
        let read = InvitationText::parse(text.to_secret().expose()).expect("what was written is read");
        assert_eq!((&read.org, read.id), (&text.org, text.id));
        assert!(PersonCookie::parse(text.to_secret().expose()).is_none());
        assert!(crate::session::SessionCookie::parse(cookie.to_secret().expose()).is_none());
    }
}
