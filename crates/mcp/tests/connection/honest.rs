//! A server that does what it should.

use crate::support::{call, open, text, twin};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn honest() {
    let opened = open(&twin("honest", &[])).await;
    println!("{} {}", opened.connection.protocol_version(), opened.connection.server_info());
    println!("{:?}", opened.connection.tools().await.unwrap());
    let result = opened.connection.call(call("echo", json!({"a": 1}))).await.unwrap();
    assert_eq!(text(&result), "{\"a\": 1}");
    opened.connection.close().await;
    let _ = opened.notices;
}
