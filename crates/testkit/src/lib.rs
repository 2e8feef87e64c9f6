//! What tests need from outside: real databases, a real S3 server, the real program, a stand-in for what cannot be had here (models), and
//! an MCP server that keeps what it is sent.
//!
//! Nothing here is skipped when a component is missing: the test fails and says what to install. This crate starts
//! processes and opens databases by itself, which product code may not.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot get what it needs must fail at once"
)]

pub mod behind;
pub mod bucket;
pub mod cluster;
pub mod database;
pub mod endpoint;
pub mod heard;
pub mod model;
pub mod podman;
pub mod program;
pub mod server;
pub mod shelf;

pub use behind::Behind;
pub use bucket::{Gate, TestBucket};
pub use database::TestDatabase;
pub use heard::Heard;
pub use podman::Podman;
pub use program::{Finished, Program};
pub use server::{Answer, Server};

/// The SHA-256 of some bytes, in hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    kitbag_model::ContentHash::of(bytes).to_string()
}

/// Runs one test on both databases: `on_both!(async fn name(database: TestDatabase) { … })`.
#[macro_export]
macro_rules! on_both {
    ($($(#[$attribute:meta])* async fn $name:ident($database:ident: TestDatabase) $body:block)+) => {
        $($(#[$attribute])* mod $name {
            #[allow(unused_imports, clippy::wildcard_imports)]
            use super::*;

            async fn check($database: $crate::TestDatabase) $body

            #[tokio::test(flavor = "multi_thread")]
            async fn sqlite() {
                check($crate::TestDatabase::sqlite()).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn postgres() {
                check($crate::TestDatabase::postgres().await).await;
            }
        })+
    };
}
