//! A look for work for an executor: which runs that wait it may have, and that it has them.
//!
//! It is a task of its own, so that its executor is heard meanwhile: who waits behind a look is silent for as long, and might lose what it has. And
//! it is small: kinds of runs are looked at and not runs, so many at once, and the next look goes on where this one stopped. So an organisation
//! with any number of runs that fit nobody is one among the others, and keeps none of them waiting.

use std::collections::HashMap;

use kitbag_model::OrgId;
use kitbag_model::run::{Pool, Run};
use kitbag_store::{Claim, StoreError, Waiting};

use super::AgentRuns;
use super::choose::{Plan, Standing};

/// Where the next look goes on.
#[derive(Debug, Default)]
pub(super) struct Bookmarks {
    /// Behind which of an organisation's kinds of runs, where one look did not come to their end.
    kinds: HashMap<OrgId, String>,
    /// Behind which organisation, of those that wait for the operator's executors.
    orgs: Option<OrgId>,
}

/// What a look came to.
#[derive(Debug, Default)]
pub(super) struct Looked {
    /// What the executor has now, and is to be told of.
    pub(super) claimed: Vec<(OrgId, Run)>,
    pub(super) bookmarks: Bookmarks,
    /// When it was given something last, as a number that grows.
    pub(super) given: u64,
}

/// One look.
pub(super) struct Look {
    runs: AgentRuns,
    /// The connection that it is for.
    number: u64,
    /// How it stands with that.
    standing: Standing,
    room: usize,
    bookmarks: Bookmarks,
}

impl Look {
    pub(super) fn new(runs: AgentRuns, number: u64, standing: Standing, room: usize, bookmarks: Bookmarks) -> Self {
        Self { runs, number, standing, room, bookmarks }
    }

    pub(super) async fn look(mut self) -> Result<Looked, StoreError> {
        let claimed = match self.standing.executor.pool {
            Pool::Byon => self.claim(&self.standing.home.clone(), self.room).await?,
            Pool::Managed => self.claim_fairly().await?,
        };
        Ok(Looked { claimed, bookmarks: self.bookmarks, given: self.standing.given })
    }

    /// One of each organisation in turn: who has the fewest comes first, so that nobody's many keep others waiting.
    async fn claim_fairly(&mut self) -> Result<Vec<(OrgId, Run)>, StoreError> {
        let mut system = self.runs.0.store.system().await?;
        let (mut waiting, behind) = system.waiting_for(Pool::Managed, self.bookmarks.orgs.as_ref()).await?;
        drop(system);
        self.bookmarks.orgs = behind;
        let mut claimed = Vec::new();
        while claimed.len() < self.room && !waiting.is_empty() {
            let mut next = waiting.remove(0);
            let one = self.claim(&next.org, 1).await?;
            // Who has nothing for this executor is not asked again until the next look.
            if one.is_empty() {
                continue;
            }
            claimed.extend(one);
            next.held += 1;
            let turn = |one: &Waiting| (one.held, one.oldest);
            let place = waiting.partition_point(|other| turn(other) <= turn(&next));
            waiting.insert(place, next);
        }
        Ok(claimed)
    }

    /// What an organisation has for the executor.
    async fn claim(&mut self, org: &OrgId, room: usize) -> Result<Vec<(OrgId, Run)>, StoreError> {
        let (store, executor) = (self.runs.0.store.clone(), self.standing.executor.clone());
        // A look first: nobody who writes waits for a look.
        let behind = self.bookmarks.kinds.get(org).map(String::as_str);
        let kinds = store.read_beside(org).await?.kinds_for(&executor, behind).await?;
        match kinds.behind {
            Some(behind) => self.bookmarks.kinds.insert(org.clone(), behind),
            None => self.bookmarks.kinds.remove(org),
        };
        if kinds.fitting.is_empty() {
            return Ok(Vec::new());
        }
        let quota = self.runs.0.rules.of(org).await?.executors_in_flight();
        let mut tx = store.write(org).await?;
        let most = match quota {
            Some(quota) => {
                let left = quota.most.saturating_sub(tx.runs_in_flight().await?);
                room.min(usize::try_from(left).unwrap_or(usize::MAX))
            }
            None => room,
        };
        let links = &self.runs.0.links;
        let mut plan = Plan::new(&executor, &self.standing.home, links.standings());
        let claim = Claim { executor: &executor, kinds: &kinds.fitting, most, lease_until: self.runs.lease_until() };
        let mut takes = |run: &Run, config: &_, since| plan.takes(config, run.needs_containers(config), since);
        let claimed = tx.claim_runs(claim, &mut takes).await?;
        // Whoever is gone, or has a newer connection, would never hear of it.
        if !claimed.has_written || !links.is_newest(executor.id, self.number) {
            return Ok(Vec::new());
        }
        tx.commit_chat().await?;
        if claimed.runs.is_empty() {
            return Ok(Vec::new());
        }
        self.standing.given = links.tick();
        self.standing.held += claimed.runs.len();
        for run in &claimed.runs {
            self.runs.tell_state(org, run);
        }
        links.stands(self.number, self.standing.clone());
        if plan.left > 0 {
            // Whoever should take those may have looked before this executor was full.
            self.runs.wake();
        }
        Ok(claimed.runs.into_iter().map(|run| (org.clone(), run)).collect())
    }
}
