//! Where the server is: the address that a person named, and the places below it. A token goes nowhere else.

use std::str::FromStr;

use kitbag_guard::dial::masked;
use kitbag_model::ContentHash;
use kitbag_model::run::wire::AttemptId;
use url::Url;

/// The address of a server: `http` or `https`, a host, perhaps a path that everything is below.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ServerAddress(Url);

/// A text that is no such address.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadAddress {
    /// It cannot be read.
    #[error("`{0}` is not the address of a server: write it like https://kitbag.example.org")]
    NoUrl(String),
    /// It is for something else than a server of ours.
    #[error("`{scheme}:` is not how a server is reached: write http://, https://, ws:// or wss://")]
    Scheme {
        /// What it begins with.
        scheme: String,
    },
    /// It has a user name or a password in it.
    #[error("the address of the server has a user name or a password in it: leave it out")]
    Credentials,
}

impl FromStr for ServerAddress {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        let url: Url = text.trim().parse().map_err(|_| BadAddress::NoUrl(text.to_owned()))?;
        let scheme = match url.scheme() {
            "http" | "ws" => "http",
            "https" | "wss" => "https",
            // `localhost:8700` reads as an address with the scheme `localhost`.
            _ if url.cannot_be_a_base() => return Err(BadAddress::NoUrl(text.to_owned())),
            other => return Err(BadAddress::Scheme { scheme: other.to_owned() }),
        };
        if !url.has_host() {
            return Err(BadAddress::NoUrl(text.to_owned()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(BadAddress::Credentials);
        }
        // Between these kinds of schemes the parser itself does not let one be exchanged for another.
        let rest = &url.as_str()[url.scheme().len()..];
        let url = format!("{scheme}{rest}").parse().map_err(|_| BadAddress::NoUrl(text.to_owned()))?;
        Ok(Self::of(url))
    }
}

impl ServerAddress {
    /// Of an address that was read. A token in it (`serve` prints one) is not part of it.
    fn of(mut url: Url) -> Self {
        url.set_query(None);
        url.set_fragment(None);
        if !url.path().ends_with('/') {
            url.set_path(&format!("{}/", url.path()));
        }
        Self(url)
    }

    /// As an address.
    pub fn url(&self) -> &Url {
        &self.0
    }

    /// Where a machine is paired.
    pub fn pair(&self) -> Url {
        self.below("v1/executors/pair")
    }

    /// Where the WebSocket is opened: where the server says, if that is the server that the person named. A server that does not know
    /// how it is reached from outside says something else, and a token is for whom it was given by.
    pub fn gateway(&self, said: &str) -> Url {
        let named: Option<Self> = said.parse().ok();
        match named {
            Some(Self(mut url)) if url.origin() == self.0.origin() => {
                let path = url.path().trim_end_matches('/').to_owned();
                url.set_path(&path);
                url
            }
            _ => self.below("v1/executors/connect"),
        }
    }

    /// The content of a file of an attempt.
    pub fn blob(&self, id: AttemptId, hash: ContentHash) -> Url {
        self.below(&format!("v1/executors/attempts/{}/{}/blobs/{hash}", id.run_id, id.attempt))
    }

    /// Where one asks what the server does not have.
    pub fn missing(&self, id: AttemptId) -> Url {
        self.below(&format!("v1/executors/attempts/{}/{}/missing", id.run_id, id.attempt))
    }

    fn below(&self, path: &str) -> Url {
        let mut url = self.0.clone();
        url.set_path(&format!("{}{path}", self.0.path()));
        url
    }
}

impl std::fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(masked(&self.0).trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, pair, shown) in [
            ("http://127.0.0.1:8700", "http://127.0.0.1:8700/v1/executors/pair", "http://127.0.0.1:8700"),
            ("http://127.0.0.1:8700/?token=secret", "http://127.0.0.1:8700/v1/executors/pair", "http://127.0.0.1:8700"),
            ("wss://h.example", "https://h.example/v1/executors/pair", "https://h.example"),
            (" https://h.example/tools/ ", "https://h.example/tools/v1/executors/pair", "https://h.example/tools"),
        ] {
            let address: ServerAddress = text.parse().unwrap();
            assert_eq!((address.pair().as_str(), address.to_string().as_str()), (pair, shown));
        }
        for (text, wrong) in [
            ("localhost:8700", "https://kitbag.example.org"),
            ("kitbag", "https://kitbag.example.org"),
            ("file:///etc/passwd", "ws://"),
            ("https://u:p@h.example", "leave it out"),
        ] {
            let error = text.parse::<ServerAddress>().unwrap_err().to_string();
            assert!(error.contains(wrong), "{text}: {error}");
        }
    }

    #[test]
    fn a_token_goes_to_whom_a_person_named() {
        let server: ServerAddress = "https://h.example".parse().unwrap();
        for (said, dialled) in [
            ("wss://h.example/v1/executors/connect", "https://h.example/v1/executors/connect"),
            ("wss://h.example:443/elsewhere", "https://h.example/elsewhere"),
            ("ws://h.example/v1/executors/connect", "https://h.example/v1/executors/connect"),
            ("ws://127.0.0.1:8700/v1/executors/connect", "https://h.example/v1/executors/connect"),
            ("", "https://h.example/v1/executors/connect"),
        ] {
            assert_eq!(server.gateway(said).as_str(), dialled, "{said}");
        }
    }
}
