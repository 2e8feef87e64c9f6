//! The bytes of a sealed value: version, name of the key, nonce, ciphertext with its tag.
//!
//! AES-256-GCM-SIV, so that even a nonce that came twice would only tell that the same text was sealed twice.

use aes_gcm_siv::Nonce;
use aes_gcm_siv::aead::{Aead, Payload};
use zeroize::Zeroizing;

use crate::key::{Key, KeyId};

const VERSION: u8 = 1;
const NONCE: usize = 12;
const TAG: usize = 16;
const HEADER: usize = 1 + size_of::<KeyId>();

/// Why something does not open.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum UnsealError {
    /// A key that is not here sealed it.
    #[error("it was sealed with the master key {0}, which is not here; give that key too, or enter the secret again")]
    OtherKey(KeyId),
    /// A later Kitbag sealed it.
    #[error("it was sealed by another version of Kitbag (form {0}; form 1 is known)")]
    Version(u8),
    /// It was changed, cut off, or taken from another place.
    #[error("it is damaged, or was sealed for another place")]
    Damaged,
}

pub(crate) fn seal(key: &Key, context: &[&str], plain: &[u8]) -> Vec<u8> {
    let mut sealed = Vec::with_capacity(HEADER + NONCE + plain.len() + TAG);
    sealed.push(VERSION);
    sealed.extend_from_slice(&key.id().0);
    let mut nonce = Nonce::default();
    getrandom::fill(&mut nonce).expect("the operating system's random source answers");
    let aad = bound(&sealed, context);
    let inside = key
        .cipher
        .encrypt(&nonce, Payload { msg: plain, aad: &aad })
        .expect("the cipher takes texts of up to 64 GiB, more than fits into memory here");
    sealed.extend_from_slice(&nonce);
    sealed.extend_from_slice(&inside);
    sealed
}

pub(crate) fn unseal(keys: &[Key], context: &[&str], sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, UnsealError> {
    match sealed.first() {
        Some(&VERSION) => {}
        Some(&other) => return Err(UnsealError::Version(other)),
        None => return Err(UnsealError::Damaged),
    }
    if sealed.len() < HEADER + NONCE + TAG {
        return Err(UnsealError::Damaged);
    }
    let id = key_of(sealed).ok_or(UnsealError::Damaged)?;
    let key = keys.iter().find(|key| key.id() == id).ok_or(UnsealError::OtherKey(id))?;
    let (header, rest) = sealed.split_at(HEADER);
    let (nonce, inside) = rest.split_at(NONCE);
    let nonce = Nonce::try_from(nonce).map_err(|_| UnsealError::Damaged)?;
    let plain = key.cipher.decrypt(&nonce, Payload { msg: inside, aad: &bound(header, context) });
    plain.map(Zeroizing::new).map_err(|_| UnsealError::Damaged)
}

/// The name of the key that sealed it, if it is long enough to have one.
pub(crate) fn key_of(sealed: &[u8]) -> Option<KeyId> {
    sealed.get(1..HEADER)?.try_into().ok().map(KeyId)
}

/// What a sealed value is bound to besides its text. Each part has its length in front, so that no two contexts read the same.
fn bound(header: &[u8], context: &[&str]) -> Vec<u8> {
    let mut bytes = header.to_vec();
    for part in context {
        bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
        bytes.extend_from_slice(part.as_bytes());
    }
    bytes
}
