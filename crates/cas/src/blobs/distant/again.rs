//! What a writer may not rely on, though it is there: it is brought again, into the generation that is written into.

use std::sync::PoisonError;
use std::time::Instant;

use kitbag_model::ContentHash;

use super::super::Blobs;
use super::super::depot::Content;
use super::known::Key;
use super::{AT_ONCE, DistantBlobs};
use crate::error::CasError;

impl DistantBlobs {
    /// Those of these that are nowhere. What may be taken away where it lies is brought again.
    pub(super) fn secure(&self, hashes: &[ContentHash]) -> Result<Vec<ContentHash>, CasError> {
        let asked = Instant::now();
        let mut unsure = self.not_relied_on(hashes);
        if unsure.is_empty() {
            return Ok(unsure);
        }
        // Another machine may have written it since everything was last looked for.
        let one = self.fetching.lock().unwrap_or_else(PoisonError::into_inner);
        if self.known().listed_at.is_none_or(|at| at < asked) {
            self.list_anew()?;
        }
        drop(one);
        unsure = self.not_relied_on(&unsure);
        let mut nowhere = Vec::new();
        for part in unsure.chunks(AT_ONCE) {
            self.bring_again(part, &mut nowhere)?;
        }
        Ok(nowhere)
    }

    fn not_relied_on(&self, hashes: &[ContentHash]) -> Vec<ContentHash> {
        let known = self.known();
        hashes.iter().filter(|hash| !known.is_relied_on(hash)).copied().collect()
    }

    fn bring_again(&self, hashes: &[ContentHash], nowhere: &mut Vec<ContentHash>) -> Result<(), CasError> {
        let generation = self.known().generation;
        self.expect(hashes)?;
        let (mut items, mut brought) = (Vec::new(), Vec::new());
        for hash in hashes {
            // To open what nobody has would list everything once more for each.
            if self.known().place(hash).is_none() && !self.local.contains(hash)? {
                nowhere.push(*hash);
                continue;
            }
            match self.open(hash) {
                Ok(reader) => {
                    items.push((Key::Loose(generation, *hash).to_string(), Content::Reader(reader)));
                    brought.push(*hash);
                }
                Err(CasError::Missing { .. } | CasError::Corrupt { .. }) => nowhere.push(*hash),
                Err(error) => return Err(error),
            }
        }
        if !items.is_empty() {
            self.depot.put(items)?;
        }
        let mut known = self.change_known();
        brought.into_iter().for_each(|hash| known.add_loose(generation, hash));
        Ok(())
    }
}
