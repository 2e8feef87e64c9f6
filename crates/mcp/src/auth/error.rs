//! Why signing in did not work, in words for who tried. No token, code or secret is in any of them; strangers' words are made harmless.

use super::keeper::KeeperError;

/// What went wrong.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthError {
    /// What is kept cannot be read or written.
    #[error("cannot reach what is kept about sign-ins")]
    Keeper(#[from] KeeperError),
    /// What is kept is not what was kept.
    #[error("what is kept about this sign-in cannot be read; sign in again")]
    Unreadable,
    /// Somebody does not answer. Worth another try later.
    #[error("`{host}` cannot be asked: {reason}")]
    Unreachable {
        /// Who.
        host: String,
        /// Why, without addresses.
        reason: String,
    },
    /// Somebody answers with something that is no answer.
    #[error("`{host}` answered with something that cannot be used: {reason}")]
    Nonsense {
        /// Who.
        host: String,
        /// What is wrong.
        reason: String,
    },
    /// An address that a stranger named and that is not dialled or opened.
    #[error("the {what} that `{host}` names is refused: {reason}")]
    Hostile {
        /// The field.
        what: &'static str,
        /// Whose server it is.
        host: String,
        /// What is wrong, and what is allowed.
        reason: &'static str,
    },
    /// The server does not say who signs people in.
    #[error("`{host}` does not say where to sign in; if it wants a key or a password, put that into its headers")]
    NoResourceMetadata {
        /// The server.
        host: String,
    },
    /// The metadata is about another server.
    #[error("`{host}` says that tokens are for `{found}`, which is another server")]
    OtherResource {
        /// The server.
        host: String,
        /// What its metadata is about.
        found: String,
    },
    /// Nobody describes the authorization server.
    #[error("the authorization server `{issuer}` does not describe itself")]
    NoIssuerMetadata {
        /// The authorization server.
        issuer: String,
    },
    /// The description is that of another authorization server.
    #[error(
        "the authorization server `{expected}` describes itself as `{found}`; that is how mix-ups are made, so nothing is sent"
    )]
    IssuerMismatch {
        /// Who was asked.
        expected: String,
        /// Who it says it is.
        found: String,
    },
    /// A code could be used by whoever catches it.
    #[error("the authorization server `{issuer}` does not offer PKCE with S256, so a code could be stolen on its way")]
    NoPkce {
        /// The authorization server.
        issuer: String,
    },
    /// It takes only clients that somebody registered.
    #[error("the authorization server `{issuer}` knows no Kitbag; register a client there and give its id")]
    NoClient {
        /// The authorization server.
        issuer: String,
    },
    /// The client that was given belongs to another authorization server.
    #[error(
        "the client that was given is registered at `{expected}`, but the server now names `{found}`; if that is right, give a client for it"
    )]
    ClientOfOtherIssuer {
        /// Where it belongs.
        expected: String,
        /// Where it would be sent.
        found: String,
    },
    /// Registering did not work.
    #[error("the authorization server `{issuer}` does not register us: {reason}")]
    Registration {
        /// The authorization server.
        issuer: String,
        /// Its words.
        reason: String,
    },
    /// The settings cannot be used.
    #[error("{0}")]
    Settings(&'static str),
    /// No sign-in has this state: it was used already, a later one took its place, or it was never begun.
    #[error("this sign-in is not known any more; begin again")]
    UnknownState,
    /// It took too long.
    #[error("this sign-in was begun more than ten minutes ago; begin again")]
    Expired,
    /// Somebody else began it.
    #[error("somebody else began this sign-in; begin your own")]
    OtherPerson,
    /// The answer is another authorization server's.
    #[error("the answer does not come from the authorization server that was asked; nothing was sent there")]
    WrongIss,
    /// The answer should say whose it is.
    #[error(
        "the answer does not say which authorization server it is from, although that one always does; nothing was sent there"
    )]
    NoIss,
    /// The authorization server said no.
    #[error("the authorization server said no: {code}{}", said(description.as_deref()))]
    Denied {
        /// The protocol's word for it.
        code: String,
        /// Its own words.
        description: Option<String>,
    },
    /// Kitbag is being stopped.
    #[error("Kitbag is being stopped")]
    Interrupted,
    /// The answer has neither a code nor an error.
    #[error("the answer of the authorization server has no code in it")]
    NoCode,
}

fn said(description: Option<&str>) -> String {
    description.map(|text| format!(" ({text})")).unwrap_or_default()
}

/// A stranger's words, as they may be shown: one line, no control characters, not long.
pub(super) fn tame(text: &str) -> String {
    const LONGEST: usize = 300;
    let mut tamed: String = text
        .chars()
        .map(|letter| if letter.is_control() || invisible(letter) { ' ' } else { letter })
        .take(LONGEST + 1)
        .collect();
    if tamed.chars().count() > LONGEST {
        tamed = tamed.chars().take(LONGEST).chain(['…']).collect();
    }
    tamed
}

/// Letters that change how others are read, and are not seen themselves.
fn invisible(letter: char) -> bool {
    matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}
