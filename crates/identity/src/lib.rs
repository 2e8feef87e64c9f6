//! Who people are elsewhere: issuers that an operator configured sign people in (OpenID Connect) and give clients access tokens for our MCP
//! endpoints (OAuth 2.1).
//!
//! An [`Issuer`] sends a browser there ([`Issuer::begin`]), takes the code that comes back ([`Issuer::finish`]) and says who it is; and it
//! says whose an access token is and what it may do ([`Issuer::bearer`]). It knows neither routes nor cookies nor databases, and not what
//! somebody may do here. Everything that an issuer signs is believed for what this Kitbag asked it, for this audience and this time, and
//! for nothing else.
//!
//! Signatures are `jsonwebtoken`'s, on the one provider of cryptography that is here anyhow (aws-lc-rs). `openidconnect` is not used: it
//! would bring a second stack of cryptography for what are four requests here, and those have to go through the guard.

mod access;
mod claims;
mod error;
mod http;
mod issuer;
mod kept;
mod keys;
mod metadata;
mod settings;
mod sign_in;

pub use access::Bearer;
pub use error::IssuerError;
pub use issuer::Issuer;
pub use settings::{ClientSecret, ClientSettings, IssuerId, IssuerSettings, IssuerUrl, SettingsError};
pub use sign_in::{Answer, Begun, Claimed};
