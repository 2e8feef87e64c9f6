//! Who may enter: by which name and from which page ([`origin`]), with which token or cookie ([`caller`]), and who is behind it
//! ([`people`]).

pub(crate) mod caller;
pub mod embedded;
pub(crate) mod origin;
pub(crate) mod people;
pub(crate) mod session;
