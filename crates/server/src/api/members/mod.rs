//! The members of an organisation.

pub(crate) mod list;
pub(crate) mod remove;
pub(crate) mod update;
pub(crate) mod view;

use kitbag_store::RoleError;
use serde::Deserialize;
use utoipa::IntoParams;

use super::error::{ApiError, Code};

/// The path of a member.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct MemberPath {
    /// The organisation; `local` in the embedded mode.
    #[allow(dead_code, reason = "the caller's check reads it")]
    org: String,
    /// The member's id.
    user: String,
}

/// What to tell of a role that cannot change.
fn refused(error: RoleError, user: &str) -> ApiError {
    match error {
        RoleError::Missing => ApiError::not_found("member", user),
        RoleError::LastOwner => {
            let message = "an organisation needs an owner, and this is the only one: make somebody else an owner first";
            ApiError::new(Code::Conflict, message)
        }
        RoleError::Store(error) => error.into(),
    }
}
