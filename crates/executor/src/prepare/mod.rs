//! Everything before a model is asked, in this order: the run's folder, its skills, the values of variables, the names of servers.
//! Whatever is wrong ends the attempt here.

mod folder;
mod images;
mod program;
mod servers;
mod skills;
mod variables;

use std::future::Future;

use kitbag_model::ContentHash;

pub use folder::RunFolder;
pub use images::{Whose, forget, image};
pub use program::stage_program;
pub use servers::{How, OWN_SERVER, Ready, ReadyServers};
pub use skills::{stage, unstage};
pub use variables::Variables;

use crate::Failure;

/// Where the content of files is, by its hash.
pub trait Files {
    /// What has this hash.
    fn get(&self, hash: ContentHash) -> impl Future<Output = Result<Vec<u8>, Failure>> + Send;
}
