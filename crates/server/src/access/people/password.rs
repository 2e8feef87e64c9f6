//! Passwords: hashed with Argon2id, a few at a time, since each takes a core and 19 MiB for a moment.

use std::sync::LazyLock;

use argon2::password_hash::phc::PasswordHash;
use argon2::{Argon2, PasswordHasher, PasswordVerifier};
use kitbag_model::Secret;
use tokio::sync::Semaphore;

use crate::api::error::ApiError;

/// The fewest characters. What is longer is harder to guess; what has odd characters is only harder to type.
pub(crate) const SHORTEST: usize = 10;
/// The most bytes: nobody types more, and hashing takes longer with each.
pub(crate) const LONGEST: usize = 512;

/// So many are hashed at once.
static TURNS: Semaphore = Semaphore::const_new(2);

/// What a password is compared with where there is none: whether somebody is known must not show in how long it takes.
static NOBODY: LazyLock<String> = LazyLock::new(|| compute(&Secret::generate()).unwrap_or_default());

/// Checks a password that somebody wants.
pub(crate) fn check(field: &str, password: &Secret) -> Result<(), ApiError> {
    let text = password.expose();
    if text.chars().count() < SHORTEST {
        return Err(ApiError::invalid(field, format!("must have at least {SHORTEST} characters")));
    }
    if text.len() > LONGEST {
        return Err(ApiError::invalid(field, format!("must have at most {LONGEST} bytes")));
    }
    Ok(())
}

/// The slow hash of a password, with everything that it takes to compare.
pub(crate) async fn hash(password: Secret) -> Result<Secret, ApiError> {
    in_turn(move || compute(&password)).await?.map(Secret::new).map_err(ApiError::internal)
}

/// Whether a password is the one of this hash. Without a hash it is not, and takes as long to say so.
pub(crate) async fn matches(password: Secret, hash: Option<Secret>) -> Result<bool, ApiError> {
    if password.expose().len() > LONGEST {
        return Ok(false);
    }
    in_turn(move || {
        let known = hash.is_some();
        let kept = hash.unwrap_or_else(|| Secret::new(NOBODY.as_str()));
        let verified = PasswordHash::new(kept.expose())
            .is_ok_and(|kept| Argon2::default().verify_password(password.expose().as_bytes(), &kept).is_ok());
        known && verified
    })
    .await
}

fn compute(password: &Secret) -> Result<String, argon2::password_hash::Error> {
    Ok(Argon2::default().hash_password(password.expose().as_bytes())?.to_string())
}

async fn in_turn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ApiError> {
    let _turn = TURNS.acquire().await.map_err(ApiError::internal)?;
    tokio::task::spawn_blocking(work).await.map_err(ApiError::internal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_same_password_matches() {
        let secret = |text: &str| Secret::new(text);
        let kept = hash(secret("correct horse battery")).await.expect("a hash");
        assert!(kept.expose().starts_with("$argon2id$"), "{}", kept.expose());
        assert!(matches(secret("correct horse battery"), Some(kept.clone())).await.expect("an answer"));
        for other in ["correct horse batterx", "", "CORRECT HORSE BATTERY"] {
            assert!(!matches(secret(other), Some(kept.clone())).await.expect("an answer"), "{other}");
        }
        assert!(!matches(secret("correct horse battery"), None).await.expect("an answer"));
        assert!(!matches(secret("x"), Some(secret("not a hash"))).await.expect("an answer"));
    }

    #[test]
    fn lengths() {
        assert!(check("password", &Secret::new("123456789")).is_err());
        assert!(check("password", &Secret::new("1234567890")).is_ok());
        assert!(check("password", &Secret::new("x".repeat(513))).is_err());
    }
}
