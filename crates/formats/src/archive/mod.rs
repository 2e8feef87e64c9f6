//! ZIP archives: read from hostile hands, written the same way each time.
//!
//! A ZIP says everything twice or three times: in the end record, in the central directory, and before each entry. Programs
//! that believe different ones of these see different files in the same bytes, and that is how a harmless bundle for the
//! reviewer becomes another one for the installer. [`Archive`] therefore compares all of them, demands that the parts lie
//! side by side from the first byte to the last, and refuses the whole archive at the first disagreement: nothing is
//! repaired. Honest archives, as common tools make them, have none.
//!
//! This room knows bytes and names. It opens no file, follows no link, and does not know what a toolset is.

mod end;
mod error;
mod fields;
mod headers;
mod inflate;
mod layout;
mod name;
mod read;
mod record;
mod signature;
mod tree;
mod write;

pub use error::ArchiveError;
pub use read::{Archive, Entry};
pub use signature::strip_signature;
pub use write::{ArchiveWriter, WriteError};

/// How much an archive may ask of its reader.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// The bytes of the archive itself.
    pub packed: u64,
    /// The bytes of all its files together, unpacked.
    pub unpacked: u64,
    /// The number of its files and folders.
    pub entries: usize,
    /// How many times larger than the archive its files may be together. Up to 32 MiB are let pass: so much does no harm,
    /// and honest logs and tables are packed very small.
    pub ratio: u64,
    /// The bytes of one path.
    pub path_bytes: usize,
    /// The names in one path.
    pub depth: usize,
}

impl Limits {
    /// What a toolset's bundle may have.
    pub const BUNDLE: Self =
        Self { packed: 100 << 20, unpacked: 512 << 20, entries: 20_000, ratio: 200, path_bytes: 1024, depth: 64 };
}
