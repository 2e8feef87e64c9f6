//! Containers: the engine of this machine, its images, one call in a container, and a container that stays and is talked to. The only crate that
//! knows an engine's API.
//!
//! An engine is whatever speaks Docker's API on a unix socket: Docker itself, or podman's service. It starts processes on our
//! behalf with rights that we may not have ourselves, so what may be asked of it is decided in one place (`confine.rs`), and whom we dial
//! in another (`dial.rs`), as `guard` does for processes and connections of our own. Nothing here knows toolsets, chats or trust.

mod call;
mod confine;
mod dial;
mod engine;
mod error;
mod image;
mod logs;
mod nature;
mod packed;
mod removal;
mod result;
mod session;

pub use call::{Ended, Finished, Job};
pub use confine::{Limits, Place, Spec, User};
pub use dial::{Found, sockets};
pub use engine::{BUILDER_LABEL, CALL_LABEL, Engine, HOME_LABEL, NODE_LABEL, TOOLSET_LABEL};
pub use error::EngineError;
pub use image::{Built, Image, Within};
pub use logs::{Line, Stream};
pub use nature::{EngineKind, Unlimited};
pub use packed::{BadName, Packed};
pub use session::{Opened, Session};
