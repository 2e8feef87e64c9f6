//! The door of this crate.

use std::sync::Arc;

use futures_util::stream::unfold;
use futures_util::{Stream, StreamExt};
use kitbag_guard::dial::EgressPolicy;

use crate::answer::{self, Answer, AnswerLimits};
use crate::ask::Ask;
use crate::clients::Clients;
use crate::error::LlmError;
use crate::heard::Heard;
use crate::hearing::Hearing;
use crate::limits::Limits;
use crate::list;
use crate::provider::Provider;
use crate::question::Question;

/// What asks models. A copy shares the connections.
#[derive(Clone, Debug)]
pub struct Models {
    pub(crate) policy: Arc<EgressPolicy>,
    pub(crate) limits: Limits,
    pub(crate) clients: Arc<Clients>,
}

impl Models {
    /// Asks providers that the policy lets us reach, within these limits. Nothing is dialled yet.
    pub fn new(policy: EgressPolicy, limits: Limits) -> Self {
        Self { policy: Arc::new(policy), limits, clients: Arc::default() }
    }

    /// The same for somebody whose policy is another.
    pub fn under(&self, policy: EgressPolicy) -> Self {
        Self { policy: Arc::new(policy), ..self.clone() }
    }

    /// The same with other limits.
    pub fn within(&self, limits: Limits) -> Self {
        Self { limits, ..self.clone() }
    }

    /// Asks, and gives out the answer as it comes. Nothing happens until the first item is waited for. The last item is
    /// [`Heard::Done`] or an error; whoever drops the stream before closes the connection, and the provider stops.
    pub fn stream(
        &self,
        provider: &Provider,
        ask: &Ask,
    ) -> impl Stream<Item = Result<Heard, LlmError>> + Send + Unpin + use<> {
        let hearing = Hearing::new(Question::ask(self, provider, ask));
        let heard = unfold(hearing, async |mut hearing| hearing.next().await.map(|heard| (heard, hearing)));
        // Fused: who waits for more after the end must not be punished with a panic.
        Box::pin(heard.fuse())
    }

    /// Asks, and waits for the words of the answer. Calls of tools are not in it.
    pub async fn answer(&self, provider: &Provider, ask: &Ask, limits: AnswerLimits) -> Result<Answer, LlmError> {
        answer::gather(self.stream(provider, ask), limits).await
    }

    /// The names of the provider's models, as it lists them.
    pub async fn list(&self, provider: &Provider) -> Result<Vec<String>, LlmError> {
        list::list(self, provider).await
    }
}
