//! Where bytes are kept.

use kitbag_guard::dial::EgressPolicy;
use kitbag_server::{BlobSettings, Bucket, BucketUrl};
use tokio::runtime::Handle;

use crate::failure::Failure;

/// A bucket, if one is named, and how much copies of what it has may take.
pub(super) fn read(url: Option<&str>, cache: Option<u64>, egress: &EgressPolicy) -> Result<BlobSettings, Failure> {
    let bucket = url.map(|url| open(url, egress)).transpose()?;
    Ok(BlobSettings { bucket, cache_bytes: cache.unwrap_or(BlobSettings::default().cache_bytes) })
}

/// A bucket. Nothing is dialled yet.
pub(crate) fn open(url: &str, egress: &EgressPolicy) -> Result<Bucket, Failure> {
    let url: BucketUrl = url.parse().map_err(|error| Failure::wrong_use(format!("blobs: the address {error}")))?;
    Bucket::open(&url, egress, Handle::current()).map_err(|error| Failure::wrong_use(format!("blobs: {url}: {error}")))
}
