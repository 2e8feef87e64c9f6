//! Pure data and the rules that hold for it: ids, scopes, tokens, chats, messages.
//!
//! This crate does no I/O, starts no task and knows neither SQL nor HTTP. A value of one of these types has been
//! checked; code that holds one need not check again.

pub mod access;
pub mod chat;
mod credential;
pub mod hash;
pub mod id;
pub mod manifest;
pub mod message;
pub mod organization;
pub mod path;
pub mod secret;
pub mod session;
pub mod text;
pub mod time;
pub mod token;

pub use access::{Scope, Scopes};
pub use chat::{Chat, ChatChange, ChatTitle, NewChat, ToolSelector, ToolSelectors};
pub use hash::{ContentHash, Hasher};
pub use id::{ChatId, IdError, ManifestId, MessageId, OrgId, SessionId, TokenId, UserId};
pub use manifest::{Manifest, NewManifest, Source};
pub use message::{Content, ContentError, Message, NewMessage, Parent, Role};
pub use organization::{Organization, OrganizationName};
pub use path::{PathError, WorkPath};
pub use secret::{Secret, SecretHash};
pub use session::{Session, SessionCookie};
pub use text::TextError;
pub use time::Timestamp;
pub use token::{BearerToken, MalformedToken, NewToken, Token, TokenName};
