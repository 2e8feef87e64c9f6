//! The issuers of `kitbag.toml`: `[[issuers]]`, one table for each.

use std::path::PathBuf;

use kitbag_model::{OrgId, OrgRole, Secret};
use kitbag_server::identity::{ClientSecret, ClientSettings, IssuerSettings};
use serde::Deserialize;

use crate::failure::Failure;

/// What is asked for when somebody signs in, if nothing else is.
const SCOPES: [&str; 3] = ["openid", "email", "profile"];

/// The keys of one issuer.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    id: String,
    name: Option<String>,
    issuer: String,
    client_id: Option<String>,
    client_secret: Option<String>,
    client_secret_env: Option<String>,
    client_secret_file: Option<PathBuf>,
    scopes: Option<Vec<String>>,
    sign_in: Option<bool>,
    open: Option<bool>,
    trust_email: Option<bool>,
    allow_domains: Option<Vec<String>>,
    default_org: Option<String>,
    default_role: Option<String>,
    mcp: Option<bool>,
    api: Option<bool>,
    audience: Option<OneOrMany>,
    access_token_type: Option<String>,
    use_scope: Option<String>,
    manage_scope: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

/// All issuers, checked.
pub(super) fn read(entries: Vec<Entry>) -> Result<Vec<IssuerSettings>, Failure> {
    let issuers: Vec<IssuerSettings> = entries.into_iter().map(one).collect::<Result<_, _>>()?;
    for (index, issuer) in issuers.iter().enumerate() {
        let wrong = |what: &str| Failure::wrong_use(format!("issuers: {}: {what}", issuer.id));
        if issuers[..index].iter().any(|other| other.id == issuer.id) {
            return Err(wrong("there are two of this id"));
        }
        // Whoever brings a token of it must be known here, and people become known by signing in.
        let signs_in = |other: &IssuerSettings| other.sign_in && other.issuer == issuer.issuer;
        if issuer.mcp && !issuers.iter().any(signs_in) {
            return Err(wrong("mcp needs sign_in, here or in another entry for the same issuer"));
        }
    }
    Ok(issuers)
}

fn one(entry: Entry) -> Result<IssuerSettings, Failure> {
    let wrong =
        |key: &str, what: &dyn std::fmt::Display| Failure::wrong_use(format!("issuers: {}: {key}: {what}", entry.id));
    let id = entry.id.parse().map_err(|error| wrong("id", &error))?;
    let sign_in = entry.sign_in.unwrap_or(true);
    let mcp = entry.mcp.unwrap_or(false);
    let secrets = [
        entry.client_secret.map(|text| ClientSecret::Given(Secret::new(text))),
        entry.client_secret_env.map(ClientSecret::Variable),
        entry.client_secret_file.map(ClientSecret::File),
    ];
    let mut secrets = secrets.into_iter().flatten();
    let (secret, second) = (secrets.next(), secrets.next());
    if second.is_some() {
        return Err(wrong("client_secret", &"give it once: itself, by client_secret_env or by client_secret_file"));
    }
    if matches!(&secret, Some(ClientSecret::Variable(name)) if name.starts_with("KITBAG_")) {
        return Err(wrong("client_secret_env", &"variables that begin with KITBAG_ are this program's own settings"));
    }
    let client = match entry.client_id {
        Some(id) => Some(ClientSettings { id, secret }),
        None if sign_in => return Err(wrong("client_id", &"is needed where people sign in")),
        None if secret.is_some() => return Err(wrong("client_secret", &"is of no use without client_id")),
        None => None,
    };
    let scopes = entry.scopes.unwrap_or_else(|| SCOPES.map(ToOwned::to_owned).to_vec());
    if sign_in && !scopes.iter().any(|scope| scope == "openid") {
        return Err(wrong("scopes", &"must have openid"));
    }
    let allow_domains = entry.allow_domains.unwrap_or_default();
    let is_domain = |domain: &String| !domain.is_empty() && !domain.contains(['@', '/', '*', ' ']);
    if let Some(domain) = allow_domains.iter().find(|domain| !is_domain(domain)) {
        return Err(wrong("allow_domains", &format!("{domain:?} is not a domain such as example.org")));
    }
    let joins = match (entry.default_org, entry.default_role) {
        (None, None) => None,
        (None, Some(_)) => return Err(wrong("default_role", &"is of no use without default_org")),
        // Everybody whom the issuer knows would be a member otherwise.
        (Some(_), _) if allow_domains.is_empty() => {
            return Err(wrong("default_org", &"needs allow_domains: whose addresses become members?"));
        }
        (Some(org), role) => {
            let org: OrgId = org.parse().map_err(|error| wrong("default_org", &error))?;
            let role: OrgRole =
                role.as_deref().unwrap_or("member").parse().map_err(|error| wrong("default_role", &error))?;
            if role == OrgRole::Owner {
                return Err(wrong("default_role", &"nobody becomes an owner by signing in; use admin or member"));
            }
            Some((org, role))
        }
    };
    let plain_tokens = match entry.access_token_type.as_deref() {
        None | Some("at+jwt") => false,
        Some("jwt") => true,
        Some(_) => return Err(wrong("access_token_type", &"must be at+jwt or jwt")),
    };
    let audiences = match entry.audience {
        None => Vec::new(),
        Some(OneOrMany::One(one)) => vec![one],
        Some(OneOrMany::Many(many)) => many,
    };
    if audiences.iter().any(|audience| audience.trim().is_empty()) {
        return Err(wrong("audience", &"must not be empty"));
    }
    if entry.api == Some(true) && !mcp {
        return Err(wrong("api", &"is of no use without mcp"));
    }
    let word = |key: &str, given: Option<String>, otherwise: &str| {
        let word = given.unwrap_or_else(|| otherwise.to_owned());
        // What the specification allows in a scope; it also stands in a header, between quotes.
        let fits = |byte: u8| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
        match !word.is_empty() && word.bytes().all(fits) {
            true => Ok(word),
            false => Err(wrong(key, &"must be one word, such as kitbag:use")),
        }
    };
    Ok(IssuerSettings {
        name: entry.name.unwrap_or_else(|| entry.id.clone()),
        issuer: entry.issuer.parse().map_err(|error| wrong("issuer", &error))?,
        client,
        scopes,
        sign_in,
        open: entry.open.unwrap_or(false),
        trust_email: entry.trust_email.unwrap_or(false),
        allow_domains: allow_domains.iter().map(|domain| domain.to_lowercase()).collect(),
        joins,
        mcp,
        api: entry.api.unwrap_or(false),
        audiences,
        plain_tokens,
        use_scope: word("use_scope", entry.use_scope, "kitbag:use")?,
        manage_scope: word("manage_scope", entry.manage_scope, "kitbag:manage")?,
        id,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(text: &str) -> Result<Vec<IssuerSettings>, String> {
        #[derive(Deserialize)]
        struct All {
            issuers: Vec<Entry>,
        }
        let all: All = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        read(all.issuers).map_err(|failure| failure.message)
    }

    fn with(more: &str) -> Result<IssuerSettings, String> {
        let start = "[[issuers]]\nid = \"company\"\nissuer = \"https://login.example.org\"\nclient_id = \"kitbag\"\n";
        read_all(&format!("{start}{more}")).map(|mut all| all.remove(0))
    }

    #[test]
    fn what_is_not_said_is_the_careful_way() {
        let plain = with("").expect("an issuer");
        assert!(plain.sign_in && !plain.open && !plain.trust_email && !plain.mcp && !plain.api && !plain.plain_tokens);
        assert_eq!((plain.name.as_str(), plain.scopes.len(), plain.joins.is_none()), ("company", 3, true));
        let joins = with("allow_domains = [\"Example.org\"]\ndefault_org = \"acme\"").expect("an issuer").joins;
        assert_eq!(joins, Some(("acme".parse().expect("an id"), OrgRole::Member)));
    }

    #[test]
    fn what_means_nothing_is_told() {
        for (more, word) in [
            ("secret = \"x\"", "secret"),
            ("client_secret = \"hunter2\"\nclient_secret_env = \"X\"", "client_secret"),
            ("client_secret_env = \"KITBAG_X\"", "KITBAG_"),
            ("default_org = \"acme\"", "allow_domains"),
            ("default_role = \"admin\"", "default_org"),
            ("allow_domains = [\"example.org\"]\ndefault_org = \"acme\"\ndefault_role = \"owner\"", "default_role"),
            ("allow_domains = [\"*.example.org\"]", "allow_domains"),
            ("scopes = [\"email\"]", "openid"),
            ("access_token_type = \"opaque\"", "at+jwt"),
            ("audience = \"\"\nmcp = true", "audience"),
            ("api = true", "mcp"),
            ("sign_in = false\nmcp = true", "sign_in"),
            ("use_scope = \"a b\"", "use_scope"),
            ("use_scope = \"a\\\"b\"", "use_scope"),
        ] {
            let said = with(more).expect_err(more);
            assert!(said.contains(word) && !said.contains("hunter2"), "{more}: {said}");
        }
        let two = "[[issuers]]\nid = \"a\"\nissuer = \"https://a.example\"\nclient_id = \"k\"\n".repeat(2);
        assert!(read_all(&two).expect_err("two of one id").contains("two"));
        let open = "[[issuers]]\nid = \"a\"\nissuer = \"http://a.example\"\nclient_id = \"k\"\n";
        assert!(read_all(open).expect_err("in the open").contains("https"));
    }
}
