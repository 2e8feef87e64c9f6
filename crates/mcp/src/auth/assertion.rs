//! A client that shows who it is by signing (RFC 7523, `private_key_jwt`).

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, RSA_PKCS1_SHA256, RsaKeyPair};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use kitbag_model::Secret;
use serde_json::json;

use super::client::SigningAlgorithm;
use super::error::AuthError;
use super::pkce;

/// How long it is good: long enough for clocks that differ.
const LIFE: u64 = 120;

const BAD_KEY: AuthError =
    AuthError::Settings("the client's key cannot be used: give a PKCS#8 private key as PEM that fits its algorithm");

/// A signed statement that `client` is asking `issuer`.
pub(super) fn sign(
    client: &str,
    issuer: &str,
    pem: &Secret,
    algorithm: SigningAlgorithm,
    now: u64,
) -> Result<Secret, AuthError> {
    let name = match algorithm {
        SigningAlgorithm::Es256 => "ES256",
        SigningAlgorithm::Rs256 => "RS256",
    };
    let header = json!({ "alg": name, "typ": "JWT" });
    // The issuer itself is the audience, so that no other endpoint can use the statement.
    let claims = json!({
        "iss": client,
        "sub": client,
        "aud": issuer,
        "iat": now,
        "exp": now + LIFE,
        "jti": pkce::random().expose(),
    });
    let encode = |value: &serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let said = format!("{}.{}", encode(&header), encode(&claims));
    let signature = signature(&der(pem)?, algorithm, said.as_bytes())?;
    Ok(Secret::new(format!("{said}.{}", URL_SAFE_NO_PAD.encode(signature))))
}

/// Whether a key can sign this way.
pub fn can_sign(pem: &Secret, algorithm: SigningAlgorithm) -> bool {
    der(pem).and_then(|der| signature(&der, algorithm, b"")).is_ok()
}

fn signature(der: &[u8], algorithm: SigningAlgorithm, said: &[u8]) -> Result<Vec<u8>, AuthError> {
    let random = SystemRandom::new();
    match algorithm {
        SigningAlgorithm::Es256 => {
            let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der).map_err(|_| BAD_KEY)?;
            Ok(key.sign(&random, said).map_err(|_| BAD_KEY)?.as_ref().to_vec())
        }
        SigningAlgorithm::Rs256 => {
            let key = RsaKeyPair::from_pkcs8(der).map_err(|_| BAD_KEY)?;
            let mut signature = vec![0; key.public_modulus_len()];
            key.sign(&RSA_PKCS1_SHA256, &random, said, &mut signature).map_err(|_| BAD_KEY)?;
            Ok(signature)
        }
    }
}

/// The bytes inside a PEM text.
fn der(pem: &Secret) -> Result<Vec<u8>, AuthError> {
    let inside = pem
        .expose()
        .split_once("-----BEGIN PRIVATE KEY-----")
        .and_then(|(_, rest)| rest.split_once("-----END PRIVATE KEY-----"))
        .ok_or(BAD_KEY)?
        .0;
    let letters: String = inside.split_whitespace().collect();
    STANDARD.decode(letters).map_err(|_| BAD_KEY)
}
