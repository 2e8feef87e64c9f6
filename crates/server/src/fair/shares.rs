//! How many of something organisations have open, in the manner of the queue of calls: one that shares the server has at most as many as are
//! still free, so that there is room for whoever comes, and one caller has at most a fixed number, so that it leaves room for its own
//! organisation. Nobody waits.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use kitbag_model::OrgId;

use crate::api::error::{ApiError, Code};
use crate::bounded::one_less;

/// After so many seconds it is worth trying again: streams are closed when somebody goes, which is seldom sooner.
const AGAIN: u32 = 10;

/// What is shared.
pub(crate) struct Shares {
    what: &'static str,
    most: usize,
    most_of_one: usize,
    counted: Arc<Mutex<Counted>>,
}

#[derive(Debug, Default)]
struct Counted {
    all: usize,
    of_org: HashMap<OrgId, usize>,
    of_one: HashMap<(OrgId, String), usize>,
}

/// One of them, for as long as it lives.
#[derive(Debug)]
pub(crate) struct Share {
    one: (OrgId, String),
    counted: Arc<Mutex<Counted>>,
}

impl Shares {
    /// `most` of what is called `what`, of which one caller may have `most_of_one`.
    pub(crate) fn new(what: &'static str, most: usize, most_of_one: usize) -> Self {
        Self { what, most, most_of_one, counted: Arc::default() }
    }

    /// Takes one, for a caller of an organisation.
    pub(crate) fn take(&self, org: &OrgId, who: &str) -> Result<Share, ApiError> {
        let one = (org.clone(), who.to_owned());
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let of_one = counted.of_one.get(&one).copied().unwrap_or_default();
        if of_one >= self.most_of_one {
            return Err(self.too_many(of_one, "this caller", self.most_of_one));
        }
        let left = self.most.saturating_sub(counted.all);
        if left == 0 {
            return Err(self.too_many(counted.all, "all organisations", self.most));
        }
        let of_org = counted.of_org.get(org).copied().unwrap_or_default();
        // The operator's own organisation shares with nobody.
        if *org != OrgId::local() && of_org >= left {
            return Err(self.too_many(of_org, "this organisation", of_org));
        }
        counted.all += 1;
        *counted.of_org.entry(org.clone()).or_default() += 1;
        *counted.of_one.entry(one.clone()).or_default() += 1;
        Ok(Share { one, counted: Arc::clone(&self.counted) })
    }

    fn too_many(&self, has: usize, whose: &str, most: usize) -> ApiError {
        let message = format!(
            "{has} {} of {whose} are open here, and at most {most} may be now; close some, or try again in {AGAIN} seconds",
            self.what
        );
        ApiError::new(Code::RateLimited, message).retry_after(AGAIN)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        counted.all -= 1;
        one_less(&mut counted.of_org, &self.one.0);
        one_less(&mut counted.of_one, &self.one);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_of(shares: &Shares, org: &str, who: &str) -> Vec<Share> {
        let org: OrgId = org.parse().unwrap();
        std::iter::from_fn(|| shares.take(&org, who).ok()).collect()
    }

    #[test]
    fn whoever_takes_all_leaves_room_for_others() {
        let shares = Shares::new("streams", 12, 100);
        let first = all_of(&shares, "acme", "one");
        assert_eq!(first.len(), 6);
        assert_eq!(all_of(&shares, "acme", "another").len(), 0, "whoever asks for it");
        let second = all_of(&shares, "bolt", "one");
        assert_eq!(second.len(), 3);
        let rest = all_of(&shares, "local", "one");
        assert_eq!(rest.len(), 3, "the operator's own takes what is left");
        drop((first, second, rest));
        let counted = shares.counted.lock().unwrap();
        assert!(counted.all == 0 && counted.of_org.is_empty() && counted.of_one.is_empty());
    }

    #[test]
    fn one_caller_leaves_room_for_its_own_organisation() {
        let shares = Shares::new("streams", 100, 3);
        let of_one = all_of(&shares, "local", "one");
        assert_eq!(of_one.len(), 3);
        let (code, message, _) = shares.take(&OrgId::local(), "one").unwrap_err().into_told();
        assert_eq!(code, Code::RateLimited);
        assert!(message.starts_with("3 streams of this caller are open here"), "{message}");
        assert_eq!(all_of(&shares, "local", "another").len(), 3);
        assert_eq!(all_of(&shares, "acme", "one").len(), 3, "another caller of the same name");
    }
}
