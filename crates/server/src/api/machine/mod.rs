//! What the server is and how programs reach it. About the machine only the organisation `local` is told: its owner runs it.

pub(crate) mod checks;
pub(crate) mod connections;
pub(crate) mod facts;
pub(crate) mod reseal;
pub(crate) mod retain;
mod sizes;

use kitbag_model::OrgId;

use crate::api::error::{ApiError, Code};

/// Whoever runs the server looks after it.
fn of_the_machine(org: &OrgId) -> Result<(), ApiError> {
    if *org == OrgId::local() {
        return Ok(());
    }
    Err(ApiError::new(Code::Forbidden, "this is for whoever runs the server: the organisation \"local\""))
}
