//! Installing a bundle: the files first, then the rows, then the files move to their place.

use kitbag_model::{
    AdoptedFrom, ContentHash, Install, Launch, McpServer, OrgId, SourceType, ToolsetId, Visibility, installed,
};
use serde_json::json;
use tracing::Instrument;

use super::{Parcel, Plan, ToolsetError, Toolsets, VersionChange, blocking};
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
}

impl Toolsets {
    /// Installs a bundle, all of it or nothing. Once begun it is done to its end, even if the caller goes away.
    pub(crate) async fn import(&self, org: &OrgId, parcel: Parcel, how: Import) -> Result<Imported, ToolsetError> {
        let (toolsets, org) = (self.clone(), org.clone());
        let work = async move { toolsets.do_import(&org, parcel, how).await };
        tokio::spawn(work.in_current_span()).await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }

    async fn do_import(&self, org: &OrgId, parcel: Parcel, how: Import) -> Result<Imported, ToolsetError> {
        let id = parcel.bundle.definition.id.clone();
        if let Some(wanted) = how.only.filter(|wanted| *wanted != id) {
            return Err(ToolsetError::Another { wanted, found: id });
        }
        if how.digest.is_some_and(|looked_at| looked_at != parcel.digest) {
            return Err(ToolsetError::Changed);
        }
        let literals = literals(&parcel.bundle.definition.servers);
        if *org != OrgId::local() && !literals.is_empty() {
            return Err(ToolsetError::Literal(literals));
        }
        let _turn = self.turn(org, &id).await;
        let before = self.store.read_beside(org).await?.installed(&id).await?;
        // A copy takes nobody's place.
        if how.adopted_from.is_some() && before.is_some() {
            return Err(ToolsetError::Taken(id));
        }
        let plan = Plan::new(&parcel.bundle, before.as_ref());
        if before.as_ref().is_some_and(|before| before.toolset.user_mcp) {
            return Err(ToolsetError::IsServer(id));
        }
        if how.dry_run {
            return Ok(Imported { id, plan, parcel });
        }
        if let (VersionChange::Downgrade, false, Some(installed)) = (plan.change, how.force, &plan.installed) {
            let offered = parcel.bundle.definition.version.clone();
            return Err(ToolsetError::Downgrade { id, installed: installed.clone(), offered });
        }
        let shelf = self.shelf(org);
        let place = shelf.clone();
        let (parcel, staged) = blocking(move || {
            let staged = place.stage()?;
            parcel.unpack(&staged)?;
            Ok::<_, ToolsetError>((parcel, staged))
        })
        .await?;
        let generation = staged.generation().to_owned();
        let new = Install {
            definition: parcel.bundle.definition.clone(),
            skills: parcel.bundle.skills.clone(),
            files: parcel.files.clone(),
            source_type: how.source_type,
            source_ref: how.source_ref,
            generation: Some(generation.clone()),
            user_mcp: false,
            visibility: how.visibility,
            adopted_from: how.adopted_from,
            by: how.by.user,
        };
        let replaces = before.map(|before| before.toolset.generation);
        self.write_rows(org, &how.by.who, &new, replaces.as_ref(), how.trust).await?;
        staged.keep();
        // The rows are the truth from here on; if this fails, the next start does it.
        let settled = id.clone();
        if let Err(error) = blocking(move || shelf.settle(&settled, &generation)).await {
            tracing::warn!(%error, toolset = %id, "the files of a toolset are not at their place yet");
        }
        Ok(Imported { id, plan, parcel })
    }

    async fn write_rows(
        &self,
        org: &OrgId,
        who: &str,
        new: &Install,
        replaces: Option<&Option<String>>,
        trust: bool,
    ) -> Result<(), ToolsetError> {
        let mut tx = self.store.write(org).await?;
        tx.install_toolset(new, replaces).await?;
        if trust {
            let definition = &new.definition;
            for server in &definition.servers {
                tx.trust(&definition.id, server.id.as_str(), &server.fingerprint()).await?;
            }
            let itself = installed::trust_fingerprint(
                &definition.id,
                &definition.tools,
                &definition.overrides,
                definition.permissions,
            );
            tx.trust(&definition.id, "", &itself).await?;
        }
        let definition = &new.definition;
        let details = json!({
            "version": definition.version, "source": new.source_type.as_str(), "trusted": trust, "adoptedFrom": new.adopted_from,
        });
        let action = if new.adopted_from.is_some() { "toolset.adopted" } else { "toolset.imported" };
        tx.audit(who, action, definition.id.as_str(), &details).await?;
        Ok(tx.commit().await?)
    }
}

/// The variables and headers whose value is not one reference and nothing else. They are named, not shown.
pub(super) fn literals(servers: &[McpServer]) -> Vec<String> {
    let mut found = Vec::new();
    for server in servers {
        let (part, values) = match &server.launch {
            Launch::Stdio { env, .. } => ("env", env),
            Launch::Remote { headers, .. } => ("headers", headers),
        };
        let literal = values.iter().filter(|(_, value)| !value.is_whole());
        found.extend(literal.map(|(name, _)| format!("{part}.{name} of the server {}", server.id)));
    }
    found
}
