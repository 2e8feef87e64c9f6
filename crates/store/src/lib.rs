//! The only room that knows SQL: SQLite for one person, PostgreSQL for many, with the same functions and the same
//! statements.
//!
//! The way to a tenant's rows is a transaction bound to one organisation: [`Store::read`] and [`Store::write`]. No
//! pool and no connection leaves this crate. On PostgreSQL row-level security is a second wall behind the first,
//! which is that every statement names the organisation it is bound to.

mod audit;
mod behind;
mod builder;
mod calls;
mod chats;
mod error;
mod executors;
mod gallery;
mod inspect;
mod manifests;
mod messages;
pub mod migrate;
mod nodes;
mod organizations;
mod page;
mod people;
mod places;
mod postgres;
mod retention;
mod row;
mod runs;
mod secrets;
mod sessions;
mod settings;
mod sqlite;
mod store;
mod system;
mod tokens;
mod toolsets;
mod tx;

pub use audit::asked_details;
pub use calls::{FinishError, KeptDescription};
pub use error::{OpenError, StoreError};
pub use gallery::{GalleryTx, PublishError};
pub use inspect::{InspectedNode, Inspection, ServerConnections, inspect};
pub use manifests::KeepError;
pub use messages::AddMessageError;
pub use nodes::{Alone, Budget, ChatClaim, Fence, Listening, News, Node, Nodes, ServerClaim};
pub use page::Page;
pub use people::{PersonTx, RoleError, UnlinkError};
pub use places::{Places, Taken};
pub use retention::{Trimmed, trim_audit_postgres};
pub use runs::{Claim, Claimed, End, Held, KINDS_AT_ONCE, KeptEvent, Kinds, NotHeld, RUNS_AT_ONCE, Waiting};
pub use secrets::KeptSecret;
pub use store::{Connections, Location, Store};
pub use system::SystemTx;
pub use toolsets::{AcceptError, InstallError};
pub use tx::{Read, ReadTx, Tx, Write, WriteTx};
