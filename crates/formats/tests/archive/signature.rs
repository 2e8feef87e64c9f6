//! The signature block of an MCP bundle.

use crate::build::{Zip, stored, zip};
use crate::whole;
use kitbag_formats::archive::{Archive, ArchiveError, Limits, strip_signature};

fn block(der: &[u8]) -> Vec<u8> {
    [b"MCPB_SIG_V1", &u32::try_from(der.len()).unwrap().to_le_bytes()[..], der, b"MCPB_SIG_END"].concat()
}

#[test]
fn a_block_behind_the_archive_is_taken_off() {
    let archive = zip([stored("manifest.json", "{}")]);
    for der in [&b"der"[..], b"", b"MCPB_SIG_END", &[0x30; 5000]] {
        let signed = [archive.clone(), block(der)].concat();
        assert!(matches!(Archive::open(&signed, &Limits::BUNDLE), Err(ArchiveError::DataAfter { .. })));
        assert_eq!(strip_signature(&signed), (&archive[..], Some(der)));
    }
}

#[test]
fn a_block_in_the_comment_stays() {
    let signed = Zip { items: vec![stored("manifest.json", "{}")], comment: block(b"der"), ..Zip::default() }.bytes();
    let (archive, signature) = strip_signature(&signed);
    assert_eq!((archive, signature), (&signed[..], Some(&b"der"[..])));
    whole(archive, &Limits::BUNDLE).unwrap();
}

#[test]
fn what_is_no_whole_block_stays_and_is_refused() {
    let archive = zip([stored("manifest.json", "{}")]);
    assert_eq!(strip_signature(&archive), (&archive[..], None));
    assert_eq!(strip_signature(b""), (&b""[..], None));
    let good = block(b"der");
    let mut wrong_length = good.clone();
    wrong_length[11] += 1;
    for tail in [&good[1..], &good[..good.len() - 1], &wrong_length, b"MCPB_SIG_V1MCPB_SIG_END", b"MCPB_SIG_END"] {
        let signed = [&archive[..], tail].concat();
        assert_eq!(strip_signature(&signed), (&signed[..], None));
        assert!(whole(&signed, &Limits::BUNDLE).is_err());
    }
}
