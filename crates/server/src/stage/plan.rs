//! The render plan of a call that went well, and can be shown here: of one in a chat, and of one that an agent made elsewhere. A plan is
//! whole or there is none.

use kitbag_model::render_plan::{RenderPlan, Scene};
use kitbag_model::{ChatId, ContentHash, Rendering, ToolId, ToolsetId, WorkPath};
use serde_json::{Map, Value};

use super::{NotShown, Stage};

/// Where a tool sees its workspace, and its toolset's files.
pub(crate) const WORKSPACE: &str = "/workspace";
pub(crate) const TOOLSET: &str = "/toolset";

/// Where what a call left running listens.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ports {
    /// In the network of its chat.
    OfChat,
    /// On a machine that nobody gets to from here.
    OutOfReach,
}

/// A call, as far as it is to be shown.
pub(crate) struct Made<'a> {
    pub(crate) chat: ChatId,
    /// None: nothing more is known of it than its name.
    pub(crate) tool: Option<&'a ToolId>,
    pub(crate) args: &'a Map<String, Value>,
    pub(crate) result: &'a Value,
}

/// A plan that lacks the content of its page.
pub(crate) struct Draft<'a> {
    plan: RenderPlan,
    toolset: Option<&'a ToolsetId>,
}

impl<'a> Draft<'a> {
    pub(crate) fn new(rendering: &Rendering, made: &Made<'a>) -> Result<Self, NotShown> {
        let toolset = match made.tool {
            Some(ToolId::Toolset { toolset, .. }) => Some(toolset),
            Some(ToolId::Mcp { server, .. }) => Some(&server.toolset),
            _ => None,
        };
        let scene = Scene {
            args: made.args,
            result: made.result,
            chat: made.chat,
            workspace: WORKSPACE,
            toolset: toolset.map(|_| TOOLSET),
        };
        Ok(Self { plan: RenderPlan::new(rendering, &scene)?, toolset })
    }

    /// The file that it shows, and the toolset that it is of.
    pub(crate) fn page(&self) -> Option<(&'a ToolsetId, WorkPath)> {
        Some((self.toolset?, self.plan.artifact()?))
    }

    /// The plan. `page` is the content of its file, which the chat has by now; none if there is no such file.
    pub(crate) fn finish(
        mut self,
        stage: &Stage,
        ports: Ports,
        page: Option<ContentHash>,
    ) -> Result<RenderPlan, NotShown> {
        match (self.plan.artifact(), page) {
            (Some(_), Some(hash)) => self.plan.keep_artifact(hash),
            (Some(path), None) => return Err(NotShown::NoSuchPage(path)),
            (None, _) => {}
        }
        stage.check(&self.plan, ports)?;
        Ok(self.plan)
    }
}
