//! What an authorization server says of itself (RFC 8414 and OpenID Connect discovery), checked before anything of it is used.

use serde::Deserialize;
use url::Url;

use super::error::{AuthError, tame};
use super::http::{Http, host};
use super::{judge, scopes};

/// An authorization server whose description was checked.
pub(super) struct AuthServer {
    /// As it calls itself, byte for byte.
    pub(super) issuer: String,
    pub(super) authorization_endpoint: Option<Url>,
    pub(super) token_endpoint: Url,
    pub(super) registration_endpoint: Option<Url>,
    pub(super) revocation_endpoint: Option<Url>,
    pub(super) scopes: Vec<String>,
    pub(super) grants: Option<Vec<String>>,
    pub(super) methods: Option<Vec<String>>,
    pub(super) has_s256: bool,
    pub(super) takes_documents: bool,
    pub(super) says_iss: bool,
}

#[derive(Deserialize)]
struct Document {
    issuer: String,
    #[serde(default)]
    authorization_endpoint: Option<String>,
    #[serde(default)]
    token_endpoint: Option<String>,
    #[serde(default)]
    registration_endpoint: Option<String>,
    #[serde(default)]
    revocation_endpoint: Option<String>,
    #[serde(default)]
    scopes_supported: Option<Vec<String>>,
    #[serde(default)]
    grant_types_supported: Option<Vec<String>>,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    code_challenge_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    client_id_metadata_document_supported: Option<bool>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: Option<bool>,
}

/// Asks at every place where the description may be. `server` is the one that named the authorization server.
pub(super) async fn discover(http: &Http, server: &Url, name: &str) -> Result<AuthServer, AuthError> {
    let issuer = judge::issuer(server, name)?;
    let mut other = None;
    for url in well_known(&issuer) {
        let answer = http.get(&url).await?;
        if answer.status >= 500 {
            let reason = format!("it answered {}", answer.status);
            return Err(AuthError::Unreachable { host: host(&url), reason });
        }
        if !answer.is_success() {
            continue;
        }
        // Some hosts answer with a page where nothing is.
        let Ok(document) = answer.json::<Document>() else { continue };
        if is_same(&document.issuer, name) {
            return check(server, document);
        }
        other.get_or_insert(document.issuer);
    }
    Err(match other {
        Some(found) => AuthError::IssuerMismatch { expected: name.to_owned(), found: tame(&found) },
        None => AuthError::NoIssuerMetadata { issuer: name.to_owned() },
    })
}

/// Whether two names are one. They must be the same bytes; only the slash that an address without a path may have or not is no
/// difference here, since neither spelling can be somebody else. (`iss` in an answer has no such freedom.)
fn is_same(one: &str, other: &str) -> bool {
    let bare = |text: &str| match text.strip_suffix('/') {
        Some(bare) if bare.matches('/').count() == 2 => bare.to_owned(),
        _ => text.to_owned(),
    };
    bare(one) == bare(other)
}

/// Where the description is, in the order that the protocol wants.
fn well_known(issuer: &Url) -> Vec<Url> {
    let path = issuer.path().trim_end_matches('/');
    let places = if path.is_empty() {
        vec!["/.well-known/oauth-authorization-server".to_owned(), "/.well-known/openid-configuration".to_owned()]
    } else {
        vec![
            format!("/.well-known/oauth-authorization-server{path}"),
            format!("/.well-known/openid-configuration{path}"),
            format!("{path}/.well-known/openid-configuration"),
        ]
    };
    places
        .into_iter()
        .map(|place| {
            let mut url = issuer.clone();
            url.set_path(&place);
            url
        })
        .collect()
}

fn check(server: &Url, document: Document) -> Result<AuthServer, AuthError> {
    let optional = |what, text: Option<String>| text.map(|text| judge::endpoint(server, what, &text)).transpose();
    let methods = document.code_challenge_methods_supported.unwrap_or_default();
    let Some(token_endpoint) = optional("token endpoint", document.token_endpoint)? else {
        return Err(AuthError::NoIssuerMetadata { issuer: document.issuer });
    };
    Ok(AuthServer {
        authorization_endpoint: optional("authorization endpoint", document.authorization_endpoint)?,
        registration_endpoint: optional("registration endpoint", document.registration_endpoint)?,
        revocation_endpoint: optional("revocation endpoint", document.revocation_endpoint)?,
        token_endpoint,
        scopes: scopes::clean(document.scopes_supported.unwrap_or_default()),
        grants: document.grant_types_supported,
        methods: document.token_endpoint_auth_methods_supported,
        has_s256: methods.iter().any(|method| method == "S256"),
        takes_documents: document.client_id_metadata_document_supported.unwrap_or(false),
        says_iss: document.authorization_response_iss_parameter_supported.unwrap_or(false),
        issuer: document.issuer,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_the_description() {
        let places =
            |text| well_known(&Url::parse(text).unwrap()).iter().map(|url| url.path().to_owned()).collect::<Vec<_>>();
        assert_eq!(
            places("https://as.example"),
            ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"]
        );
        assert_eq!(
            places("https://as.example/tenant/1/"),
            [
                "/.well-known/oauth-authorization-server/tenant/1",
                "/.well-known/openid-configuration/tenant/1",
                "/tenant/1/.well-known/openid-configuration"
            ]
        );
    }

    #[test]
    fn names_are_compared_byte_for_byte_but_for_the_slash_of_no_path() {
        assert!(is_same("https://a.example", "https://a.example/"));
        assert!(is_same("https://a.example/t", "https://a.example/t"));
        for (one, other) in [
            ("https://a.example/t", "https://a.example/t/"),
            ("https://a.example", "https://A.example"),
            ("https://a.example", "https://a.example:443"),
            ("https://a.example", "http://a.example"),
            ("https://a.example//", "https://a.example"),
            ("", "https://a.example"),
        ] {
            assert!(!is_same(one, other), "{one} {other}");
        }
    }
}
