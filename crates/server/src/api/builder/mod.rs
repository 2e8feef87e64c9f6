//! Putting a toolset together with a model's help.

pub(crate) mod chat;
pub(crate) mod finalize;
pub(crate) mod get;
pub(crate) mod start;
mod view;

use serde::Deserialize;
use utoipa::IntoParams;

use super::error::ApiError;

/// How long what somebody writes may be.
const LONGEST: usize = 20_000;
/// How many components may be chosen.
const MOST_KEYS: usize = 50;
/// How long the key of one may be.
const LONGEST_KEY: usize = 80;

/// The path of a session.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct SessionPath {
    /// The organisation; `local` in the embedded mode.
    #[allow(dead_code, reason = "the caller's check reads it")]
    org: String,
    /// The session.
    builder: String,
}

/// Checks a text that somebody wrote. PostgreSQL cannot keep a NUL.
fn checked(field: &str, text: &str, least: usize, most: usize) -> Result<(), ApiError> {
    let has = text.chars().count();
    if has < least || has > most {
        return Err(ApiError::invalid(field, format!("must have {least} to {most} characters, not {has}")));
    }
    if text.contains('\0') {
        return Err(ApiError::invalid(field, "must not have a NUL"));
    }
    Ok(())
}

/// Checks keys that somebody chose; whether there are such is for the catalogue.
fn checked_keys(keys: Option<&[String]>) -> Result<(), ApiError> {
    let keys = keys.unwrap_or_default();
    let field = "selectedComponentKeys";
    if keys.len() > MOST_KEYS {
        return Err(ApiError::invalid(field, format!("must have at most {MOST_KEYS} entries, not {}", keys.len())));
    }
    keys.iter().try_for_each(|key| checked(field, key, 1, LONGEST_KEY))
}
