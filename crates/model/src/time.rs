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

    /// The beginning of the hour that it is in.
    pub fn hour(self) -> Self {
        Self(self.0.replace_time(time::Time::MIDNIGHT).saturating_add(time::Duration::hours(self.0.hour().into())))
    }

    /// Before everything that is written down anywhere here.
    pub const EPOCH: Self = Self(OffsetDateTime::UNIX_EPOCH);

    /// So many days earlier.
    pub fn minus_days(self, days: u64) -> Self {
        Self(self.0.saturating_sub(time::Duration::days(i64::try_from(days).unwrap_or(i64::MAX))))
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
        let at = self.0;
        let Some(year) = u16::try_from(at.year()).ok().filter(|year| *year <= 9999) else {
            return f.write_str(&at.format(FORMAT).map_err(|_| fmt::Error)?);
        };
        // By hand: every row has several of these, and a description that is interpreted takes ten times as long.
        let mut text = *b"0000-00-00T00:00:00.000Z";
        let parts: [(usize, usize, u16); 7] = [
            (0, 4, year),
            (5, 2, u8::from(at.month()).into()),
            (8, 2, at.day().into()),
            (11, 2, at.hour().into()),
            (14, 2, at.minute().into()),
            (17, 2, at.second().into()),
            (20, 3, at.millisecond()),
        ];
        for (from, width, mut number) in parts {
            for digit in text[from..from + width].iter_mut().rev() {
                *digit = b'0' + (number % 10) as u8;
                number /= 10;
            }
        }
        f.write_str(str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

/// A text that names no point in time.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("not a time as RFC 3339 writes it, such as 2026-01-02T03:04:05Z")]
pub struct NotATime;

impl FromStr for Timestamp {
    type Err = NotATime;

    fn from_str(text: &str) -> Result<Self, NotATime> {
        let at = OffsetDateTime::parse(text, &Rfc3339).map_err(|_| NotATime)?;
        // The last hours of the year 9999 somewhere are in a year that has no spelling here.
        at.checked_to_offset(UtcOffset::UTC).filter(|at| at.year() >= 0).map(Self::from).ok_or(NotATime)
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
        for wrong in ["", "yesterday", "2026-01-02", "9999-12-31T23:59:59-01:00", "0000-01-01T00:00:00+01:00"] {
            assert_eq!(wrong.parse::<Timestamp>(), Err(NotATime), "{wrong}");
        }
    }

    #[test]
    fn written_by_hand_it_is_what_the_description_says() {
        for seconds in
            [0, 1, 59, 86_399, 951_782_400, 1_763_337_600, 4_102_444_799, 253_402_300_799, -1, -62_135_596_800]
        {
            let at = OffsetDateTime::from_unix_timestamp(seconds).unwrap().replace_millisecond(907).unwrap();
            assert_eq!(Timestamp(at).to_string(), at.format(FORMAT).unwrap());
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let now = Timestamp::now();
        assert_eq!(now.to_string().parse(), Ok(now));
        assert!(now < now.plus_seconds(1));
        let at: Timestamp = "2026-01-02T23:59:59.999Z".parse().unwrap();
        assert_eq!(at.hour().to_string(), "2026-01-02T23:00:00.000Z");
        assert!(Timestamp::EPOCH < now.minus_days(7));
        assert_eq!(
            "2026-03-01T00:00:00Z".parse::<Timestamp>().unwrap().minus_days(1).to_string(),
            "2026-02-28T00:00:00.000Z"
        );
    }
}
