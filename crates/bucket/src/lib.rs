//! Bytes in a bucket of an S3-compatible store: where it is ([`BucketUrl`]), what lies below one prefix of it ([`Folder`]). It
//! knows neither what the bytes are nor whose; every connection is made by `guard`.

mod endpoint;
mod error;
mod folder;
mod pace;
mod url;
mod wire;

use std::ffi::OsString;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use folder::Stores;
use kitbag_guard::dial::EgressPolicy;
use object_store::aws::AmazonS3Builder;
use object_store::{BackoffConfig, RetryConfig};
use tokio::runtime::Handle;

pub use error::BucketError;
pub use folder::Folder;
pub use pace::Pace;
pub use url::{BadBucketUrl, BucketUrl};
pub use wire::failures;

/// So often a request that was not answered is made again, as long as there is patience ([`Pace::patience`]).
const RETRIES: usize = 4;

/// A bucket. Clones share its connections.
#[derive(Clone)]
pub struct Bucket {
    stores: Arc<Stores>,
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
        Self::open_at(url, egress, runtime, variables, Pace::default())
    }

    /// The same, more or less patient.
    pub fn open_at(
        url: &BucketUrl,
        egress: &EgressPolicy,
        runtime: Handle,
        variables: impl Iterator<Item = (String, String)>,
        pace: Pace,
    ) -> Result<Self, BucketError> {
        let mut builder = AmazonS3Builder::new();
        for (name, value) in variables.filter(|(name, _)| name.starts_with("AWS_")) {
            if let Ok(key) = name.to_ascii_lowercase().parse() {
                builder = builder.with_config(key, value);
            }
        }
        let builder = endpoint::named(builder, url)?
            .with_bucket_name(&url.bucket)
            .with_allow_http(true)
            .with_http_connector(wire::Connector::new(egress, pace));
        // Whoever sends much waits long anyway; whoever asks for a little is to be told soon that nobody answers.
        let store = |length| {
            let (init_backoff, max_backoff) = (Duration::from_millis(50), Duration::from_secs(2));
            let backoff = BackoffConfig { init_backoff, max_backoff, base: 2.0 };
            let retry = RetryConfig { backoff, max_retries: RETRIES, retry_timeout: pace.patience(length) };
            builder.clone().with_retry(retry).build()
        };
        let stores = Stores::new(store(folder::LITTLE)?, store(folder::PART)?);
        Ok(Self { stores: Arc::new(stores), prefix: url.prefix.clone(), runtime })
    }

    /// What lies below a prefix of it, such as `gallery` or `orgs/acme/chats/…`.
    pub fn folder(&self, path: &str) -> Folder {
        let joined = if self.prefix.is_empty() { path.to_owned() } else { format!("{}/{path}", self.prefix) };
        Folder::new(Arc::clone(&self.stores), joined, self.runtime.clone())
    }

    /// Asks whether the bucket is there and can be read.
    pub async fn check(&self) -> Result<(), BucketError> {
        self.folder("gallery").is_readable().await
    }
}
