//! An issuer's public keys, and what is signed with one of them.
//!
//! Which algorithm a key is for follows from the key. A token that says otherwise (`none`, or an HMAC with the public key as its secret) finds
//! no key at all.

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::IssuerError;
use crate::kept::Kept;

/// Headers have limits too.
const LONGEST_TOKEN: usize = 16 * 1024;
/// So many keys are looked at.
const MOST_KEYS: usize = 64;

const RSA: [Algorithm; 6] =
    [Algorithm::RS256, Algorithm::RS384, Algorithm::RS512, Algorithm::PS256, Algorithm::PS384, Algorithm::PS512];

/// A set of keys, as an issuer gives it out.
#[derive(Deserialize)]
pub(crate) struct Document {
    keys: Vec<Value>,
}

/// The keys that can be used.
pub(crate) struct KeySet(Vec<Key>);

struct Key {
    id: Option<String>,
    fits: Vec<Algorithm>,
    key: DecodingKey,
}

impl KeySet {
    /// Those of a document that sign in a way that is known. What else there is, is for somebody else.
    pub(crate) fn read(document: Document) -> Self {
        let keys = document.keys.into_iter().take(MOST_KEYS);
        Self(keys.filter_map(|key| Key::read(serde_json::from_value(key).ok()?)).collect())
    }

    fn fitting(&self, id: Option<&str>, algorithm: Algorithm) -> impl Iterator<Item = &DecodingKey> {
        let named = move |key: &&Key| id.is_none() || key.id.as_deref() == id;
        self.0.iter().filter(named).filter(move |key| key.fits.contains(&algorithm)).map(|key| &key.key)
    }
}

impl Key {
    fn read(jwk: Jwk) -> Option<Self> {
        if jwk.common.public_key_use.as_ref().is_some_and(|purpose| *purpose != PublicKeyUse::Signature) {
            return None;
        }
        let mut fits = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => RSA.to_vec(),
            AlgorithmParameters::EllipticCurve(key) => match key.curve {
                EllipticCurve::P256 => vec![Algorithm::ES256],
                EllipticCurve::P384 => vec![Algorithm::ES384],
                _ => return None,
            },
            AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => vec![Algorithm::EdDSA],
            // A symmetric key that everybody may read proves nothing.
            _ => return None,
        };
        if let Some(only) = &jwk.common.key_algorithm {
            fits.retain(|algorithm| is_named(*algorithm, only));
        }
        let key = DecodingKey::from_jwk(&jwk).ok()?;
        (!fits.is_empty()).then(|| Self { id: jwk.common.key_id, fits, key })
    }
}

fn is_named(algorithm: Algorithm, name: &KeyAlgorithm) -> bool {
    let written =
        |value: Result<Value, serde_json::Error>| value.ok().and_then(|value| value.as_str().map(str::to_owned));
    written(serde_json::to_value(algorithm)) == written(serde_json::to_value(name))
}

/// What a token says, if one of the keys signed it, and of which kind (`typ`) it says it is. Neither times nor names are looked at yet.
pub(crate) async fn opened<T: DeserializeOwned>(
    keys: &Kept<KeySet>,
    token: &str,
) -> Result<(Option<String>, T), IssuerError> {
    if token.len() > LONGEST_TOKEN {
        return Err(IssuerError::invalid("the token is too long"));
    }
    let header = decode_header(token).map_err(|_| IssuerError::invalid("it is no signed token that is known here"))?;
    if header.crit.is_some() {
        return Err(IssuerError::invalid("it wants something understood that is not"));
    }
    let (id, algorithm) = (header.kid.as_deref(), header.alg);
    let kept = keys.get().await?;
    let mut tried = attempt(&kept, token, id, algorithm);
    let may_be_newer = matches!(tried, Attempt::NoKey) || id.is_none() && matches!(tried, Attempt::Wrong);
    if may_be_newer && let Some(newer) = keys.newer_than(&kept).await? {
        tried = attempt(&newer, token, id, algorithm);
    }
    match tried {
        Attempt::Opened(claims) => Ok((header.typ, claims)),
        Attempt::Wrong => Err(IssuerError::invalid("the issuer did not sign it")),
        Attempt::NoKey => Err(IssuerError::invalid(format!("the issuer has no key like this for {algorithm:?}"))),
    }
}

enum Attempt<T> {
    Opened(T),
    Wrong,
    NoKey,
}

fn attempt<T: DeserializeOwned>(keys: &KeySet, token: &str, id: Option<&str>, algorithm: Algorithm) -> Attempt<T> {
    let mut rules = Validation::new(algorithm);
    rules.validate_exp = false;
    rules.validate_aud = false;
    rules.required_spec_claims.clear();
    let mut tried = Attempt::NoKey;
    for key in keys.fitting(id, algorithm) {
        match decode::<T>(token, key, &rules) {
            Ok(opened) => return Attempt::Opened(opened.claims),
            Err(_) => tried = Attempt::Wrong,
        }
    }
    tried
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fits(key: Value) -> Vec<Algorithm> {
        let set = KeySet::read(Document { keys: vec![key] });
        set.0.into_iter().next().map(|key| key.fits).unwrap_or_default()
    }

    #[test]
    fn a_key_says_what_it_is_for() {
        let rsa = json!({ "kty": "RSA", "n": "AQAB", "e": "AQAB" });
        let with = |field: &str, value: &str| {
            let mut key = rsa.clone();
            key[field] = json!(value);
            key
        };
        assert_eq!(fits(rsa.clone()), RSA);
        assert_eq!(fits(with("alg", "PS256")), [Algorithm::PS256]);
        assert_eq!(fits(with("use", "sig")), RSA);
        for other in [
            with("use", "enc"),
            with("alg", "ES256"),
            with("alg", "HS256"),
            json!({ "kty": "oct", "k": "c2VjcmV0" }),
            json!({ "kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA" }),
            json!({ "kty": "what" }),
            json!(7),
        ] {
            assert_eq!(fits(other.clone()), [], "{other}");
        }
        let point = json!({ "kty": "EC", "crv": "P-256", "x": "AA", "y": "AA" });
        assert_eq!(fits(point), [Algorithm::ES256]);
        assert_eq!(fits(json!({ "kty": "OKP", "crv": "Ed25519", "x": "AA" })), [Algorithm::EdDSA]);
    }
}
