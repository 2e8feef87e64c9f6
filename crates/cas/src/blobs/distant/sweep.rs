//! Taking away what nobody needs: only what lies in generations before the one that is written into.

use std::collections::{HashMap, HashSet};
use std::sync::PoisonError;
use std::time::Duration;

use kitbag_model::ContentHash;

use super::super::depot::Object;
use super::super::pack::Span;
use super::super::{BlobWriter, Blobs, Swept};
use super::DistantBlobs;
use super::known::Key;
use super::writer::DistantWriter;
use crate::error::CasError;

/// What is to go, and what that brings.
#[derive(Default)]
struct Going {
    keys: Vec<String>,
    swept: Swept,
}

impl DistantBlobs {
    pub(super) fn sweep_older(
        &self,
        is_live: &dyn Fn(&ContentHash) -> bool,
        grace: Duration,
    ) -> Result<Swept, CasError> {
        let one = self.fetching.lock().unwrap_or_else(PoisonError::into_inner);
        self.list_anew()?;
        let objects: Vec<(Key, Object)> =
            self.depot.list()?.into_iter().filter_map(|object| Some((object.key.parse().ok()?, object))).collect();
        drop(one);
        let current = self.known().generation;
        let old: Vec<&(Key, Object)> =
            objects.iter().filter(|(key, object)| key.generation() < current && object.age >= grace).collect();
        let mut going = Going::default();
        self.sweep_loose(&objects, &old, is_live, &mut going);
        self.sweep_packs(&objects, &old, is_live, &mut going)?;
        if !going.keys.is_empty() {
            self.depot.remove(going.keys)?;
            self.change_known().forget_places();
        }
        // The copies of what is gone.
        self.local.sweep(is_live, grace)?;
        Ok(going.swept)
    }

    fn sweep_loose(
        &self,
        objects: &[(Key, Object)],
        old: &[&(Key, Object)],
        is_live: &dyn Fn(&ContentHash) -> bool,
        going: &mut Going,
    ) {
        // Of several the newest stays: nobody takes that one away while it is needed.
        let mut newest: HashMap<ContentHash, u64> = HashMap::new();
        for (key, _) in objects {
            if let Key::Loose(generation, hash) = key {
                let known = newest.entry(*hash).or_default();
                *known = (*known).max(*generation);
            }
        }
        for (key, object) in old {
            let Key::Loose(generation, hash) = key else { continue };
            let is_doubled = newest.get(hash).is_some_and(|newest| newest > generation);
            if is_live(hash) && !is_doubled {
                continue;
            }
            going.keys.push(object.key.clone());
            going.swept.bytes += object.size;
            going.swept.blobs += u64::from(!is_doubled);
        }
    }

    fn sweep_packs(
        &self,
        objects: &[(Key, Object)],
        old: &[&(Key, Object)],
        is_live: &dyn Fn(&ContentHash) -> bool,
        going: &mut Going,
    ) -> Result<(), CasError> {
        let packs = self.known().packs.clone();
        let indexed: HashSet<(u64, ContentHash)> = objects.iter().filter_map(|(key, _)| key.index()).collect();
        let writer = DistantWriter::new(self);
        for (key, object) in old {
            let Some(pack @ (generation, name)) = key.pack() else {
                // An index whose pack never came, or went.
                if let Some(index) = key.index()
                    && !objects.iter().any(|(other, _)| other.pack() == Some(index))
                {
                    going.keys.push(object.key.clone());
                }
                continue;
            };
            let Some(rows) = packs.get(&pack) else {
                // Nobody was ever told of what is in it, unless its index is damaged: then it is left for a person to look at.
                if !indexed.contains(&pack) {
                    going.keys.push(object.key.clone());
                }
                continue;
            };
            let (live, dead): (Vec<_>, Vec<_>) = rows.iter().partition(|(hash, _)| is_live(hash));
            let bytes = |rows: &[&(ContentHash, Span)]| rows.iter().map(|(_, span)| span.length).sum::<u64>();
            // Writing the living again to save a few bytes costs more than it brings.
            if dead.is_empty() || (!live.is_empty() && bytes(&dead) < bytes(&live)) {
                continue;
            }
            for (hash, _) in &live {
                writer.push(hash, &self.read(hash)?)?;
            }
            going.keys.extend([object.key.clone(), Key::Index(generation, name).to_string()]);
            going.swept.blobs += dead.len() as u64;
            going.swept.bytes += bytes(&dead);
        }
        // The living are elsewhere before they go.
        Box::new(writer).finish().map(drop)
    }
}
