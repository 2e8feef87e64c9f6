//! A value of a row, apart from either database, and what rows add up to.

use kitbag_model::Timestamp;
use sha2::{Digest as _, Sha256};

/// What a column has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Text,
    Integer,
    Boolean,
    Bytes,
    Time,
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    Null,
    Text(String),
    Integer(i64),
    Boolean(bool),
    Bytes(Vec<u8>),
    Time(Timestamp),
}

impl Value {
    /// The same, for a column of another kind; none if it cannot have it.
    pub(super) fn to(self, kind: Kind) -> Option<Self> {
        Some(match (self, kind) {
            (Self::Text(text), Kind::Time) => Self::Time(text.parse().ok()?),
            (Self::Time(time), Kind::Text) => Self::Text(time.to_string()),
            (Self::Integer(number @ (0 | 1)), Kind::Boolean) => Self::Boolean(number == 1),
            (Self::Boolean(is), Kind::Integer) => Self::Integer(i64::from(is)),
            (value @ (Self::Null | Self::Text(_)), Kind::Text)
            | (value @ (Self::Null | Self::Integer(_)), Kind::Integer)
            | (value @ (Self::Null | Self::Boolean(_)), Kind::Boolean)
            | (value @ (Self::Null | Self::Bytes(_)), Kind::Bytes)
            | (value @ (Self::Null | Self::Time(_)), Kind::Time) => value,
            _ => return None,
        })
    }
}

/// What rows add up to, in whatever order they come.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Digest([u64; 4]);

impl Digest {
    /// One row more, with its values in the order of their columns' names.
    pub(super) fn add(&mut self, row: &[Value]) {
        let mut hasher = Sha256::new();
        let mut put = |mark: u8, bytes: &[u8]| {
            hasher.update([mark]);
            hasher.update((bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        for value in row {
            match value {
                Value::Null => put(0, &[]),
                Value::Text(text) => put(1, text.as_bytes()),
                Value::Time(time) => put(1, time.to_string().as_bytes()),
                Value::Integer(number) => put(2, &number.to_le_bytes()),
                Value::Boolean(is) => put(2, &i64::from(*is).to_le_bytes()),
                Value::Bytes(bytes) => put(3, bytes),
            }
        }
        let hash: [u8; 32] = hasher.finalize().into();
        for (sum, part) in self.0.iter_mut().zip(hash.chunks_exact(8)) {
            let mut word = [0; 8];
            word.copy_from_slice(part);
            *sum = sum.wrapping_add(u64::from_le_bytes(word));
        }
    }
}
