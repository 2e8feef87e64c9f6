//! Points in time, to the millisecond, with one spelling: `2026-01-02T03:04:05.678Z`.
//!
//! The fixed width matters: SQLite keeps times as text, and only texts of one width sort like the times they name.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use time::format_description::StaticFormatDescription;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;
use time::{OffsetDateTime, UtcOffset};

use crate::id::text_serde;

const FORMAT: StaticFormatDescription =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");

/// A point in time.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Timestamp(OffsetDateTime);

impl Timestamp {
    /// This moment.
    pub fn now() -> Self {
        OffsetDateTime::now_utc().into()
    }

    /// As the `time` crate has it, always in UTC.
    pub fn as_datetime(self) -> OffsetDateTime {
        self.0
    }

    /// So many seconds later.
    pub fn plus_seconds(self, seconds: u32) -> Self {
        Self(self.0.saturating_add(time::Duration::seconds(seconds.into())))
    }
}

impl From<OffsetDateTime> for Timestamp {
    fn from(at: OffsetDateTime) -> Self {
        let at = at.to_offset(UtcOffset::UTC);
        Self(at.replace_millisecond(at.millisecond()).expect("a millisecond that was read is in range"))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.format(FORMAT).map_err(|_| fmt::Error)?)
    }
}

impl FromStr for Timestamp {
    type Err = time::error::Parse;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        OffsetDateTime::parse(text, &Rfc3339).map(Self::from)
    }
}

text_serde!(Timestamp);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_spelling() {
        for (written, kept) in [
            ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000Z"),
            ("2026-01-02T03:04:05.6789Z", "2026-01-02T03:04:05.678Z"),
            ("2026-01-02T03:04:05.5+02:00", "2026-01-02T01:04:05.500Z"),
        ] {
            assert_eq!(written.parse::<Timestamp>().map(|t| t.to_string()).as_deref(), Ok(kept));
        }
        assert!("yesterday".parse::<Timestamp>().is_err());
    }

    #[test]
    fn what_is_written_is_read_again() {
        let now = Timestamp::now();
        assert_eq!(now.to_string().parse(), Ok(now));
        assert!(now < now.plus_seconds(1));
    }
}
