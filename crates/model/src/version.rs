//! Versions of toolsets, as <https://semver.org> defines them.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::id::text_serde;

/// Why a text is not a version.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("not a semantic version: it must look like 1.0.0 or 2.1.0-beta.1 and have at most {most} characters", most = Version::LONGEST)]
pub struct VersionError;

/// A semantic version.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Version(semver::Version);

impl Version {
    /// How many characters it may have.
    pub const LONGEST: usize = 128;

    /// How this one stands to another. Build metadata (`+abc`) says nothing about which is newer.
    pub fn precedence(&self, other: &Self) -> Ordering {
        self.0.cmp_precedence(&other.0)
    }

    /// The least one that is newer than this and every preliminary form of it.
    pub fn next_patch(&self) -> Self {
        Self(semver::Version::new(self.0.major, self.0.minor, self.0.patch.saturating_add(1)))
    }

    /// Whether installing this one over `installed` would be a step back.
    pub fn is_older_than(&self, installed: &Self) -> bool {
        self.precedence(installed) == Ordering::Less
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Version {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        if text.len() > Self::LONGEST {
            return Err(VersionError);
        }
        semver::Version::parse(text).map(Self).map_err(|_| VersionError)
    }
}

text_serde!(Version);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        for good in ["1.0.0", "0.0.1", "10.20.30-beta.1", "1.0.0+build.5", "1.0.0-rc.1+exp.sha"] {
            assert_eq!(good.parse::<Version>().map(|version| version.to_string()), Ok(good.to_owned()));
        }
        let long = format!("1.0.0-{}", "a".repeat(128));
        for bad in ["", "1", "1.0", "v1.0.0", "1.0.0.0", "01.0.0", " 1.0.0", "1.0.0-", "latest", "1.0.0-a_b", &long] {
            assert_eq!(bad.parse::<Version>(), Err(VersionError), "{bad:?}");
        }
    }

    #[test]
    fn the_next_patch_is_newer() {
        for (before, after) in [("1.0.0", "1.0.1"), ("1.2.9-beta.1", "1.2.10"), ("0.0.1+build", "0.0.2")] {
            let version: Version = before.parse().unwrap();
            assert_eq!(version.next_patch().to_string(), after);
            assert!(version.is_older_than(&version.next_patch()));
        }
    }

    #[test]
    fn order() {
        let version = |text: &str| text.parse::<Version>().unwrap();
        let ascending = ["0.9.0", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-beta", "1.0.0", "1.0.10", "1.2.0", "10.0.0"];
        for pair in ascending.windows(2) {
            assert!(version(pair[0]).is_older_than(&version(pair[1])), "{pair:?}");
            assert!(!version(pair[1]).is_older_than(&version(pair[0])), "{pair:?}");
        }
        assert!(!version("1.0.0+a").is_older_than(&version("1.0.0+b")));
        assert!(!version("1.0.0+b").is_older_than(&version("1.0.0+a")));
    }
}
