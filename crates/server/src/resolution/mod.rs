//! Which tools a client gets here: the organisation's catalogue, its own lists, then those of a request. The rules are the model's; this
//! room knows where tools and lists come from, and refuses to know which protocol asks.

mod bounds;
mod settings;

use std::collections::HashSet;

use kitbag_model::resolution::{ConfiguredServer, Lists, Problems, Reason, Resolved};
use kitbag_model::{Audience, OrgId, ServerKey};
use kitbag_store::StoreError;
use serde_json::json;

pub(crate) use bounds::Bounds;
pub use settings::ResolutionSettings;

use crate::api::error::{ApiError, Code};
use crate::app::App;
use crate::toolsets::{Catalogue, OfferedSkill, Tool, ToolsetError, server_of};

/// What an endpoint has to do with: everything, one toolset, or one server.
#[derive(Clone, Copy)]
#[allow(dead_code, reason = "endpoints of one toolset and of one server ask for the latter two")]
pub(crate) enum Extent<'a> {
    Everything,
    Toolset(&'a str),
    Server(&'a ServerKey),
}

/// What lists leave of a catalogue.
pub(crate) struct Resolution {
    pub(crate) catalogue: Catalogue,
    pub(crate) resolved: Resolved,
    /// What is wrong with the organisation's own lists. They were good when the server started, and hold as far as they can.
    pub(crate) stale: Problems,
}

impl Resolution {
    /// The tools that a client gets, in the order of the catalogue.
    pub(crate) fn tools(&self) -> impl Iterator<Item = &Tool> {
        self.resolved.tools.iter().map(|place| &self.catalogue.tools[*place])
    }

    /// The same, to keep, with the skills that it gets.
    pub(crate) fn into_tools(self) -> (Vec<Tool>, Vec<OfferedSkill>) {
        let Self { catalogue, resolved, .. } = self;
        let tools = catalogue.tools.into_iter().enumerate();
        let tools = tools.filter(|(place, _)| resolved.contains(*place)).map(|(_, tool)| tool).collect();
        let skills = catalogue.skills.into_iter().filter(|skill| resolved.has_skills_of(skill.toolset.as_str()));
        (tools, skills.collect())
    }

    /// Every tool there is with the rule that put it in or out.
    pub(crate) fn reasons(&self) -> impl Iterator<Item = (&Tool, Reason)> {
        let view = self.catalogue.view();
        self.catalogue.tools.iter().enumerate().map(move |(place, tool)| (tool, self.resolved.reason(&view, place)))
    }

    /// The servers that a client may have to do with, in the order of the catalogue: those of its tools, those whose tools may come,
    /// and those that have none and something else.
    pub(crate) fn servers(&self) -> Vec<ServerKey> {
        let with_tools: HashSet<&ServerKey> = self.tools().filter_map(|tool| server_of(&tool.id)).collect();
        let has_to_do = |(place, server): &(usize, &ConfiguredServer)| {
            self.resolved.pending.contains(place)
                || self.resolved.bare.contains(place)
                || with_tools.contains(&server.key)
        };
        let servers = self.catalogue.servers.iter().enumerate().filter(has_to_do);
        servers.map(|(_, server)| server.key.clone()).collect()
    }

    /// Servers without tools that a client gets for what else they have.
    pub(crate) fn bare(&self) -> impl Iterator<Item = &ServerKey> {
        self.resolved.bare.iter().map(|place| &self.catalogue.servers[*place].key)
    }

    /// Servers whose tools nobody has seen yet and of which some may come in.
    pub(crate) fn pending(&self) -> impl Iterator<Item = &ServerKey> {
        self.resolved.pending.iter().map(|place| &self.catalogue.servers[*place].key)
    }
}

/// Why it is not known which tools a client gets.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ResolveError {
    #[error("{0}")]
    Lists(#[from] Problems),
    #[error(transparent)]
    Toolsets(#[from] ToolsetError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<ResolveError> for ApiError {
    fn from(error: ResolveError) -> Self {
        match error {
            ResolveError::Lists(problems) => wrong_lists(&problems),
            ResolveError::Toolsets(error) => error.into(),
            ResolveError::Store(error) => error.into(),
        }
    }
}

/// All that is wrong with the lists of a request.
pub(crate) fn wrong_lists(problems: &Problems) -> ApiError {
    let details = json!({ "problems": problems.messages() });
    ApiError::new(Code::BadRequest, problems.to_string()).with_details(details)
}

impl App {
    /// The lists that hold for everything an organisation serves.
    pub(crate) async fn lists_of(&self, org: &OrgId) -> Result<Lists, StoreError> {
        // The flags of the server are those of the organisation that owns the machine; others have them as settings.
        if *org == OrgId::local() {
            return Ok(self.settings().resolution.lists.clone());
        }
        Ok(self.rules().of(org).await?.lists())
    }

    /// Which tools a client with these lists gets.
    pub(crate) async fn resolve(
        &self,
        org: &OrgId,
        audience: Audience,
        lists: &Lists,
    ) -> Result<Resolution, ResolveError> {
        self.resolve_in(org, audience, Extent::Everything, lists).await
    }

    /// The same on an endpoint that has to do with less than everything.
    pub(crate) async fn resolve_in(
        &self,
        org: &OrgId,
        audience: Audience,
        extent: Extent<'_>,
        lists: &Lists,
    ) -> Result<Resolution, ResolveError> {
        let catalogue = self.toolsets().catalogue(org, audience).await?;
        let view = catalogue.view();
        let (global, stale) = view.resolve_anyway(&self.lists_of(org).await?);
        let allowed = match extent {
            Extent::Everything => global,
            Extent::Toolset(id) => global.only_toolset(&view, id),
            Extent::Server(key) => global.only_server(&view, key),
        };
        let resolved = view.resolve_within(&allowed, lists)?;
        Ok(Resolution { resolved, stale, catalogue })
    }

    /// Whether the server's own lists name what there is. For a start: later they hold as far as they can.
    pub async fn check_lists(&self) -> Result<(), Vec<String>> {
        let (org, lists) = (OrgId::local(), &self.settings().resolution.lists);
        if lists.say_nothing() {
            return Ok(());
        }
        let catalogue = self.toolsets().catalogue_of_names(&org, Audience::Everything).await;
        let catalogue = catalogue.map_err(|error| vec![error.to_string()])?;
        catalogue.view().resolve(lists).map(drop).map_err(|problems| problems.messages())
    }
}
