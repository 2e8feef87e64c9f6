//! Who may enter: by which name and from which page ([`origin`]), with which token or cookie ([`caller`]), who is behind it
//! ([`people`], [`issuers`], [`client`]), and for how long ([`stay`]).

pub(crate) mod caller;
pub(crate) mod client;
pub mod embedded;
pub(crate) mod executor;
pub(crate) mod issuers;
pub(crate) mod noted;
pub(crate) mod origin;
pub(crate) mod people;
pub(crate) mod permissions;
pub(crate) mod session;
pub(crate) mod stay;
