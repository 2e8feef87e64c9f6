//! Which address a bucket is looked for at, for each way to say it. Everything goes through a proxy that writes down what it is asked for, so
//! that no name has to lead anywhere.
#![allow(clippy::unwrap_used, missing_docs)]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

use kitbag_bucket::{Bucket, BucketError};
use kitbag_guard::dial::EgressPolicy;
use tokio::runtime::Handle;

const KEYS: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", "somebody"), ("AWS_SECRET_ACCESS_KEY", "a-secret")];

fn open(url: &str, variables: &[(&str, &str)], egress: &EgressPolicy) -> Result<Bucket, BucketError> {
    let variables = KEYS.iter().chain(variables).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Bucket::open_with(&url.parse().unwrap(), egress, Handle::current(), variables)
}

/// The address that is asked for, without its query.
async fn asked(url: &str, variables: &[(&str, &str)]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let heard = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map(Result::unwrap);
        let first = lines.next().unwrap();
        lines.find(String::is_empty).unwrap();
        stream.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
        first
    });
    let egress = EgressPolicy { proxy: Some(proxy), ..EgressPolicy::default() };
    open(url, variables, &egress).unwrap().check().await.unwrap_err();
    let first = tokio::task::spawn_blocking(|| heard.join().unwrap()).await.unwrap();
    let address = first.split(' ').nth(1).unwrap();
    address.split('?').next().unwrap().trim_end_matches('/').to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_that_is_named_is_the_one_that_is_asked() {
    let (one, virtually) =
        ("s3://files?endpoint=http://one.test:9000", "s3://files?endpoint=http://one.test:9000&style=virtual");
    let (any, for_s3) = (("AWS_ENDPOINT_URL", "http://any.test"), ("AWS_ENDPOINT_URL_S3", "http://s3.test"));
    let style = ("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "true");
    let with_path = "s3://files?endpoint=http://one.test/below/";
    for (url, variables, address) in [
        (one, &[][..], "http://one.test:9000/files"),
        (one, &[any], "http://one.test:9000/files"),
        (one, &[for_s3], "http://one.test:9000/files"),
        (one, &[any, for_s3], "http://one.test:9000/files"),
        (virtually, &[], "http://files.one.test:9000"),
        (virtually, &[any, for_s3], "http://files.one.test:9000"),
        (one, &[style], "http://files.one.test:9000"),
        ("s3://files?endpoint=http://one.test:9000&style=path", &[style], "http://one.test:9000/files"),
        (with_path, &[], "http://one.test/below/files"),
        ("s3://files?style=virtual&endpoint=http://one.test/below/", &[], "http://files.one.test/below"),
        ("s3://files", &[any], "http://any.test/files"),
        ("s3://files", &[any, for_s3], "http://s3.test/files"),
        ("s3://files?style=virtual", &[for_s3], "http://files.s3.test"),
        // Who says both in variables says it as other programs take it.
        ("s3://files", &[("AWS_ENDPOINT_URL", "http://files.any.test"), style], "http://files.any.test"),
        ("s3://files?region=eu-1", &[], "s3.eu-1.amazonaws.com:443"),
        ("s3://files?region=eu-1&style=virtual", &[], "files.s3.eu-1.amazonaws.com:443"),
    ] {
        assert_eq!(asked(url, variables).await, address, "{url} with {variables:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_cannot_be_is_refused_and_no_secret_of_it_told() {
    let refused =
        |url: &str, variables: &[(&str, &str)]| open(url, variables, &EgressPolicy::default()).unwrap_err().to_string();
    let told = refused("s3://files", &[("AWS_ENDPOINT_URL", "https://key:hidden@any.test")]);
    assert!(told.contains("has credentials in it") && !told.contains("hidden"), "{told}");
    let told = refused("s3://files?style=virtual&endpoint=http://127.0.0.1:9000", &[]);
    assert!(told.contains("style=path"), "{told}");
    assert!(refused("s3://files", &[("AWS_ENDPOINT_URL_S3", "somewhere")]).contains("no http or https address"));
}
