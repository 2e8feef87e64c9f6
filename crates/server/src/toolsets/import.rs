//! Installing a bundle that has arrived, or saying what that would change.

use kitbag_formats::import::Kind;
use kitbag_model::{
    Action, AdoptedFrom, ContentHash, Install, InstalledContainer, OrgId, SourceType, ToolsetId, Visibility,
};
use serde_json::json;
use tracing::Instrument;

use super::install::{Rows, Yes, lowered, refuse_literals};
use super::{Parcel, Plan, ShownImages, ToolsetError, Toolsets, VersionChange};
use crate::access::caller::Author;

/// How to install.
#[derive(Clone, Debug)]
pub(crate) struct Import {
    pub(crate) source_type: SourceType,
    pub(crate) source_ref: Option<String>,
    /// The toolset that it must be, if it is to take the place of one.
    pub(crate) only: Option<ToolsetId>,
    /// What it must be, if somebody has looked at it before.
    pub(crate) digest: Option<ContentHash>,
    /// Only say what would change.
    pub(crate) dry_run: bool,
    /// The caller has seen what the servers run, and lets them.
    pub(crate) trust: bool,
    /// The images of containers that they were shown. One that means another image than before is trusted if it is among them.
    pub(crate) images: ShownImages,
    /// Install an older version over a newer one.
    pub(crate) force: bool,
    /// Who sees it, if there is none of its id yet.
    pub(crate) visibility: Visibility,
    /// The published toolset that it is a copy of.
    pub(crate) adopted_from: Option<AdoptedFrom>,
    /// Who installs it.
    pub(crate) by: Author,
}

/// What was done, or would be.
pub(crate) struct Imported {
    pub(crate) id: ToolsetId,
    pub(crate) plan: Plan,
    pub(crate) parcel: Parcel,
    /// The containers that it had before.
    pub(crate) containers: Vec<InstalledContainer>,
}

impl Toolsets {
    /// Installs a bundle, all of it or nothing. Once begun it is done to its end, even if the caller goes away.
    pub(crate) async fn import(&self, org: &OrgId, parcel: Parcel, how: Import) -> Result<Imported, ToolsetError> {
        let (toolsets, org) = (self.clone(), org.clone());
        let work = async move { toolsets.do_import(&org, parcel, how).await };
        tokio::spawn(work.in_current_span()).await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }

    async fn do_import(&self, org: &OrgId, mut parcel: Parcel, how: Import) -> Result<Imported, ToolsetError> {
        let id = parcel.bundle.definition.id.clone();
        if let Some(wanted) = how.only.filter(|wanted| *wanted != id) {
            return Err(ToolsetError::Another { wanted, found: id });
        }
        if how.digest.is_some_and(|looked_at| looked_at != parcel.digest) {
            return Err(ToolsetError::Changed);
        }
        if parcel.kind != Kind::Toolset {
            for server in &mut parcel.bundle.definition.servers {
                server.launch = lowered(org, server.launch.clone());
            }
        }
        let definition = &parcel.bundle.definition;
        refuse_literals(org, &definition.servers, &definition.containers)?;
        let _turn = self.turn(org, &id).await;
        let before = self.store.read_beside(org).await?.installed(&id).await?;
        // A copy takes nobody's place.
        if how.adopted_from.is_some() && before.is_some() {
            return Err(ToolsetError::Taken(id));
        }
        let plan = Plan::new(&parcel.bundle, before.as_ref());
        let containers = before.as_ref().map(|before| before.containers.clone()).unwrap_or_default();
        if before.as_ref().is_some_and(|before| before.toolset.user_mcp) {
            return Err(ToolsetError::IsServer(id));
        }
        if before.as_ref().is_some_and(|before| before.toolset.is_published()) {
            return Err(ToolsetError::Published);
        }
        if how.dry_run {
            return Ok(Imported { id, plan, parcel, containers });
        }
        if let (VersionChange::Downgrade, false, Some(installed)) = (plan.change, how.force, &plan.installed) {
            let offered = parcel.bundle.definition.version.clone();
            return Err(ToolsetError::Downgrade { id, installed: installed.clone(), offered });
        }
        let (staged, parcel) = self.stage(org, move |place| parcel.unpack(place).map(|()| parcel)).await?;
        let new = Install {
            definition: parcel.bundle.definition.clone(),
            skills: parcel.bundle.skills.clone(),
            files: parcel.files.clone(),
            source_type: how.source_type,
            source_ref: how.source_ref,
            generation: Some(staged.generation().to_owned()),
            user_mcp: false,
            visibility: how.visibility,
            adopted_from: how.adopted_from,
            by: how.by.user,
        };
        let rows = Rows {
            replaces: before.as_ref().map(|before| &before.toolset),
            visibility: None,
            yes: if how.trust { Yes::All(how.images) } else { Yes::Nothing },
            switched_servers: Vec::new(),
            switched_skills: Vec::new(),
            action: if new.adopted_from.is_some() { Action::ToolsetAdopted } else { Action::ToolsetImported },
            details: json!({
                "version": new.definition.version, "source": new.source_type.as_str(), "trusted": how.trust,
                "adoptedFrom": new.adopted_from,
            }),
            new: &new,
        };
        self.write_rows(org, &how.by, rows).await?;
        self.settle(org, &id, staged).await;
        Ok(Imported { id, plan, parcel, containers })
    }
}
