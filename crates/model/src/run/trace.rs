//! Where in somebody's trace a run is.

use serde::{Deserialize, Serialize};

/// The W3C's two values, as they travel.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Trace {
    /// The trace, and the part of it that led here.
    pub traceparent: String,
    /// What other programs want to be told again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<String>,
}
