//! Where bytes are kept.

use kitbag_guard::dial::EgressPolicy;
use kitbag_server::{BlobSettings, Bucket, BucketUrl};
use tokio::runtime::Handle;

use crate::failure::Failure;

/// A bucket, if one is named, and how much may take here what it has: copies, and workspaces that are laid out.
pub(super) fn read(
    url: Option<&str>,
    (copies, laid_out): (Option<u64>, Option<u64>),
    egress: &EgressPolicy,
) -> Result<BlobSettings, Failure> {
    let bucket = url.map(|url| open(url, egress)).transpose()?;
    let usual = BlobSettings::default();
    let cache_bytes = copies.unwrap_or(usual.cache_bytes);
    Ok(BlobSettings { bucket, cache_bytes, workspace_bytes: laid_out.unwrap_or(usual.workspace_bytes) })
}

/// A bucket. Nothing is dialled yet.
pub(crate) fn open(url: &str, egress: &EgressPolicy) -> Result<Bucket, Failure> {
    let url: BucketUrl = url.parse().map_err(|error| Failure::wrong_use(format!("blobs: the address {error}")))?;
    Bucket::open(&url, egress, Handle::current()).map_err(|error| Failure::wrong_use(format!("blobs: {url}: {error}")))
}
