//! How an issuer is set up, checked.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use kitbag_model::{OrgId, OrgRole, Secret};
use url::{Host, Url};

use crate::error::IssuerError;

/// Why a setting of an issuer means nothing.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SettingsError {
    /// It stands in addresses.
    #[error("must be lower-case letters, digits and `-`, at most 40, such as company")]
    Id,
    /// Tokens must not travel in the open.
    #[error("must be an address such as https://login.example.org, without a query; http is for this machine alone")]
    Url,
}

/// What an issuer is called in addresses: `/sign-in/{id}`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct IssuerId(String);

impl IssuerId {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for IssuerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for IssuerId {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<Self, SettingsError> {
        let good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let fits = (1..=40).contains(&text.len()) && text.bytes().all(good) && !text.starts_with('-');
        fits.then(|| Self(text.to_owned())).ok_or(SettingsError::Id)
    }
}

/// The issuer's own name for itself. It is compared byte for byte, so the text is kept as it was written.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct IssuerUrl {
    text: String,
    url: Url,
}

impl IssuerUrl {
    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// As an address.
    pub fn url(&self) -> &Url {
        &self.url
    }
}

impl FromStr for IssuerUrl {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<Self, SettingsError> {
        let url = Url::parse(text).map_err(|_| SettingsError::Url)?;
        let nobody = url.username().is_empty() && url.password().is_none();
        let bare = url.query().is_none() && url.fragment().is_none();
        let fits = url.host().is_some() && nobody && bare && is_private_enough(&url);
        fits.then(|| Self { text: text.to_owned(), url }).ok_or(SettingsError::Url)
    }
}

/// Whether nobody can listen in on the way there.
pub(crate) fn is_private_enough(url: &Url) -> bool {
    let here = match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    url.scheme() == "https" || url.scheme() == "http" && here
}

/// Where the client's secret is. It is read each time it is needed, so that one that is changed need not be told.
#[derive(Clone, Debug)]
pub enum ClientSecret {
    /// In the configuration.
    Given(Secret),
    /// In a variable of the environment.
    Variable(String),
    /// In a file.
    File(PathBuf),
}

impl ClientSecret {
    /// The secret.
    pub fn read(&self) -> Result<Secret, IssuerError> {
        let settings = |reason: String| IssuerError::Settings(reason);
        let text = match self {
            Self::Given(secret) => return Ok(secret.clone()),
            Self::Variable(name) => {
                std::env::var(name).map_err(|_| settings(format!("the variable {name} is not set")))?
            }
            Self::File(path) => {
                std::fs::read_to_string(path).map_err(|error| settings(format!("{}: {error}", path.display())))?
            }
        };
        let text = text.trim();
        match text.is_empty() {
            true => Err(settings("the client's secret is empty".to_owned())),
            false => Ok(Secret::new(text)),
        }
    }
}

/// What Kitbag is to the issuer.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// The client's id.
    pub id: String,
    /// Its secret; a public client has none.
    pub secret: Option<ClientSecret>,
}

/// An issuer as the operator set it up.
#[derive(Clone, Debug)]
pub struct IssuerSettings {
    /// What stands in addresses.
    pub id: IssuerId,
    /// What people call it.
    pub name: String,
    /// Its own name for itself.
    pub issuer: IssuerUrl,
    /// What Kitbag is to it. Who only brings access tokens needs none.
    pub client: Option<ClientSettings>,
    /// What is asked for when somebody signs in.
    pub scopes: Vec<String>,
    /// Whether people sign in there.
    pub sign_in: bool,
    /// Whether somebody whom nobody invited becomes known, as a member of no organisation.
    pub open: bool,
    /// Whether an address counts though the issuer does not say that it was verified.
    pub trust_email: bool,
    /// If there are any, only people with an address of one of these domains come in.
    pub allow_domains: Vec<String>,
    /// Where people of those domains become members when they first come, and as what.
    pub joins: Option<(OrgId, OrgRole)>,
    /// Whether its access tokens are taken at the MCP endpoints.
    pub mcp: bool,
    /// Whether they are taken at the API too.
    pub api: bool,
    /// The audiences that its access tokens are for; if there are none, the address of the endpoint is.
    pub audiences: Vec<String>,
    /// Whether access tokens need not say that they are (`typ: at+jwt`).
    pub plain_tokens: bool,
    /// The name of the scope that stands for `use`.
    pub use_scope: String,
    /// The name of the scope that stands for `manage`.
    pub manage_scope: String,
}

impl IssuerSettings {
    /// Whether an address is of a domain that may come in.
    pub fn allows(&self, email: &kitbag_model::Email) -> bool {
        let domain = email.as_str().rsplit('@').next().unwrap_or_default();
        self.allow_domains.is_empty() || self.allow_domains.iter().any(|allowed| allowed == domain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_stand_in_addresses() {
        for good in ["a", "company", "login-2"] {
            assert!(good.parse::<IssuerId>().is_ok(), "{good}");
        }
        for bad in ["", "-a", "A", "a/b", "a.b", "a b", "ü", &"a".repeat(41)] {
            assert!(bad.parse::<IssuerId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn issuers_are_reached_in_private() {
        for good in
            ["https://a.example", "https://a.example/t/1/", "http://127.0.0.1:1", "http://localhost:8080/realms/x"]
        {
            assert_eq!(good.parse::<IssuerUrl>().map(|url| url.as_str().to_owned()), Ok(good.to_owned()));
        }
        for bad in
            ["http://a.example", "https://u@a.example", "https://a.example?x", "https://a.example#x", "a.example", ""]
        {
            assert!(bad.parse::<IssuerUrl>().is_err(), "{bad}");
        }
    }
}
