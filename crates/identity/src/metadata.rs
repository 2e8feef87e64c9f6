//! What an issuer says of itself (OpenID Connect Discovery, RFC 8414), checked before anything of it is used.

use serde::Deserialize;
use url::Url;

use crate::error::{IssuerError, tame};
use crate::http::Http;
use crate::settings::{IssuerUrl, is_private_enough};

/// An issuer whose description was checked.
#[derive(Debug)]
pub(crate) struct Metadata {
    pub(crate) authorization_endpoint: Option<Url>,
    pub(crate) token_endpoint: Option<Url>,
    pub(crate) userinfo_endpoint: Option<Url>,
    pub(crate) jwks_uri: Url,
    /// How clients may show who they are; none if it does not say.
    pub(crate) methods: Option<Vec<String>>,
    /// Whether its answers always say whose they are (RFC 9207).
    pub(crate) says_iss: bool,
}

#[derive(Deserialize)]
struct Document {
    issuer: String,
    #[serde(default)]
    authorization_endpoint: Option<String>,
    #[serde(default)]
    token_endpoint: Option<String>,
    #[serde(default)]
    userinfo_endpoint: Option<String>,
    #[serde(default)]
    jwks_uri: Option<String>,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    code_challenge_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

/// Asks where OpenID Connect has it, then where OAuth has it.
pub(crate) async fn discover(http: &Http, issuer: &IssuerUrl) -> Result<Metadata, IssuerError> {
    let [first, second] = places(issuer.url());
    let document: Document = match http.get(&first, None).await {
        Ok(document) => document,
        // What is wrong with the first place is what to tell: nearly every issuer has it there.
        Err(error) => http.get(&second, None).await.map_err(|_| error)?,
    };
    check(issuer, document)
}

fn places(issuer: &Url) -> [Url; 2] {
    let path = issuer.path().trim_end_matches('/');
    let at = |path: &str| {
        let mut url = issuer.clone();
        url.set_path(path);
        url
    };
    [
        at(&format!("{path}/.well-known/openid-configuration")),
        at(&format!("/.well-known/oauth-authorization-server{path}")),
    ]
}

fn check(issuer: &IssuerUrl, document: Document) -> Result<Metadata, IssuerError> {
    let wrong = |reason: String| IssuerError::Description(reason);
    // Byte for byte: whoever answers here must be whom the operator meant, and tokens will name it like this.
    if document.issuer != issuer.as_str() {
        return Err(wrong(format!("it calls itself {:?}, and not {:?}", tame(&document.issuer), issuer.as_str())));
    }
    let endpoint = |what: &str, text: Option<String>| {
        let read = |text: String| {
            let url = Url::parse(&text).ok().filter(|url| is_private_enough(url) && url.fragment().is_none());
            url.ok_or_else(|| wrong(format!("its {what} is not an https address")))
        };
        text.map(read).transpose()
    };
    if document.code_challenge_methods_supported.is_some_and(|methods| !methods.iter().any(|one| one == "S256")) {
        return Err(wrong("it does not know S256 (PKCE)".to_owned()));
    }
    let jwks_uri = endpoint("jwks_uri", document.jwks_uri)?.ok_or_else(|| wrong("it has no jwks_uri".to_owned()))?;
    Ok(Metadata {
        authorization_endpoint: endpoint("authorization_endpoint", document.authorization_endpoint)?,
        token_endpoint: endpoint("token_endpoint", document.token_endpoint)?,
        userinfo_endpoint: endpoint("userinfo_endpoint", document.userinfo_endpoint)?,
        jwks_uri,
        methods: document.token_endpoint_auth_methods_supported,
        says_iss: document.authorization_response_iss_parameter_supported,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn judged(change: impl FnOnce(&mut Value)) -> Result<Metadata, IssuerError> {
        let mut document = json!({
            "issuer": "https://a.example/t", "authorization_endpoint": "https://a.example/auth",
            "token_endpoint": "https://a.example/token", "jwks_uri": "https://a.example/keys",
        });
        change(&mut document);
        check(&"https://a.example/t".parse().expect("an issuer"), serde_json::from_value(document).expect("a document"))
    }

    #[test]
    fn descriptions_are_judged() {
        assert!(judged(|_| ()).is_ok());
        let wrong: [fn(&mut Value); 6] = [
            |d| d["issuer"] = json!("https://a.example/t/"),
            |d| d["issuer"] = json!("https://b.example/t"),
            |d| d["token_endpoint"] = json!("http://a.example/token"),
            |d| d["authorization_endpoint"] = json!("javascript:alert(1)"),
            |d| d["jwks_uri"] = Value::Null,
            |d| d["code_challenge_methods_supported"] = json!(["plain"]),
        ];
        for change in wrong {
            assert!(matches!(judged(change), Err(IssuerError::Description(_))));
        }
    }

    #[test]
    fn places_of_the_description() {
        let paths = |text: &str| places(&text.parse().expect("a URL")).map(|url| url.path().to_owned());
        assert_eq!(
            paths("https://a.example/t/"),
            ["/t/.well-known/openid-configuration", "/.well-known/oauth-authorization-server/t"]
        );
        assert_eq!(
            paths("https://a.example"),
            ["/.well-known/openid-configuration", "/.well-known/oauth-authorization-server"]
        );
    }
}
