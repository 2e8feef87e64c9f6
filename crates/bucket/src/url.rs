//! `s3://bucket/prefix?endpoint=…&region=…&style=virtual`: where a bucket is.

use std::fmt;
use std::str::FromStr;

use url::Url;

use crate::endpoint;

/// Where a bucket is. Credentials are never part of it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BucketUrl {
    pub(crate) bucket: String,
    pub(crate) prefix: String,
    pub(crate) endpoint: Option<Url>,
    pub(crate) region: Option<String>,
    pub(crate) is_virtual: Option<bool>,
}

/// A text that does not say where a bucket is. It is not repeated: there may be a key in it.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadBucketUrl {
    /// Something else altogether.
    #[error("must be written like s3://bucket/prefix")]
    Form,
    /// A user name or a password.
    #[error("has credentials in it; give them with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")]
    Credentials,
    /// A parameter that nobody knows.
    #[error("has the parameter `{0}`; there are endpoint, region, and style (path or virtual)")]
    Parameter(String),
    /// An endpoint that is none.
    #[error("has an endpoint that is no http or https address")]
    Endpoint,
}

impl FromStr for BucketUrl {
    type Err = BadBucketUrl;

    fn from_str(text: &str) -> Result<Self, BadBucketUrl> {
        let url: Url = text.parse().map_err(|_| BadBucketUrl::Form)?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(BadBucketUrl::Credentials);
        }
        let bucket =
            url.host_str().filter(|_| url.scheme() == "s3" && url.port().is_none()).ok_or(BadBucketUrl::Form)?;
        let is_fine = |part: &str| {
            !matches!(part, "." | "..") && part.chars().all(|c| c.is_ascii_alphanumeric() || "._-=".contains(c))
        };
        let prefix: Vec<&str> = url.path().split('/').filter(|part| !part.is_empty()).collect();
        if url.fragment().is_some() || !prefix.iter().all(|part| is_fine(part)) {
            return Err(BadBucketUrl::Form);
        }
        let mut place = Self {
            bucket: bucket.to_owned(),
            prefix: prefix.join("/"),
            endpoint: None,
            region: None,
            is_virtual: None,
        };
        for (name, value) in url.query_pairs() {
            match (&*name, &*value) {
                ("endpoint", value) => place.endpoint = Some(endpoint::parse(value)?),
                ("region", value) => place.region = Some(value.to_owned()),
                ("style", "path") => place.is_virtual = Some(false),
                ("style", "virtual") => place.is_virtual = Some(true),
                (name, _) => return Err(BadBucketUrl::Parameter(name.to_owned())),
            }
        }
        Ok(place)
    }
}

impl fmt::Display for BucketUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}/{}", self.bucket, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_says_where_a_bucket_is() {
        let place: BucketUrl =
            "s3://files/a/b/?endpoint=http://127.0.0.1:9000/&region=eu-1&style=path".parse().unwrap();
        assert_eq!((place.bucket.as_str(), place.prefix.as_str()), ("files", "a/b"));
        assert_eq!(place.endpoint.as_ref().map(Url::as_str), Some("http://127.0.0.1:9000/"));
        assert_eq!((place.region.as_deref(), place.is_virtual), (Some("eu-1"), Some(false)));
        assert_eq!(place.to_string(), "s3://files/a/b");
        assert_eq!("s3://files".parse::<BucketUrl>().unwrap().prefix, "");
        for (text, wrong) in [
            ("files", BadBucketUrl::Form),
            ("https://files/a", BadBucketUrl::Form),
            ("s3:///a", BadBucketUrl::Form),
            ("s3://files/a%2f..%2fb", BadBucketUrl::Form),
            ("s3://key:secret@files/a", BadBucketUrl::Credentials),
            ("s3://files?secret=x", BadBucketUrl::Parameter("secret".to_owned())),
            ("s3://files?endpoint=ftp://x", BadBucketUrl::Endpoint),
            ("s3://files?endpoint=https://x/?a=b", BadBucketUrl::Endpoint),
            ("s3://files?endpoint=https://key@x", BadBucketUrl::Credentials),
            ("s3://files?endpoint=https://:secret@x", BadBucketUrl::Credentials),
        ] {
            assert_eq!(text.parse::<BucketUrl>(), Err(wrong), "{text}");
        }
    }
}
