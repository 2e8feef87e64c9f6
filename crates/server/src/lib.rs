//! The HTTP API: who may enter, what they may ask, and how it is answered.
//!
//! It knows neither SQL (that is the store's) nor the command line. The same router serves the network and, inside one
//! process, the command line, so that both can do exactly the same.

mod access;
mod api;
mod app;
mod builder;
mod calls;
mod containers;
mod copies;
mod edge;
pub mod elsewhere;
mod events;
mod gallery;
mod gateway;
mod home;
mod impatient;
mod listen;
pub mod moving;
mod nodes;
mod ops;
mod page;
mod recent;
mod reseal;
mod resolution;
mod retention;
mod router;
mod rules;
mod runs;
mod servers;
mod stage;
mod storage;
mod toolsets;
mod transfer;
mod turns;
mod unstirred;
mod vaulted;
mod workspaces;

pub use access::client::{BadNetwork, Network};
pub use access::embedded::{self, EmbeddedTokenError};
pub use app::{App, BlobSettings, Settings};
pub use calls::CallSettings;
pub use containers::{ContainerSettings, ContainersFor};
pub use copies::{Misplaced, check_bytes, settle_bytes};
pub use kitbag_bucket::{BadBucketUrl, Bucket, BucketError, BucketUrl};
pub use kitbag_cas::workspace::Limits as WorkspaceLimits;
pub use kitbag_identity as identity;
pub use kitbag_mcp::serve::bridge;
pub use listen::serve;
pub use nodes::{HomeTaken, NodeSettings, ping};
pub use ops::checks;
pub use ops::numbers::{BUCKETS, register as register_metrics};
pub use ops::openapi::document as openapi;
pub use page::{PageFile, PageFiles};
pub use resolution::ResolutionSettings;
pub use router::router;
pub use rules::{OrganizationRules, OrganizationsRules};
pub use runs::RunSettings;
pub use servers::{ServerSettings, WrongKey, check_master_key};
pub use stage::{Connector, FrameOrigin, NotShown, Stage, StageDomain, StageError};
pub use turns::{BadModelName, ModelName, ModelSettings};
pub use vaulted::SecretError;
