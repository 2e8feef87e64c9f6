//! An executor that asks for something: proven by its own token, which opens nothing of the API.

use axum::extract::FromRequestParts;
use axum::http::header;
use axum::http::request::Parts;
use kitbag_model::OrgId;
use kitbag_model::run::{Executor, ExecutorToken};

use super::origin::only;
use crate::api::error::{ApiError, Code};
use crate::app::App;

/// An executor, and the organisation that it was paired with.
pub(crate) struct OfExecutor {
    pub(crate) home: OrgId,
    pub(crate) executor: Executor,
}

impl FromRequestParts<App> for OfExecutor {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        // One answer for every way in which it can be wrong.
        let unknown = || ApiError::new(Code::Unauthorized, "this takes the token of an executor that is paired");
        let text = only(&parts.headers, &header::AUTHORIZATION).and_then(|text| text.split_once(' '));
        let (_, token) = text.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).ok_or_else(unknown)?;
        let token: ExecutorToken = token.trim().parse().map_err(|_| unknown())?;
        let found = app.store().read_beside(&token.org).await?.executor(token.id).await?;
        let executor = found.filter(|executor| executor.admits(&token.secret)).ok_or_else(unknown)?;
        Ok(Self { home: token.org, executor })
    }
}
