//! Where blobs are kept that are not kept here: whole files under keys. What a key means is [`super::DistantBlobs`]'s; how the
//! bytes travel is the implementation's, in another crate.

use std::fs::File;
use std::time::Duration;

use super::BlobReader;
use crate::error::CasError;

/// The place of one chat in a store elsewhere. Its functions block.
pub trait Depot: Send + Sync {
    /// Everything that is there.
    fn list(&self) -> Result<Vec<Object>, CasError>;

    /// Puts these, many at a time. What has a key already stays as it is. When it is done, all are there for good.
    fn put(&self, items: Vec<(String, Content)>) -> Result<(), CasError>;

    /// The same, in place of what has the key.
    fn replace(&self, key: String, content: Content) -> Result<(), CasError>;

    /// Brings these, many at a time, each into its file. Which of them were there.
    fn get(&self, wanted: Vec<(String, &File)>) -> Result<Vec<bool>, CasError>;

    /// Takes these away. One that is not there is no error.
    fn remove(&self, keys: Vec<String>) -> Result<(), CasError>;
}

/// Something that is there.
#[derive(Clone, Debug)]
pub struct Object {
    /// Its key.
    pub key: String,
    /// How many bytes it has.
    pub size: u64,
    /// How long ago it was put there.
    pub age: Duration,
}

/// What is to be put somewhere.
pub enum Content {
    /// A few bytes.
    Bytes(Vec<u8>),
    /// However many, read in parts.
    Reader(Box<dyn BlobReader>),
}
