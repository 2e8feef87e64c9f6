//! Toolsets: what is installed, and how it comes and goes.

mod arrive;
mod body;
pub(crate) mod create;
pub(crate) mod enable;
pub(crate) mod export;
pub(crate) mod file;
pub(crate) mod files;
pub(crate) mod get;
pub(crate) mod import;
pub(crate) mod list;
pub(crate) mod overrides;
pub(crate) mod prepare;
pub(crate) mod publish;
pub(crate) mod skill;
pub(crate) mod trust;
pub(crate) mod uninstall;
pub(crate) mod unpublish;
pub(crate) mod update;
mod view;

use kitbag_model::ToolsetId;
use serde::Deserialize;
use utoipa::IntoParams;

use super::error::{ApiError, Code};

pub(crate) use body::LARGEST;
pub(crate) use view::{ToolsetDetail, ToolsetView};

/// The path of a toolset.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct ToolsetPath {
    /// The organisation; `local` in the embedded mode.
    #[allow(dead_code, reason = "the caller's check reads it")]
    org: String,
    /// The toolset.
    id: String,
}

impl ToolsetPath {
    /// A text that is no id names no toolset.
    pub(crate) fn id(&self) -> Result<ToolsetId, ApiError> {
        self.id.parse().map_err(|_| self.not_found())
    }

    pub(crate) fn not_found(&self) -> ApiError {
        ApiError::new(Code::ToolsetNotFound, format!("there is no toolset {:?}", self.id))
    }
}
