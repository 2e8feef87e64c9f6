//! Archives: what must be refused and why, what must be read, and that what is written comes back.
#![allow(clippy::unwrap_used, missing_docs)]

mod build;
mod content;
mod headers;
mod honest;
mod names;
mod properties;
mod signature;
mod structure;
mod write;

use kitbag_formats::archive::{Archive, ArchiveError, Limits};

/// Opens and unpacks everything.
fn whole(bytes: &[u8], limits: &Limits) -> Result<Vec<(String, Vec<u8>)>, ArchiveError> {
    let archive = Archive::open(bytes, limits)?;
    archive.entries().iter().map(|entry| Ok((entry.path().to_string(), archive.read(entry)?))).collect()
}

/// Each row must be refused with the error of this name, whose sentence fits on a line and shows no control character.
fn refused(rows: Vec<(&str, Vec<u8>, &str)>) {
    for (row, bytes, wanted) in rows {
        refused_within(&Limits::BUNDLE, row, &bytes, wanted);
    }
}

fn refused_within(limits: &Limits, row: &str, bytes: &[u8], wanted: &str) {
    let error = whole(bytes, limits).expect_err(row);
    let debug = format!("{error:?}");
    assert_eq!(debug.split([' ', '(']).next(), Some(wanted), "{row}: {error}");
    let sentence = error.to_string();
    assert!(sentence.len() < 600 && !sentence.contains(char::is_control), "{row}: {sentence:?}");
}
