//! Bytes in a bucket of an S3-compatible store: where it is ([`BucketUrl`]), what lies below one prefix of it ([`Folder`]). It
//! knows neither what the bytes are nor whose; every connection is made by `guard`.

mod error;
mod folder;
mod url;
mod wire;

use std::ffi::OsString;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kitbag_guard::dial::EgressPolicy;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::{BackoffConfig, RetryConfig};
use tokio::runtime::Handle;

pub use error::BucketError;
pub use folder::Folder;
pub use url::{BadBucketUrl, BucketUrl};
pub use wire::failures;

/// So often a request that was not answered is made again, and so long that may go on: whoever waits must be told in time.
const RETRIES: usize = 4;
const PATIENCE: Duration = Duration::from_secs(20);

/// A bucket. Clones share its connections.
#[derive(Clone)]
pub struct Bucket {
    store: Arc<AmazonS3>,
    prefix: String,
    runtime: Handle,
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bucket({})", self.prefix)
    }
}

impl Bucket {
    /// A bucket, with credentials, region and endpoint from the variables that other programs know (`AWS_…`), as far as the URL
    /// does not say otherwise. Nothing is dialled yet. Whoever uses it blocking does so beside this runtime.
    pub fn open(url: &BucketUrl, egress: &EgressPolicy, runtime: Handle) -> Result<Self, BucketError> {
        let text = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
        Self::open_with(url, egress, runtime, std::env::vars_os().filter_map(text))
    }

    /// The same, with variables from elsewhere.
    pub fn open_with(
        url: &BucketUrl,
        egress: &EgressPolicy,
        runtime: Handle,
        variables: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, BucketError> {
        let backoff =
            BackoffConfig { init_backoff: Duration::from_millis(50), max_backoff: Duration::from_secs(2), base: 2.0 };
        let retry = RetryConfig { backoff, max_retries: RETRIES, retry_timeout: PATIENCE };
        let mut builder = AmazonS3Builder::new();
        for (name, value) in variables.filter(|(name, _)| name.starts_with("AWS_")) {
            if let Ok(key) = name.to_ascii_lowercase().parse() {
                builder = builder.with_config(key, value);
            }
        }
        let mut builder = builder
            .with_bucket_name(&url.bucket)
            .with_allow_http(true)
            .with_retry(retry)
            .with_http_connector(wire::Connector::new(egress));
        for (key, value) in [(AmazonS3ConfigKey::Endpoint, &url.endpoint), (AmazonS3ConfigKey::Region, &url.region)] {
            if let Some(value) = value {
                builder = builder.with_config(key, value);
            }
        }
        if let Some(is_virtual) = url.is_virtual {
            builder = builder.with_virtual_hosted_style_request(is_virtual);
        }
        let store = builder.build().map_err(BucketError::from)?;
        Ok(Self { store: Arc::new(store), prefix: url.prefix.clone(), runtime })
    }

    /// What lies below a prefix of it, such as `gallery` or `orgs/acme/chats/…`.
    pub fn folder(&self, path: &str) -> Folder {
        let joined = if self.prefix.is_empty() { path.to_owned() } else { format!("{}/{path}", self.prefix) };
        Folder::new(Arc::clone(&self.store), joined, self.runtime.clone())
    }

    /// Asks whether the bucket is there and can be read.
    pub async fn check(&self) -> Result<(), BucketError> {
        self.folder("gallery").is_readable().await
    }
}
