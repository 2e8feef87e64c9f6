//! Random texts, and the pair that ties a code to who asked for it (RFC 7636, S256).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kitbag_model::Secret;
use sha2::{Digest, Sha256};

/// 256 random bits, in letters that are safe in an address.
pub(super) fn random() -> Secret {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).expect("the operating system's random source answers");
    Secret::new(URL_SAFE_NO_PAD.encode(bytes))
}

/// A number below `end`, for jitter; which one exactly is of no importance.
pub(super) fn below(end: u64) -> u64 {
    let number = getrandom::u64().expect("the operating system's random source answers");
    if end == 0 { 0 } else { number % end }
}

/// What is shown first of a verifier.
pub(super) fn challenge(verifier: &Secret) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.expose().as_bytes()))
}
