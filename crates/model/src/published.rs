//! What is published: names that everybody may read, and where a copy came from.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::id::text_serde;
use crate::name::ToolsetId;

/// The name of a published toolset, unique among all organisations.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PublicSlug(String);

/// Why a text is no public name.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SlugError {
    /// It breaks the rule for such names. Letters of other alphabets are not taken, so that none can look like another.
    #[error("not a valid public slug: it must match ^[a-z0-9][a-z0-9-]{{2,80}}$")]
    Form,
    /// It would be taken for Kitbag's own, or for a word of an address.
    #[error("\"{0}\" is reserved and cannot be a public slug")]
    Reserved(String),
}

/// What nobody may publish under.
const RESERVED: [&str; 12] =
    ["admin", "adopt", "all", "api", "builtin", "gallery", "kitbag", "local", "mcp", "new", "official", "toolset"];

impl PublicSlug {
    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for PublicSlug {
    type Err = SlugError;

    fn from_str(text: &str) -> Result<Self, SlugError> {
        let plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let bytes = text.as_bytes();
        let form = (3..=81).contains(&bytes.len())
            && bytes.first().is_some_and(plain)
            && bytes.iter().all(|byte| plain(byte) || *byte == b'-');
        if !form {
            return Err(SlugError::Form);
        }
        if RESERVED.contains(&text) { Err(SlugError::Reserved(text.to_owned())) } else { Ok(Self(text.to_owned())) }
    }
}

impl fmt::Display for PublicSlug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

text_serde!(PublicSlug);

/// The published toolset that another one is a copy of.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AdoptedFrom {
    /// Its id where it was published.
    pub toolset_id: ToolsetId,
    /// What it was published as.
    pub public_slug: PublicSlug,
    /// The version that was copied.
    pub version: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slug_has_one_spelling() {
        for good in ["abc", "a-b", "0x1", "a--", &"a".repeat(81)] {
            assert_eq!(good.parse::<PublicSlug>().map(|slug| slug.to_string()), Ok(good.to_owned()));
        }
        for bad in ["", "ab", "-ab", "a_b", "ABC", "a b", "a.b", "аbc", "abc\n", &"a".repeat(82)] {
            assert_eq!(bad.parse::<PublicSlug>(), Err(SlugError::Form), "{bad:?}");
        }
        assert_eq!("kitbag".parse::<PublicSlug>(), Err(SlugError::Reserved("kitbag".to_owned())));
    }
}
