//! Which of several executors that could take a run should: the one with the most room, and of those that have the same, the one that
//! was given nothing for longest.
//!
//! Nobody hands out runs: every connection looks for itself. So that they agree without talking, each works out the same plan from the
//! same standings and takes its own part of it. Where they disagree for a moment, the database decides who has a run, and one that
//! nobody took is anybody's after [`PATIENCE`].

use std::sync::Arc;

use kitbag_model::run::{Executor, Pool, RunConfig};
use kitbag_model::{ExecutorId, OrgId, Timestamp};

/// So many seconds a run is left for whoever should take it.
const PATIENCE: u32 = 1;

/// How it stands with an executor that is connected to this server.
#[derive(Clone, Debug)]
pub(super) struct Standing {
    pub(super) executor: Arc<Executor>,
    pub(super) home: OrgId,
    /// How many runs it has.
    pub(super) held: usize,
    /// Whether it may be given something now.
    pub(super) is_open: bool,
    /// When it was given something last, as a number that grows.
    pub(super) given: u64,
}

impl Standing {
    fn has_room(&self) -> bool {
        self.is_open && self.held < self.executor.capacity as usize
    }

    /// Whether it comes before another: by how full both are, compared without dividing.
    fn is_before(&self, other: &Self) -> bool {
        let full = |one: &Self, by: &Self| one.held as u64 * u64::from(by.executor.capacity);
        (full(self, other), self.given, self.executor.id) < (full(other, self), other.given, other.executor.id)
    }
}

/// What one executor takes of the runs that it is shown, oldest first.
pub(super) struct Plan {
    me: ExecutorId,
    all: Vec<Standing>,
    /// What is given next counts as later than all before.
    next: u64,
    now: Timestamp,
    /// How many runs were left for others.
    pub(super) left: usize,
}

impl Plan {
    /// The plan of one of them. Only those compete that the same runs may go to.
    pub(super) fn new(me: &Executor, home: &OrgId, mut all: Vec<Standing>) -> Self {
        let competes = |one: &Standing| one.executor.pool == me.pool && (me.pool == Pool::Managed || one.home == *home);
        all.retain(competes);
        let next = all.iter().map(|one| one.given).max().unwrap_or_default() + 1;
        Self { me: me.id, all, next, now: Timestamp::now(), left: 0 }
    }

    /// Whether the next run is this executor's, which could take it. `contained` says that it needs an engine of containers.
    pub(super) fn takes(&mut self, config: &RunConfig, contained: bool, since: Timestamp) -> bool {
        if since.plus_seconds(PATIENCE) < self.now {
            return true;
        }
        let selector = &config.execution.selector;
        let fits = |one: &&mut Standing| {
            one.has_room()
                && selector.admits(config.engine.id, &one.executor.candidate())
                && (one.executor.containers || !contained)
        };
        let best = self.all.iter_mut().filter(fits).reduce(|best, one| if one.is_before(best) { one } else { best });
        let Some(best) = best else { return true };
        best.held += 1;
        best.given = self.next;
        self.next += 1;
        let is_mine = best.executor.id == self.me;
        self.left += usize::from(!is_mine);
        is_mine
    }
}

#[cfg(test)]
mod tests {
    use kitbag_model::SecretHash;
    use kitbag_model::run::EngineId;
    use kitbag_model::run::wire::FoundEngine;
    use serde_json::json;

    use super::*;

    fn standing(capacity: u32, held: usize) -> Standing {
        let executor = Executor {
            id: ExecutorId::generate(),
            name: "one".to_owned(),
            version: String::new(),
            pool: Pool::Byon,
            labels: Vec::new(),
            engines: vec![FoundEngine { id: EngineId::Codex, version: "1".to_owned() }],
            capacity,
            containers: false,
            hash: SecretHash::from_hex(&"0".repeat(64)).unwrap(),
            created_at: Timestamp::EPOCH,
            last_seen_at: None,
            revoked_at: None,
        };
        Standing { executor: Arc::new(executor), home: OrgId::local(), held, is_open: true, given: 0 }
    }

    /// How many of so many runs each of them takes, if each looks at the same standings.
    fn shares(all: &[Standing], runs: usize, since: Timestamp) -> Vec<usize> {
        let config = json!({ "prompt": "x", "engine": { "id": "gateway.codex.v2" } });
        let config = RunConfig::read(&config).unwrap();
        let share = |one: &Standing| {
            let mut plan = Plan::new(&one.executor, &one.home, all.to_vec());
            (0..runs).filter(|_| plan.takes(&config, false, since)).count()
        };
        all.iter().map(share).collect()
    }

    #[test]
    fn each_takes_its_part_and_all_is_taken() {
        let now = Timestamp::now();
        assert_eq!(shares(&[standing(4, 0), standing(4, 0)], 6, now), [3, 3]);
        assert_eq!(shares(&[standing(4, 2), standing(4, 0)], 2, now), [0, 2], "the emptier first");
        assert_eq!(shares(&[standing(20, 0), standing(2, 0)], 11, now), [10, 1], "as they have room");
        let closed = Standing { is_open: false, ..standing(4, 0) };
        assert_eq!(shares(&[closed, standing(4, 3)], 1, now)[1], 1, "who takes nothing now is not waited for");
        let elsewhere = Standing { home: "acme".parse().unwrap(), ..standing(4, 0) };
        assert_eq!(shares(&[elsewhere, standing(4, 3)], 1, now)[1], 1, "nor who may not take it");
        let recent = Standing { given: 7, ..standing(4, 0) };
        assert_eq!(shares(&[recent, standing(4, 0)], 1, now), [0, 1]);
    }

    #[test]
    fn what_nobody_took_is_anybodys() {
        assert_eq!(shares(&[standing(4, 3), standing(4, 0)], 1, Timestamp::EPOCH), [1, 1]);
    }
}
