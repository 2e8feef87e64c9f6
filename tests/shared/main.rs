//! Bytes in a bucket of a real S3 server: several servers that share it, a bucket that goes away, and moving there and back.
#![allow(clippy::unwrap_used, missing_docs)]

mod answered;
mod collecting;
mod damaged;
mod going;
mod keeping;
mod kit;
#[cfg(debug_assertions)]
mod late;
mod leaving;
mod moving;
mod placed;
mod published;
mod restoring;
mod sharing;
mod shedding;
