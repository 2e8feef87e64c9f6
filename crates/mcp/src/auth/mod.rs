//! Signing in at remote servers: OAuth as the protocol's authorization chapter wants it.
//!
//! An [`Authorizer`] finds out who signs people in for a server, sends a person there, takes the code that comes back, and has a
//! current token whenever one is needed. It keeps what it knows through a [`Keeper`] (sealed by whoever gives one) and dials
//! whom an [`Egress`] allows. It knows nothing of routes, cookies or databases. Everything that a server or an authorization server says is a
//! stranger's word: addresses are judged, answers are bounded, and a token goes to the one server that it was had for.
//!
//! A connection gets [`Authorizer::tokens`] and needs nothing else. When it ends with `NeedsAuth`, its challenge goes into
//! [`Authorizer::begin`], and a person's browser to the address that this brings; what comes back goes into [`Authorizer::finish`], and then the
//! server is connected to again. The address is for a browser and never for a shell. Who ends a sign-in must be who began it, so the
//! callback has to know the person: a cookie that is not sent along from another site has to be asked for by a step in between.
//!
//! rmcp has OAuth too. It is not used: it keeps one sign-in in memory and in one process, follows metadata to addresses that nobody
//! judged, knows no revocation, and ties neither a state to a person nor a client that was given by hand to its issuer.

mod assertion;
mod authorizer;
mod begin;
mod challenge;
mod client;
mod error;
mod finish;
mod http;
mod issuer;
mod judge;
mod keeper;
mod machine;
mod pkce;
mod records;
mod registration;
mod renew;
mod resource;
mod revoke;
mod scopes;
mod token;
mod tokens;

pub use assertion::can_sign;
pub use authorizer::{Authorizer, Callback, Finished, Refusal, Server, Started, Status};
pub use challenge::Challenge;
pub use client::{ClientSettings, Grant, Proof, RegisteredClient, SigningAlgorithm, client_document};
pub use error::AuthError;
pub use http::Egress;
pub use keeper::{Alone, InMemory, Keeper, KeeperError, Kind, Slot};
pub use revoke::Farewell;
pub use tokens::ServerTokens;
