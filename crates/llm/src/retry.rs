//! When a provider is asked again: what it says of that, and how long we wait by ourselves.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, header};

use crate::limits::Retry;

/// How long the provider wants to be left alone: seconds, or a date.
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let value = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    // Some write parts of seconds. `try_from` refuses what is negative, endless or no number.
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = httpdate::parse_http_date(value).ok()?;
    // A moment that has passed is now.
    Some(date.duration_since(now).unwrap_or_default())
}

impl Retry {
    /// How long to wait after the attempt of this number (from 1); none: no more. `luck` is from 0 to 1, so that those who were refused
    /// together do not come back together.
    pub(crate) fn pause(&self, attempt: u32, wanted: Option<Duration>, luck: f64) -> Option<Duration> {
        if attempt >= self.attempts {
            return None;
        }
        match wanted {
            Some(wanted) if wanted > self.longest_pause => None,
            // Never sooner than it wants.
            Some(wanted) => Some(wanted + self.first_pause.mul_f64(luck)),
            None => {
                let doubled = 2_u32.saturating_pow(attempt.saturating_sub(1));
                let longest = self.first_pause.saturating_mul(doubled).min(self.longest_pause);
                Some(longest.mul_f64(0.5 + luck / 2.0))
            }
        }
    }
}

/// From 0 to 1. Without randomness nobody is spread, and nothing else is lost.
pub(crate) fn luck() -> f64 {
    getrandom::u32().map_or(1.0, |number| f64::from(number) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn what_a_provider_says() {
        // A second before the date below.
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_776);
        for (value, wanted) in [
            ("7", Some(Duration::from_secs(7))),
            (" 0 ", Some(Duration::ZERO)),
            ("1.5", Some(Duration::from_millis(1500))),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(Duration::from_secs(1))),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Some(Duration::from_secs(1))),
            ("Sun, 06 Nov 1994 08:49:30 GMT", Some(Duration::ZERO)),
            ("-1", None),
            ("NaN", None),
            ("inf", None),
            ("soon", None),
        ] {
            let headers = HeaderMap::from_iter([(header::RETRY_AFTER, HeaderValue::from_static(value))]);
            assert_eq!(retry_after(&headers, now), wanted, "{value}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_are_spread() {
        let retry = Retry { attempts: 6, first_pause: Duration::from_secs(1), longest_pause: Duration::from_secs(6) };
        let pauses = |luck| (1..=6).map(|attempt| retry.pause(attempt, None, luck)).collect::<Vec<_>>();
        let seconds = |all: [u64; 5]| -> Vec<_> {
            all.map(|n| Some(Duration::from_millis(n))).into_iter().chain([None]).collect()
        };
        assert_eq!(pauses(1.0), seconds([1000, 2000, 4000, 6000, 6000]));
        assert_eq!(pauses(0.0), seconds([500, 1000, 2000, 3000, 3000]));
        assert_eq!(Retry { attempts: u32::MAX, ..retry }.pause(u32::MAX - 1, None, 1.0), Some(retry.longest_pause));
    }

    #[test]
    fn a_provider_is_never_asked_sooner_than_it_wants() {
        let retry = Retry { attempts: 2, first_pause: Duration::from_secs(1), longest_pause: Duration::from_secs(6) };
        let seconds = Duration::from_secs;
        assert_eq!(retry.pause(1, Some(seconds(5)), 0.0), Some(seconds(5)));
        assert_eq!(retry.pause(1, Some(seconds(6)), 1.0), Some(seconds(7)));
        assert_eq!(retry.pause(1, Some(seconds(7)), 0.0), None);
        assert_eq!(retry.pause(2, Some(seconds(1)), 0.0), None);
    }
}
