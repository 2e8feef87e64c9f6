//! Bytes in a bucket of a real S3 server: several servers that share it, a bucket that goes away, and moving there and back.
#![allow(clippy::unwrap_used, missing_docs)]

mod answered;
mod collecting;
mod going;
mod keeping;
mod kit;
mod leaving;
mod moving;
mod placed;
mod published;
mod sharing;
