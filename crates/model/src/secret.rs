//! Secrets: texts that print masked, and the hashes that are kept in their place.

use std::fmt;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// A text that must not reach a log, an error or the database. Reading it takes a visible [`Secret::expose`].
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Takes a text in.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// A new one with 256 random bits, in letters and digits that are safe in a URL and a cookie.
    pub fn generate() -> Self {
        let mut bytes = [0_u8; 32];
        getrandom::fill(&mut bytes).expect("the operating system's random source answers");
        Self(hex(&bytes))
    }

    /// The text itself, for the one place that must have it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// What is kept in its place. Secrets that Kitbag makes have 256 random bits, so a plain hash cannot be
    /// searched; passwords would need a slow one.
    pub fn hash(&self) -> SecretHash {
        SecretHash(Sha256::digest(self.0.as_bytes()).into())
    }

    /// Another secret that follows from this one and a purpose; this one does not follow from it.
    pub fn derive(&self, purpose: &str) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(purpose.as_bytes());
        hasher.update([0]);
        hasher.update(self.0.as_bytes());
        Self(hex(&hasher.finalize()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// SHA-256 of a secret. Two are compared in constant time.
#[derive(Clone, Copy)]
pub struct SecretHash([u8; 32]);

impl SecretHash {
    /// Reads what [`fmt::Display`] wrote.
    pub fn from_hex(text: &str) -> Option<Self> {
        if text.len() != 64 || !text.is_ascii() {
            return None;
        }
        let mut bytes = [0_u8; 32];
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Self(bytes))
    }
}

impl PartialEq for SecretHash {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for SecretHash {}

impl fmt::Display for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretHash(…)")
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_prints_masked() {
        let secret = Secret::new("hunter2");
        assert!(!format!("{secret:?} {:?}", secret.hash()).contains("hunter2"));
    }

    #[test]
    fn hashes() {
        let hash = Secret::new("abc").hash();
        assert_eq!(hash.to_string(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(SecretHash::from_hex(&hash.to_string()), Some(hash));
        assert_ne!(Secret::new("abd").hash(), hash);
        assert_eq!(SecretHash::from_hex("zz"), None);
        assert_eq!(SecretHash::from_hex(&"zz".repeat(32)), None);
    }

    #[test]
    fn generated_and_derived_differ() {
        let (a, b) = (Secret::generate(), Secret::generate());
        assert_ne!(a.expose(), b.expose());
        assert_ne!(a.derive("cookie").expose(), a.derive("other").expose());
        assert_eq!(a.derive("cookie").expose(), a.derive("cookie").expose());
    }
}
