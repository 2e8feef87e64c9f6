//! Which address requests go to: the endpoint that the URL names and no other, however many the variables have.

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use url::{Host, Url};

use crate::url::BadBucketUrl;
use crate::{BucketError, BucketUrl};

/// An endpoint, as it is written.
pub(crate) fn parse(text: &str) -> Result<Url, BadBucketUrl> {
    let url: Url = text.parse().map_err(|_| BadBucketUrl::Endpoint)?;
    // Errors say which address they are about.
    if !url.username().is_empty() || url.password().is_some() {
        return Err(BadBucketUrl::Credentials);
    }
    let is_http = matches!(url.scheme(), "http" | "https") && url.has_host();
    if !is_http || url.query().is_some() || url.fragment().is_some() {
        return Err(BadBucketUrl::Endpoint);
    }
    Ok(url)
}

/// Says where a bucket is to what has its variables already.
pub(crate) fn named(builder: AmazonS3Builder, url: &BucketUrl) -> Result<AmazonS3Builder, BucketError> {
    const STYLE: AmazonS3ConfigKey = AmazonS3ConfigKey::VirtualHostedStyleRequest;
    const ENDPOINTS: [AmazonS3ConfigKey; 2] = [AmazonS3ConfigKey::S3Endpoint, AmazonS3ConfigKey::Endpoint];
    let of_variables = ENDPOINTS.iter().find_map(|key| builder.get_config_value(key));
    let endpoint = match (&url.endpoint, of_variables) {
        (Some(endpoint), _) => Some(endpoint.clone()),
        (None, Some(text)) => {
            Some(parse(&text).map_err(|bad| BucketError::new(format!("what AWS_ENDPOINT_URL says {bad}")))?)
        }
        (None, None) => None,
    };
    let is_yes = |text: String| matches!(text.to_ascii_lowercase().as_str(), "1" | "true" | "on" | "yes" | "y");
    let is_virtual = url.is_virtual.unwrap_or_else(|| builder.get_config_value(&STYLE).is_some_and(is_yes));
    let mut builder = builder.with_virtual_hosted_style_request(is_virtual);
    if let Some(mut endpoint) = endpoint {
        // The client takes a virtual endpoint to have the bucket in it, and so do variables that say both; our URLs name it beside.
        if is_virtual && (url.endpoint.is_some() || url.is_virtual.is_some()) {
            let host = match endpoint.host() {
                Some(Host::Domain(name)) => format!("{}.{name}", url.bucket),
                _ => {
                    return Err(BucketError::new("an endpoint that is a number has no names below it: use style=path"));
                }
            };
            let bad = |_| BucketError::new(format!("the endpoint {host} is no name of a host"));
            endpoint.set_host(Some(&host)).map_err(bad)?;
        }
        // Both, for the one that is for S3 alone goes first.
        for key in ENDPOINTS {
            builder = builder.with_config(key, endpoint.as_str().trim_end_matches('/'));
        }
    }
    Ok(match &url.region {
        Some(region) => builder.with_region(region),
        None => builder,
    })
}
