//! Steps in a release build: nothing, at no cost.

use std::fs::File;
use std::io::{self, Write};

/// A step that changes something durable is about to be done. In builds with debug assertions a test can make it fail.
#[inline(always)]
pub const fn step(_name: &'static str) -> io::Result<()> {
    Ok(())
}

#[inline(always)]
pub(crate) fn write(mut file: &File, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes)
}

#[derive(Clone)]
pub(crate) struct Carried;

impl Carried {
    #[inline(always)]
    pub(crate) const fn here() -> Self {
        Self
    }

    #[inline(always)]
    pub(crate) fn during<T>(self, work: impl FnOnce() -> T) -> T {
        work()
    }
}
