//! A master key: 32 bytes, how they are written, and a name that tells keys apart without giving them away.

use std::fmt;

use aes_gcm_siv::{Aes256GcmSiv, KeyInit};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

/// How many bytes a key has.
const LENGTH: usize = 32;

/// A key. The cipher wipes its copy when it goes.
pub(crate) struct Key {
    id: KeyId,
    pub(crate) cipher: Aes256GcmSiv,
}

/// The name of a key: part of a hash of it.
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct KeyId(pub(crate) [u8; 8]);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}

/// A text that is no key. What it was is not told: it may nearly be one.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadKey {
    /// Nothing is there.
    #[error("there is no key; write 32 random bytes in base64 or hex, as `openssl rand -hex 32` makes them")]
    Empty,
    /// Neither base64 nor hex.
    #[error("key {0} is neither base64 nor hex; write 32 random bytes, as `openssl rand -hex 32` makes them")]
    Spelling(usize),
    /// Too short or too long.
    #[error("key {number} has {found} bytes; exactly 32 are allowed")]
    Length {
        /// Which of them, counted from 1.
        number: usize,
        /// How many bytes it has.
        found: usize,
    },
    /// All bytes are the same: a place holder that somebody forgot to replace.
    #[error("key {0} is the same byte over and over; write 32 random bytes, as `openssl rand -hex 32` makes them")]
    Weak(usize),
}

impl Key {
    pub(crate) fn new(bytes: &[u8; LENGTH]) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(b"the name of a kitbag master key\0");
        hasher.update(bytes);
        let hash = hasher.finalize();
        let mut id = [0; 8];
        id.copy_from_slice(&hash[..8]);
        Self { id: KeyId(id), cipher: Aes256GcmSiv::new(bytes.into()) }
    }

    pub(crate) fn id(&self) -> KeyId {
        self.id
    }
}

/// A new key as it is written into the file.
pub(crate) fn generate() -> Result<Zeroizing<String>, getrandom::Error> {
    let mut bytes = Zeroizing::new([0; LENGTH]);
    getrandom::fill(bytes.as_mut_slice())?;
    let mut text = Zeroizing::new(String::with_capacity(2 * LENGTH + 1));
    for byte in bytes.iter() {
        for half in [byte >> 4, byte & 15] {
            text.push(char::from_digit(half.into(), 16).expect("half a byte is a hex digit"));
        }
    }
    text.push('\n');
    Ok(text)
}

/// The keys of a text, one a line or with commas between. Lines that begin with `#` are remarks.
pub(crate) fn parse(text: &str) -> Result<Vec<Key>, BadKey> {
    let written = text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'))
        .flat_map(|line| line.split(','))
        .map(str::trim)
        .filter(|key| !key.is_empty());
    let keys = written.enumerate().map(|(index, key)| one(index + 1, key)).collect::<Result<Vec<_>, _>>()?;
    if keys.is_empty() { Err(BadKey::Empty) } else { Ok(keys) }
}

fn one(number: usize, text: &str) -> Result<Key, BadKey> {
    let bytes = decode(text).ok_or(BadKey::Spelling(number))?;
    let bytes: &[u8; LENGTH] =
        bytes.as_slice().try_into().map_err(|_| BadKey::Length { number, found: bytes.len() })?;
    if bytes.iter().all(|byte| *byte == bytes[0]) {
        return Err(BadKey::Weak(number));
    }
    Ok(Key::new(bytes))
}

fn decode(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    // 64 hex digits are also base64, of 48 bytes, which no key has: hex goes first.
    if text.len().is_multiple_of(2) && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
        let pairs = text.as_bytes().chunks_exact(2);
        return pairs
            .map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?))
            .collect::<Option<Vec<_>>>()
            .map(Zeroizing::new);
    }
    [STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD]
        .iter()
        .find_map(|form| form.decode(text).ok())
        .map(Zeroizing::new)
}
