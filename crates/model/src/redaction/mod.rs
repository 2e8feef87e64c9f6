//! Takes secrets out of texts that people write, before anybody keeps or reads them. It knows what tokens of well-known services look like
//! and how people write passwords down; it is no proof that nothing is left.
//!
//! Whatever somebody sends, it takes time in proportion to its length: no text is looked at again from every place in it.

mod address;
mod extent;
mod headers;
mod keys;
mod known;
mod logins;
mod named;
mod names;
mod scan;
mod tokens;
mod value;
mod view;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use scan::Scanner;
use view::View;

/// What stands where a secret was.
pub const MARK: &str = "[REDACTED]";

/// What kind of secret something looks like.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Kind {
    /// A key of Amazon Web Services.
    Aws,
    /// What stands behind `Bearer` or `Basic`.
    Authorization,
    /// A token of GitHub.
    GitHub,
    /// A token of GitLab.
    GitLab,
    /// A key of Google.
    Google,
    /// A JSON Web Token.
    Jwt,
    /// A key for a model.
    Model,
    /// A value that somebody calls a password, a key or a token.
    Named,
    /// A password in an address.
    Password,
    /// A private key.
    PrivateKey,
    /// A token for a registry of packages.
    Registry,
    /// A token of Slack.
    Slack,
    /// A key of Stripe.
    Stripe,
    /// A key of Twilio.
    Twilio,
    /// A token of another service.
    Other,
}

impl Kind {
    /// What it is called, for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Aws => "AWS key",
            Self::Authorization => "authorization header",
            Self::GitHub => "GitHub token",
            Self::GitLab => "GitLab token",
            Self::Google => "Google key",
            Self::Jwt => "JSON Web Token",
            Self::Model => "model key",
            Self::Named => "password or key",
            Self::Password => "password in a URL",
            Self::PrivateKey => "private key",
            Self::Registry => "registry token",
            Self::Slack => "Slack token",
            Self::Stripe => "Stripe key",
            Self::Twilio => "Twilio key",
            Self::Other => "service token",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text without the secrets that were found in it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Redacted {
    /// What is left, with [`MARK`] in each place where something was.
    pub text: String,
    /// What was taken out, and how often.
    pub found: BTreeMap<Kind, usize>,
}

impl Redacted {
    /// How many were taken out.
    pub fn count(&self) -> usize {
        self.found.values().sum()
    }
}

/// Takes out whatever looks like a secret. References to variables, such as `${ENV:TOKEN}`, stay.
pub fn redact(text: &str) -> Redacted {
    let view = View::of(text);
    Scanner::new(&view.seen).run(&view)
}

/// Where in a text something stands that is a secret beyond doubt: a token of a service that we know, a web token, a private key. The lines, from
/// one, and what it looks like there. What only has the name of a secret is not told: in code and manuals that is mostly an example.
pub fn tokens_in(text: &str) -> Vec<(usize, Kind)> {
    let of_line = |(line, text): (usize, &str)| {
        let key = text.contains("-----BEGIN ") && text.contains("PRIVATE KEY-----");
        let view = View::of(text);
        let found = Scanner::for_tokens(&view.seen).run(&view).found.into_keys();
        found.chain(key.then_some(Kind::PrivateKey)).map(|kind| (line + 1, kind)).collect::<Vec<_>>()
    };
    text.lines().enumerate().flat_map(of_line).collect()
}

/// Whether a word is the token of a service that we know.
pub(crate) fn is_token(word: &str) -> bool {
    // One part of a web token is enough where nobody has a reason to write one.
    (word.starts_with("eyJ") && word.len() >= 15) || Scanner::new(&View::of(word).seen).is_token()
}

/// Whether what has this name is a secret: `--api-key`, `PGPASSWORD`, `client_secret`.
pub(crate) fn names_a_secret(name: &str) -> bool {
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    [
        "apikey",
        "token",
        "secret",
        "password",
        "passwd",
        "passphrase",
        "accesskey",
        "accountkey",
        "authkey",
        "encryptionkey",
        "masterkey",
        "privatekey",
        "secretkey",
        "signingkey",
        "credential",
    ]
    .iter()
    .any(|word| name.ends_with(word))
}
