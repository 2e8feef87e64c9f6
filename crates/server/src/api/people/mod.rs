//! Signing in and out, and what a person may see and change of themselves.

pub(crate) mod identities;
pub(crate) mod password;
pub(crate) mod sessions;
pub(crate) mod sign_in;
pub(crate) mod sign_out;
pub(crate) mod view;
