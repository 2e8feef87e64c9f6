//! How the manager goes about its work, and what it asks of others: values of variables and tokens. Where those are kept is
//! not known here.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use kitbag_model::{OrgId, ServerKey};
use url::Url;

use super::leases::Leases;
use crate::auth::Egress;
use crate::connection::{Options, Tokens};

/// Values of variables, by organisation.
pub trait Variables: Send + Sync {
    /// The value; none if it is not set, or if this organisation may not have it. It is asked while something is locked, so
    /// it answers from memory.
    fn get(&self, org: &OrgId, name: &str) -> Option<String>;
}

/// Who has tokens for which server.
pub trait TokenSource: Send + Sync {
    /// What the connection to a server at this address takes its tokens from; none if it has none. Asked like [`Variables`].
    fn tokens(&self, org: &OrgId, key: &ServerKey, url: &Url) -> Option<Arc<dyn Tokens>>;
}

/// How long to wait before trying again.
#[derive(Clone, Debug)]
pub struct Backoff {
    /// After the second failure in a row; the first is followed by a try at once. Doubles each time.
    pub first: Duration,
    /// No wait is longer.
    pub longest: Duration,
    /// A connection that lasted so long makes the failures before it forgotten.
    pub stable: Duration,
    /// How often a server that never worked is tried.
    pub tries: u32,
    /// So many ends within [`Backoff::window`] are a crash loop.
    pub loop_ends: usize,
    /// See [`Backoff::loop_ends`].
    pub window: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(250),
            longest: Duration::from_secs(60),
            stable: Duration::from_secs(30),
            tries: 4,
            loop_ends: 5,
            window: Duration::from_secs(60),
        }
    }
}

/// All that can be chosen.
#[derive(Clone)]
pub struct Settings {
    /// How connections are made.
    pub options: Options,
    /// Whether processes whose configuration says [`Start::Lazily`](super::Start) wait for their first use.
    pub lazy: bool,
    /// When a process that was started lazily and is not used is stopped; none is never.
    pub idle: Option<Duration>,
    /// How often a quiet connection is asked whether it still lives.
    pub health: Duration,
    /// How long the answer to that may take.
    pub pulse: Duration,
    /// After how many missing answers in a row the connection counts as dead.
    pub misses: u32,
    /// How failures are followed by tries.
    pub backoff: Backoff,
    /// The longest that any call may take; one that allows itself less gets less.
    pub longest_call: Duration,
    /// How long a call waits for a server that is being connected.
    pub wait: Duration,
    /// How many processes may be starting at the same time.
    pub starts: usize,
    /// How long a process that is starting counts as that. One that hangs then stands in nobody's way.
    pub place: Duration,
    /// How long a server that says that its tools changed is given to say it again before it is asked.
    pub settle: Duration,
    /// How long at least between two lists of a server that keeps saying that, and how long a list counts as current at least.
    pub relist: Duration,
    /// Whom an organisation may dial, asked for each connection, like [`Variables`]; none: whom the options allow.
    pub egress: Option<Egress>,
    /// Which of several nodes has the processes; none: there is but this one.
    pub leases: Option<Arc<dyn Leases>>,
    /// Values of variables.
    pub variables: Arc<dyn Variables>,
    /// Tokens.
    pub tokens: Option<Arc<dyn TokenSource>>,
}

impl Settings {
    /// Settings for every day.
    pub fn new(options: Options, variables: Arc<dyn Variables>) -> Self {
        Self {
            options,
            lazy: true,
            idle: None,
            health: Duration::from_secs(20),
            pulse: Duration::from_secs(5),
            misses: 2,
            backoff: Backoff::default(),
            longest_call: Duration::from_secs(60 * 60),
            wait: Duration::from_secs(20),
            starts: 8,
            place: Duration::from_secs(2),
            settle: Duration::from_millis(50),
            relist: Duration::from_secs(1),
            egress: None,
            leases: None,
            variables,
            tokens: None,
        }
    }

    /// How connections of an organisation are made now.
    pub(super) fn options_of(&self, org: &OrgId) -> Cow<'_, Options> {
        match &self.egress {
            Some(egress) => Cow::Owned(Options { egress: egress(org), ..self.options.clone() }),
            None => Cow::Borrowed(&self.options),
        }
    }
}
