//! Runs of agents.

pub(crate) mod apply;
pub(crate) mod call;
pub(crate) mod cancel;
pub(crate) mod create;
pub(crate) mod events;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod retry;
mod view;
pub(crate) mod workspace;

use kitbag_model::run::Run;
use kitbag_model::{Audience, OrgId, RunId};
use serde::Deserialize;
use utoipa::IntoParams;

use super::error::ApiError;
use crate::app::App;

pub(crate) use view::RunView;

/// The path of a run.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct RunPath {
    /// The organisation; `local` in the embedded mode.
    #[allow(dead_code, reason = "the caller's check reads it")]
    org: String,
    /// The run.
    run: String,
}

impl RunPath {
    fn not_found(&self) -> ApiError {
        ApiError::not_found("run", &self.run)
    }

    fn id(&self) -> Result<RunId, ApiError> {
        self.run.parse().map_err(|_| self.not_found())
    }

    /// The run, for who sees it. One of somebody's private toolset is not there for others.
    async fn seen(&self, app: &App, org: &OrgId, audience: Audience) -> Result<Run, ApiError> {
        let run = app.store().read_beside(org).await?.run(self.id()?).await?;
        let sees = |run: &Run| match (run.private_to, audience.only()) {
            (Some(whose), Some(user)) => user == Some(whose),
            _ => true,
        };
        run.filter(sees).ok_or_else(|| self.not_found())
    }
}
