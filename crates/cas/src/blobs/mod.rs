//! Blobs: bytes under the name of their hash, written once and never changed.
//!
//! [`Blobs`] is all that the rest knows: whether the bytes lie in files here ([`LocalBlobs`]) or elsewhere, with copies here
//! ([`DistantBlobs`]), is decided behind it.

mod cache;
mod depot;
mod distant;
mod local;
mod pack;
mod writer;

use std::collections::HashSet;
use std::fs::File;
use std::time::Duration;

use kitbag_model::ContentHash;

use crate::error::CasError;

pub use cache::Cache;
pub use depot::{Content, Depot, Object};
pub use distant::DistantBlobs;
pub use local::LocalBlobs;

/// Files up to this size are read whole, and may share a pack with others.
pub const SMALL: u64 = 256 * 1024;

/// A store of blobs. Shared by threads.
pub trait Blobs: Send + Sync {
    /// Whether the blob is there and will be, so that nobody need bring it.
    fn contains(&self, hash: &ContentHash) -> Result<bool, CasError>;

    /// Those of these that are nowhere, looked for anew. Nobody need bring the others: what may be taken away where it lies is brought
    /// to where it stays.
    fn missing(&self, hashes: &[ContentHash]) -> Result<Vec<ContentHash>, CasError> {
        let mut missing = Vec::new();
        for hash in hashes {
            if !self.contains(hash)? {
                missing.push(*hash);
            }
        }
        Ok(missing)
    }

    /// All of its bytes, which have its hash.
    fn read(&self, hash: &ContentHash) -> Result<Vec<u8>, CasError>;

    /// Reads all of it, and fails unless it is there and its bytes have its hash.
    fn verify(&self, hash: &ContentHash) -> Result<(), CasError>;

    /// Opens a blob that is there and whole, to be read in parts. However large it is, little of it is in memory at a time.
    fn open(&self, hash: &ContentHash) -> Result<Box<dyn BlobReader>, CasError>;

    /// Writes its bytes, which have its hash, into a file. On an error the file's content is worthless.
    fn copy_to(&self, hash: &ContentHash, file: &File) -> Result<(), CasError>;

    /// Begins to write. Nothing of it is promised before [`BlobWriter::finish`].
    fn writer<'a>(&'a self) -> Result<Box<dyn BlobWriter + 'a>, CasError>;

    /// Puts a blob in place of one that is missing or damaged, durably, from a file that has its content. Whether it had.
    fn replace(&self, hash: &ContentHash, file: &File) -> Result<bool, CasError>;

    /// The names of all blobs.
    fn list(&self) -> Result<Vec<ContentHash>, CasError>;

    /// Forgets every blob that `is_live` does not want and that is older than `grace`.
    fn sweep(&self, is_live: &dyn Fn(&ContentHash) -> bool, grace: Duration) -> Result<Swept, CasError>;

    /// Says that all of these will be read soon, so that they can be brought together.
    fn expect(&self, _hashes: &[ContentHash]) -> Result<(), CasError> {
        Ok(())
    }

    /// The generation that is written into, where several machines share the blobs; none where one folder has them all.
    fn generation(&self) -> Option<u64> {
        None
    }

    /// From now on this generation is written into, and of what was written before only these are relied on: rows name them.
    fn enter(&self, _generation: u64, _kept: HashSet<ContentHash>) {}
}

/// A blob that is open. It stays readable even if it is forgotten meanwhile.
pub trait BlobReader: Send + Sync {
    /// How many bytes it has.
    fn length(&self) -> u64;

    /// Fills the buffer from `at` on, as far as there is something.
    fn read_at(&self, buffer: &mut [u8], at: u64) -> Result<usize, CasError>;
}

/// Blobs on their way in. Shared by threads.
pub trait BlobWriter: Send + Sync {
    /// Takes a small blob.
    fn put(&self, hash: &ContentHash, bytes: &[u8]) -> Result<(), CasError>;

    /// Takes a file's content, however large, and says how many bytes it has and what their hash is.
    fn put_file(&self, file: &File) -> Result<(u64, ContentHash), CasError>;

    /// Makes everything durable: when it is done, a power cut loses nothing of it. How many bytes were not there before.
    fn finish(self: Box<Self>) -> Result<u64, CasError>;
}

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Swept {
    /// How many blobs were forgotten.
    pub blobs: u64,
    /// How many bytes they had.
    pub bytes: u64,
}
