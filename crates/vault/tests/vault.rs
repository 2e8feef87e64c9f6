//! The vault from outside, on real files: what is sealed opens in its place and nowhere else, and a key is never lost.
#![allow(clippy::unwrap_used, missing_docs)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Barrier;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kitbag_model::Secret;
use kitbag_vault::{BadKey, KEY_FILE, UnsealError, Vault, VaultError};

const PLACE: &[&str] = &["local", "token", "github~github"];

fn key(byte: u8) -> Secret {
    let mut bytes = [byte; 32];
    bytes[0] = !byte;
    Secret::new(STANDARD.encode(bytes))
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn given(secret: &Secret) -> Vault {
    Vault::open(folder().path(), Some(secret)).unwrap()
}

#[test]
fn what_is_sealed_opens_again() {
    let vault = given(&key(1));
    for plain in [&b""[..], b"x", &[7; 100_000]] {
        let sealed = vault.seal(PLACE, plain);
        assert_eq!(vault.unseal(PLACE, &sealed).unwrap().as_slice(), plain);
        assert!(!vault.is_stale(&sealed));
    }
    assert_ne!(vault.seal(PLACE, b"same"), vault.seal(PLACE, b"same"));
}

#[test]
fn no_byte_of_it_can_be_changed() {
    let vault = given(&key(1));
    let sealed = vault.seal(PLACE, b"a refresh token");
    for at in 0..sealed.len() {
        for bit in 0..8 {
            let mut changed = sealed.clone();
            changed[at] ^= 1 << bit;
            let error = vault.unseal(PLACE, &changed).unwrap_err();
            match at {
                0 => assert!(matches!(error, UnsealError::Version(_))),
                1..=8 => assert!(matches!(error, UnsealError::OtherKey(_))),
                _ => assert_eq!(error, UnsealError::Damaged, "byte {at}"),
            }
        }
        assert!(vault.unseal(PLACE, &sealed[..at]).is_err(), "cut after {at}");
    }
    let mut longer = sealed.clone();
    longer.push(0);
    assert_eq!(vault.unseal(PLACE, &longer).unwrap_err(), UnsealError::Damaged);
}

#[test]
fn it_opens_only_in_its_place() {
    let vault = given(&key(1));
    let sealed = vault.seal(PLACE, b"secret");
    for other in [
        &["acme", "token", "github~github"][..],
        &["local", "client", "github~github"],
        &["local", "token", "github~other"],
        &["local", "token"],
        &["local", "tokengithub~github"],
        &["local", "tokeng", "ithub~github"],
        &["local", "token", "github~github", ""],
        &[],
    ] {
        assert_eq!(vault.unseal(other, &sealed).unwrap_err(), UnsealError::Damaged, "{other:?}");
    }
}

#[test]
fn another_key_is_told_apart_from_damage() {
    let (one, two) = (given(&key(1)), given(&key(2)));
    let sealed = one.seal(PLACE, b"secret");
    let error = two.unseal(PLACE, &sealed).unwrap_err();
    assert_eq!(error, UnsealError::OtherKey(one.key_id()));
    assert!(error.to_string().contains(&one.key_id().to_string()));
    assert!(!format!("{one:?} {error}").contains(key(1).expose()));
}

#[test]
fn older_keys_open_and_the_first_seals() {
    let old = given(&key(1));
    let sealed = old.seal(PLACE, b"secret");
    let rotated = given(&Secret::new(format!("{}, {}", key(2).expose(), key(1).expose())));
    assert_eq!(rotated.unseal(PLACE, &sealed).unwrap().as_slice(), b"secret");
    assert!(rotated.is_stale(&sealed));
    let again = rotated.seal(PLACE, b"secret");
    assert!(!rotated.is_stale(&again));
    assert!(matches!(old.unseal(PLACE, &again), Err(UnsealError::OtherKey(_))));
}

#[test]
fn the_first_start_makes_a_key_and_later_ones_keep_it() {
    let data = folder();
    let first = Vault::open(data.path(), None).unwrap();
    let sealed = first.seal(PLACE, b"secret");
    let path = data.path().join(KEY_FILE);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    let written = fs::read(&path).unwrap();
    let second = Vault::open(data.path(), None).unwrap();
    assert_eq!(second.unseal(PLACE, &sealed).unwrap().as_slice(), b"secret");
    assert_eq!(fs::read(&path).unwrap(), written);
    assert_eq!(names(data.path()), [KEY_FILE]);
    // What the file has can be given instead, and a key that is given later does not lock out what the file's sealed.
    let text = Secret::new(String::from_utf8(written).unwrap());
    assert_eq!(Vault::open(folder().path(), Some(&text)).unwrap().key_id(), first.key_id());
    let moved = Vault::open(data.path(), Some(&key(3))).unwrap();
    assert_ne!(moved.key_id(), first.key_id());
    assert_eq!(moved.unseal(PLACE, &sealed).unwrap().as_slice(), b"secret");
}

#[test]
fn a_key_that_is_given_is_not_written_down() {
    let data = folder();
    Vault::open(data.path(), Some(&key(1))).unwrap();
    assert!(names(data.path()).is_empty());
}

#[test]
fn many_first_starts_at_once_agree_on_one_key() {
    for _ in 0..20 {
        let data = folder();
        let start = Barrier::new(8);
        let ids: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        start.wait();
                        Vault::open(data.path(), None).unwrap().key_id()
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
        assert_eq!(names(data.path()), [KEY_FILE]);
    }
}

#[test]
fn a_key_that_others_may_read_is_refused() {
    for mode in [0o644, 0o640, 0o604, 0o620, 0o601] {
        let data = folder();
        Vault::open(data.path(), None).unwrap();
        let path = data.path().join(KEY_FILE);
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let error = Vault::open(data.path(), None).unwrap_err();
        assert!(matches!(error, VaultError::Open { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("chmod 600") && text.contains(path.to_str().unwrap()), "{text}");
        assert!(matches!(Vault::open(data.path(), Some(&key(1))), Err(VaultError::Open { .. })));
    }
}

#[test]
fn what_is_no_plain_file_is_refused() {
    let data = folder();
    fs::create_dir(data.path().join(KEY_FILE)).unwrap();
    assert!(matches!(Vault::open(data.path(), None), Err(VaultError::NotAFile(_))));
    let (data, other) = (folder(), folder());
    Vault::open(other.path(), None).unwrap();
    std::os::unix::fs::symlink(other.path().join(KEY_FILE), data.path().join(KEY_FILE)).unwrap();
    assert!(matches!(Vault::open(data.path(), None), Err(VaultError::NotAFile(_))));
}

#[test]
fn a_broken_file_is_told_and_left_as_it_is() {
    for (text, wanted) in [
        ("", BadKey::Empty),
        ("# a remark\n\n", BadKey::Empty),
        ("hello world", BadKey::Spelling(1)),
        ("abcd", BadKey::Length { number: 1, found: 2 }),
        (&"00".repeat(32), BadKey::Weak(1)),
    ] {
        let data = folder();
        let path = data.path().join(KEY_FILE);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        match Vault::open(data.path(), None) {
            Err(VaultError::File { source, .. }) => assert_eq!(source, wanted),
            other => panic!("{other:?}"),
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        assert!(matches!(Vault::open(folder().path(), Some(&Secret::new(text))), Err(VaultError::Given(_))));
    }
}

#[test]
fn every_spelling_of_a_key_is_the_same_key() {
    let bytes: Vec<u8> = (0..32_u8).map(|n| n.wrapping_mul(37).wrapping_add(250)).collect();
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let base64 = STANDARD.encode(&bytes);
    let url = base64.replace('+', "-").replace('/', "_");
    let wanted = given(&Secret::new(hex.clone())).key_id();
    for text in [hex.to_uppercase(), base64.clone(), base64.replace('=', ""), url.clone(), format!("  {url}\n")] {
        assert_eq!(given(&Secret::new(text)).key_id(), wanted);
    }
}

#[test]
fn no_data_folder_is_a_clear_error() {
    let error = Vault::open(&folder().path().join("nowhere"), None).unwrap_err();
    assert!(error.to_string().starts_with("cannot make the master key"), "{error}");
}

fn names(folder: &Path) -> Vec<String> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}
