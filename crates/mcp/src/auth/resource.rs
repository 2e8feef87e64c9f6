//! Who signs people in for a server: its protected resource metadata (RFC 9728).

use serde::Deserialize;
use url::Url;

use super::challenge::Challenge;
use super::error::{AuthError, tame};
use super::http::{Answer, Http, host, nonsense};
use super::{judge, scopes};

/// What a server says about its tokens.
pub(super) struct Resource {
    /// What tokens are asked for, exactly as the server spells it.
    pub(super) name: String,
    /// The authorization server, exactly as the server spells it.
    pub(super) issuer: String,
    pub(super) scopes: Vec<String>,
    /// Whether the server said nothing, and its own host was taken.
    pub(super) guessed: bool,
}

#[derive(Deserialize)]
struct Document {
    resource: String,
    #[serde(default)]
    authorization_servers: Option<Vec<String>>,
    #[serde(default)]
    scopes_supported: Option<Vec<String>>,
}

/// Finds out. `known` are authorization servers where we are known already: of several that a server names, one of those is taken.
pub(super) async fn discover(
    http: &Http,
    server: &Url,
    challenge: &Challenge,
    known: &[String],
) -> Result<Resource, AuthError> {
    judge::server(server)?;
    if let Some(text) = &challenge.resource_metadata {
        let url = judge::endpoint(server, "resource metadata", text)?;
        let answer = http.get(&url).await?;
        if !answer.is_success() {
            return Err(nonsense(&url, &format!("its resource metadata is answered with {}", answer.status)));
        }
        return read(server, answer.json().map_err(|reason| nonsense(&url, &reason))?, known);
    }
    for url in well_known(server) {
        if let Some(document) = look(http, &url).await? {
            return read(server, document, known);
        }
    }
    // Servers of the protocol's first OAuth revision had no such metadata and were their own authorization servers.
    let origin = server.origin().ascii_serialization();
    Ok(Resource { name: canonical(server), issuer: origin, scopes: Vec::new(), guessed: true })
}

/// Looks where a document may be. Something else may be there, such as a page for whatever is not found.
async fn look(http: &Http, url: &Url) -> Result<Option<Document>, AuthError> {
    let answer: Answer = http.get(url).await?;
    if answer.status >= 500 {
        let reason = format!("it answered {}", answer.status);
        return Err(AuthError::Unreachable { host: host(url), reason });
    }
    Ok(if answer.is_success() { answer.json().ok() } else { None })
}

/// Where it is when the server does not say: for the path first, then for the whole host.
fn well_known(server: &Url) -> Vec<Url> {
    let mut all = Vec::new();
    let path = server.path().trim_end_matches('/');
    for path in [path, ""] {
        let mut url = server.clone();
        url.set_query(None);
        url.set_fragment(None);
        url.set_path(&format!("/.well-known/oauth-protected-resource{path}"));
        if !all.contains(&url) {
            all.push(url);
        }
    }
    all
}

fn read(server: &Url, document: Document, known: &[String]) -> Result<Resource, AuthError> {
    // A server that names another one would have us fetch tokens for that and hand them over.
    if !covers(&document.resource, server) {
        return Err(AuthError::OtherResource { host: host(server), found: tame(&document.resource) });
    }
    let named = document.authorization_servers.unwrap_or_default();
    let issuer = named.iter().find(|name| known.contains(name)).or(named.first());
    let issuer = issuer.cloned().ok_or_else(|| AuthError::NoResourceMetadata { host: host(server) })?;
    let scopes = scopes::clean(document.scopes_supported.unwrap_or_default());
    Ok(Resource { name: document.resource, issuer, scopes, guessed: false })
}

/// Whether the name of a resource is that of the server or of something that it is part of, on the same host.
fn covers(name: &str, server: &Url) -> bool {
    let Ok(url) = Url::parse(name) else { return false };
    if url.origin() != server.origin()
        || url.fragment().is_some()
        || !url.username().is_empty()
        || url.password().is_some()
    {
        return false;
    }
    if url.query().is_some() && url.query() != server.query() {
        return false;
    }
    let (whole, part) = (url.path().trim_end_matches('/'), server.path().trim_end_matches('/'));
    part.strip_prefix(whole).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The name of a server that has none: its address without what is not part of it.
fn canonical(server: &Url) -> String {
    let mut url = server.clone();
    url.set_fragment(None);
    let text = url.to_string();
    if url.path() == "/" && url.query().is_none() { text.trim_end_matches('/').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_covers_what_is_below_it_on_its_host() {
        let server = Url::parse("https://mcp.example/v1/mcp").unwrap();
        for name in [
            "https://mcp.example/v1/mcp",
            "https://mcp.example/v1/mcp/",
            "https://mcp.example/v1",
            "https://mcp.example",
            "https://MCP.example:443/",
        ] {
            assert!(covers(name, &server), "{name}");
        }
        for name in [
            "https://evil.example/v1/mcp",
            "http://mcp.example/v1/mcp",
            "https://mcp.example:444/v1/mcp",
            "https://mcp.example/v1/mc",
            "https://mcp.example/v1/mcp/more",
            "https://mcp.example/v2",
            "https://mcp.example/v1/mcp#x",
            "https://mcp.example/v1/mcp?tenant=other",
            "https://u@mcp.example/v1/mcp",
            "mcp.example",
            "",
        ] {
            assert!(!covers(name, &server), "{name}");
        }
    }

    #[test]
    fn places_of_the_metadata() {
        let places = |text| well_known(&Url::parse(text).unwrap()).iter().map(Url::to_string).collect::<Vec<_>>();
        assert_eq!(
            places("https://x.example/a/mcp/?q=1"),
            [
                "https://x.example/.well-known/oauth-protected-resource/a/mcp",
                "https://x.example/.well-known/oauth-protected-resource"
            ]
        );
        assert_eq!(places("https://x.example/"), ["https://x.example/.well-known/oauth-protected-resource"]);
    }
}
