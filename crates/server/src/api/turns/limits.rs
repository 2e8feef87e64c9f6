//! What a turn may take, as a request says it.

use std::time::Duration;

use serde::Deserialize;
use utoipa::ToSchema;

use crate::api::error::ApiError;
use crate::turns::TurnLimits;

/// What a turn may take.
#[derive(Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = TurnLimits)]
pub(crate) struct LimitsBody {
    /// How often the model is asked at the most: once, and once more after each round of calls.
    #[schema(minimum = 1, maximum = 100, default = 25)]
    max_steps: Option<u32>,
    /// The most tokens of one answer.
    #[schema(minimum = 1, maximum = 200_000, default = 8192)]
    max_output_tokens: Option<u32>,
    /// The turn goes on to no further step when it has read and written so many tokens.
    #[schema(minimum = 1)]
    max_tokens: Option<u64>,
    /// How long all of it may take, waiting for people included.
    #[schema(minimum = 1000, maximum = 3_600_000, default = 900_000)]
    timeout_ms: Option<u64>,
}

impl LimitsBody {
    pub(super) fn check(&self) -> Result<TurnLimits, ApiError> {
        let within = |field: &str, value: u64, least: u64, most: u64| match (least..=most).contains(&value) {
            true => Ok(value),
            false => Err(ApiError::invalid(&format!("limits.{field}"), format!("must be between {least} and {most}"))),
        };
        let steps = within("maxSteps", self.max_steps.unwrap_or(25).into(), 1, 100)?;
        let output = within("maxOutputTokens", self.max_output_tokens.unwrap_or(8192).into(), 1, 200_000)?;
        let tokens = self.max_tokens.map(|tokens| within("maxTokens", tokens, 1, u64::MAX)).transpose()?;
        let time = within("timeoutMs", self.timeout_ms.unwrap_or(900_000), 1000, 3_600_000)?;
        let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        Ok(TurnLimits { steps: small(steps), output_tokens: small(output), tokens, time: Duration::from_millis(time) })
    }
}
