//! Whether a call may be made at all: the chat's selectors and, for whoever is bound by them, the organisation's lists.

use kitbag_model::resolution::{ChatSelectors, Lists, Verdict};
use kitbag_model::{Audience, OrgId, ServerId, ToolId};

use crate::api::error::{ApiError, Code};
use crate::toolsets::Toolsets;

/// What a call has to keep within. Nothing, by default.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bounds {
    selectors: Vec<String>,
    lists: Option<Lists>,
}

impl Bounds {
    /// The selectors of a chat.
    pub(crate) fn of_selectors(selectors: &[String]) -> Self {
        Self { selectors: selectors.to_owned(), lists: None }
    }

    /// And the organisation's lists.
    pub(crate) fn with_lists(self, lists: Option<Lists>) -> Self {
        Self { lists: lists.filter(|lists| !lists.say_nothing()), ..self }
    }

    /// Whether a tool, named by its one id, is within. What the lists leave out does not exist for those who are bound by them; what a
    /// chat leaves out is said to be left out.
    pub(crate) async fn check(
        &self,
        toolsets: &Toolsets,
        org: &OrgId,
        audience: Audience,
        id: &ToolId,
    ) -> Result<(), ApiError> {
        match self.lists.is_none() && self.selectors.is_empty() {
            true => Ok(()),
            // Boxed: most calls have nothing to keep within.
            false => Box::pin(self.look(toolsets, org, audience, id)).await,
        }
    }

    async fn look(&self, toolsets: &Toolsets, org: &OrgId, audience: Audience, id: &ToolId) -> Result<(), ApiError> {
        if let Some(lists) = &self.lists {
            let catalogue = toolsets.catalogue_of_names(org, audience).await?;
            let view = catalogue.view();
            if !view.resolve_anyway(lists).0.admits(&view, id) {
                return Err(ApiError::new(Code::ToolNotFound, format!("there is no tool {:?}", id.to_string())));
            }
        }
        if self.selectors.is_empty() {
            return Ok(());
        }
        let verdict = self.selectors(toolsets, org, audience).await?.verdict(id, toolset_of(id));
        let why = match verdict {
            Verdict::In => return Ok(()),
            Verdict::TakenBy(selector) => format!("its selector {selector} takes it away"),
            Verdict::NotListed => "none of its selectors admits it".to_owned(),
        };
        let all = self.selectors.join(", ");
        let message = format!("this chat may not use the tool {id}: {why} (toolSelectors: {all})");
        Err(ApiError::new(Code::Forbidden, message))
    }

    /// The chat's selectors. An old id that several servers could be meant by admits nothing.
    pub(crate) async fn selectors(
        &self,
        toolsets: &Toolsets,
        org: &OrgId,
        audience: Audience,
    ) -> Result<ChatSelectors, ApiError> {
        let mut selectors = ChatSelectors::parse(self.selectors.iter().map(String::as_str));
        let old: Vec<ServerId> = selectors.old_servers();
        if !old.is_empty() {
            let servers = toolsets.catalogue_of_names(org, audience).await?.servers;
            for id in old {
                if servers.iter().filter(|server| server.key.server == id).count() > 1 {
                    selectors.drop_old(&id);
                }
            }
        }
        Ok(selectors)
    }
}

/// The toolset that an id says it is of.
fn toolset_of(id: &ToolId) -> &str {
    match id {
        ToolId::Builtin(_) | ToolId::LegacyMcp { .. } => "builtin",
        ToolId::Toolset { toolset, .. } => toolset.as_str(),
        ToolId::Mcp { server, .. } => server.toolset.as_str(),
    }
}
