//! Who is asked: which wire, where, and with which key.

use std::collections::HashSet;
use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use kitbag_model::Secret;
use url::Url;

use crate::error::LlmError;

/// How a provider is spoken to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Wire {
    /// Anthropic's Messages.
    Anthropic,
    /// OpenAI's Chat Completions, and everybody's who speaks them: llama.cpp, Ollama, vLLM and others.
    OpenAi,
}

/// A provider.
#[derive(Clone)]
pub struct Provider {
    /// How it is spoken to.
    pub wire: Wire,
    /// Where it is, with or without the `/v1` at its end. An address that has a version anywhere in its path gets no other.
    pub base_url: Url,
    /// Its key; servers of one's own often need none.
    pub key: Option<Secret>,
}

/// Only the host: a path or a query may hold a key.
impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = if self.key.is_some() { "with a key" } else { "without a key" };
        write!(f, "Provider({:?} at {}, {key})", self.wire, self.host())
    }
}

impl Provider {
    pub(crate) fn host(&self) -> &str {
        self.base_url.host_str().unwrap_or_default()
    }

    /// Whether this is OpenAI itself, which has left some words behind that others still expect.
    pub(crate) fn is_openai_itself(&self) -> bool {
        let host = self.host();
        host == "openai.com" || host.ends_with(".openai.com") || host.ends_with(".openai.azure.com")
    }

    /// The address of one of its functions, like `models`.
    pub(crate) fn place(&self, function: &str) -> Url {
        let mut url = self.base_url.clone();
        let path = url.path().trim_end_matches('/');
        let version = if path.split('/').any(is_version) { "" } else { "/v1" };
        let path = format!("{path}{version}/{function}");
        url.set_path(&path);
        url.set_fragment(None);
        url
    }

    /// What every request says.
    pub(crate) fn headers(&self) -> Result<HeaderMap, LlmError> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        // What is not compressed cannot be a bomb.
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if self.wire == Wire::Anthropic {
            headers.insert(HeaderName::from_static("anthropic-version"), HeaderValue::from_static("2023-06-01"));
        }
        let Some(key) = self.key.as_ref().map(Secret::expose).filter(|key| !key.is_empty()) else {
            return Ok(headers);
        };
        let (name, value) = match self.wire {
            Wire::Anthropic => (HeaderName::from_static("x-api-key"), HeaderValue::from_str(key)),
            Wire::OpenAi => (header::AUTHORIZATION, HeaderValue::from_str(&format!("Bearer {key}"))),
        };
        let mut value = value.map_err(|_| LlmError::KeyUnusable)?;
        value.set_sensitive(true);
        headers.insert(name, value);
        Ok(headers)
    }

    /// A provider's words as they may be shown: without the key or a part of it, should they repeat it, on one line, and not too long.
    pub(crate) fn tame(&self, words: &str) -> String {
        const LONGEST: usize = 500;
        let words: String = words.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let words = match self.key.as_ref().map(Secret::expose).filter(|key| !key.is_empty()) {
            Some(key) => without(&words.replace(key, "…"), key),
            None => words,
        };
        match words.char_indices().nth(LONGEST) {
            Some((end, _)) => format!("{}…", words.split_at(end).0),
            None => words,
        }
    }
}

/// So much of a key tells something of it.
const TELLING: usize = 8;

/// So much of a key is looked for: none that providers give out is longer.
const LONGEST_KEY: usize = 4096;

/// Words without the parts of a key: providers repeat the beginning or the end of one that they refuse. What all keys of a kind begin with, such as
/// `sk-proj-`, is a part as well, and goes with the rest.
fn without(words: &str, key: &str) -> String {
    let key = &key.as_bytes()[..key.len().min(LONGEST_KEY)];
    let parts: HashSet<&[u8]> = key.windows(TELLING).collect();
    let mut told = String::with_capacity(words.len());
    let (mut hidden, mut was_hidden) = (0, false);
    for (at, letter) in words.char_indices() {
        if words.as_bytes()[at..].get(..TELLING).is_some_and(|part| parts.contains(part)) {
            hidden = at + TELLING;
        }
        let is_hidden = at < hidden;
        match is_hidden {
            false => told.push(letter),
            true if !was_hidden => told.push('…'),
            true => {}
        }
        was_hidden = is_hidden;
    }
    told
}

/// `v1`, `v2beta`.
fn is_version(segment: &str) -> bool {
    segment.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(base_url: &str) -> Provider {
        Provider { wire: Wire::OpenAi, base_url: base_url.parse().unwrap(), key: Some(Secret::new("sk-hunter2")) }
    }

    #[test]
    fn an_address_gets_a_version_unless_it_has_one() {
        for (base, place) in [
            ("http://localhost:11434", "http://localhost:11434/v1/models"),
            ("http://localhost:11434/", "http://localhost:11434/v1/models"),
            ("http://localhost:11434/v1", "http://localhost:11434/v1/models"),
            ("https://example.org/openai/v1/", "https://example.org/openai/v1/models"),
            ("https://example.org/v1beta/openai", "https://example.org/v1beta/openai/models"),
            ("https://example.org/vault", "https://example.org/vault/v1/models"),
            ("https://example.org/v1?api-version=7#x", "https://example.org/v1/models?api-version=7"),
        ] {
            assert_eq!(at(base).place("models").as_str(), place, "{base}");
        }
    }

    #[test]
    fn the_key_is_never_shown() {
        let provider = at("https://example.org/v1?key=sk-hunter2");
        assert_eq!(format!("{provider:?}"), "Provider(OpenAi at example.org, with a key)");
        assert!(!format!("{:?}", provider.headers().unwrap()).contains("hunter2"));
        assert_eq!(provider.tame("bad key\nsk-hunter2!"), "bad key …!");
        // One that straddles the end is taken out before the words are cut.
        let long = provider.tame(&format!("{}sk-hunter2", "x".repeat(495)));
        assert!(!long.contains("sk-"), "{long}");
        assert_eq!(provider.tame(&"é".repeat(600)).chars().count(), 501);
    }

    #[test]
    fn a_part_of_the_key_is_not_shown_either() {
        let key = "sk-proj-a1B2c3D4e5F6g7H8";
        let provider = Provider { key: Some(Secret::new(key)), ..at("https://example.org") };
        for (words, shown) in [
            ("Incorrect API key: sk-proj-a1B2********g7H8.", "Incorrect API key: …********g7H8."),
            ("it ends with e5F6g7H8", "it ends with …"),
            ("one: 3D4e5F6g, two: sk-proj-a1B2c3D4e5F6g7H8!", "one: …, two: …!"),
            ("é3D4e5F6gé", "é…é"),
            ("seven letters stay: 5F6g7H8", "seven letters stay: 5F6g7H8"),
            ("the model `gpt` is unknown", "the model `gpt` is unknown"),
        ] {
            assert_eq!(provider.tame(words), shown, "{words}");
        }
    }

    #[test]
    fn a_key_that_fits_into_no_header_is_told_without_it() {
        let provider = Provider { key: Some(Secret::new("a\nb")), ..at("https://example.org") };
        assert_eq!(provider.headers().unwrap_err(), LlmError::KeyUnusable);
        let without = Provider { key: Some(Secret::new("")), ..at("https://example.org") };
        assert!(!without.headers().unwrap().contains_key(header::AUTHORIZATION));
        assert_eq!(without.tame("abc"), "abc");
    }

    #[test]
    fn openai_itself_is_known_by_its_host() {
        assert!(at("https://api.openai.com/v1").is_openai_itself());
        assert!(!at("https://api.notopenai.com/v1").is_openai_itself());
    }
}
