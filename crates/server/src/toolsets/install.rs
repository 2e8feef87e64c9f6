//! Installing: the files first, then the rows, then the files move to their place. The one way in for bundles and for what people write
//! in the editor.

use kitbag_model::{
    Action, Container, Install, Launch, LaunchError, McpServer, OrgId, RawLaunch, ServerId, Toolset, ToolsetId,
    Visibility, installed, shared,
};
use kitbag_store::WriteTx;
use serde_json::Value;

use super::shelf::Staging;
use super::shown::{is_for, other_than_shown};
use super::{ShownImages, ToolsetError, Toolsets, blocking};
use crate::access::caller::Author;

/// What a person says yes to while something is installed.
pub(super) enum Yes {
    /// To nothing: what was trusted and is the same stays so.
    Nothing,
    /// To the toolset itself, all its servers, and its containers, of which these images were shown.
    All(ShownImages),
    /// To these servers.
    Servers(Vec<ServerId>),
}

/// What is written into the database, all of it or nothing.
pub(super) struct Rows<'a> {
    pub(super) new: &'a Install,
    /// What is there, if there is something.
    pub(super) replaces: Option<&'a Toolset>,
    /// Who sees it from now on, if that is to change.
    pub(super) visibility: Option<Visibility>,
    pub(super) yes: Yes,
    /// Servers whose own switch follows what the toolset says again.
    pub(super) switched_servers: Vec<ServerId>,
    /// The same of skills.
    pub(super) switched_skills: Vec<kitbag_model::SkillId>,
    /// What the audit calls it.
    pub(super) action: Action,
    pub(super) details: Value,
}

impl Toolsets {
    /// Writes files into a new folder that is to become a toolset's.
    pub(super) async fn stage<T: Send + 'static>(
        &self,
        org: &OrgId,
        unpack: impl FnOnce(&Staging) -> Result<T, ToolsetError> + Send + 'static,
    ) -> Result<(Staging, T), ToolsetError> {
        let shelf = self.shelf(org);
        blocking(move || {
            let staged = shelf.stage()?;
            let unpacked = unpack(&staged)?;
            shelf.share(&staged)?;
            Ok((staged, unpacked))
        })
        .await
    }

    /// Moves the files of a toolset, whose rows are written, to their place.
    pub(super) async fn settle(&self, org: &OrgId, id: &ToolsetId, staged: Staging) {
        let (shelf, generation) = (self.shelf(org), staged.generation().to_owned());
        staged.keep();
        // The rows are the truth from here on; if this fails, the next start does it.
        let settled = id.clone();
        if let Err(error) = blocking(move || shelf.settle(&settled, &generation)).await {
            tracing::warn!(%error, toolset = %id, "the files of a toolset are not at their place yet");
        }
    }

    /// Writes the rows of a toolset.
    pub(super) async fn write_rows(&self, org: &OrgId, by: &Author, rows: Rows<'_>) -> Result<(), ToolsetError> {
        let definition = &rows.new.definition;
        let mut tx = self.store.write(org).await?;
        if let Some(before) = rows.replaces {
            // Another process may have been here: what was looked at must be what is replaced.
            let now = match editable(&mut tx, &definition.id).await {
                Err(ToolsetError::NotFound(_)) => return Err(ToolsetError::Conflict),
                now => now?,
            };
            if (&now.version, &now.generation) != (&before.version, &before.generation) {
                return Err(ToolsetError::Conflict);
            }
        }
        tx.install_toolset(rows.new, rows.replaces.map(|before| &before.generation)).await?;
        if let Some(visibility) = rows.visibility {
            tx.set_toolset_visibility(&definition.id, visibility, by.user).await?;
        }
        for server in &rows.switched_servers {
            let key = kitbag_model::ServerKey { toolset: definition.id.clone(), server: server.clone() };
            tx.enable_server(&key, None).await?;
        }
        for skill in &rows.switched_skills {
            tx.enable_skill(&definition.id, skill, None).await?;
        }
        trust(&mut tx, rows.new, &rows.yes).await?;
        tx.audit(&by.who, rows.action, definition.id.as_str(), &rows.details).await?;
        tx.commit().await?;
        let before = rows.replaces.and_then(|before| before.generation.as_deref());
        if before != rows.new.generation.as_deref() {
            self.forget_files(org, before).await;
        }
        Ok(())
    }
}

async fn trust(tx: &mut WriteTx, new: &Install, yes: &Yes) -> Result<(), ToolsetError> {
    let definition = &new.definition;
    let said = |server: &&McpServer| match yes {
        Yes::Nothing => false,
        Yes::All(_) => true,
        Yes::Servers(some) => some.contains(&server.id),
    };
    for server in definition.servers.iter().filter(said) {
        tx.trust(&definition.id, server.id.as_str(), &server.fingerprint()).await?;
    }
    if let Yes::All(shown) = yes {
        // As they are kept: what an image is built from is known by its hash.
        if let Some(kept) = tx.installed(&definition.id).await? {
            if let Some(id) = other_than_shown(shown, &kept) {
                return Err(ToolsetError::OtherImage(id.to_owned()));
            }
            tx.trust_containers(&kept, |one| is_for(shown, one)).await?;
        }
        let itself = installed::trust_fingerprint(
            &definition.id,
            &definition.tools,
            &definition.containers,
            &definition.overrides,
            definition.permissions,
        );
        tx.trust(&definition.id, "", &itself).await?;
    }
    Ok(())
}

/// A toolset that may be changed. Others who change it wait until the transaction ends. All that edits, replaces or removes a toolset asks
/// here: what is published stays what people were shown.
pub(crate) async fn editable(tx: &mut WriteTx, id: &ToolsetId) -> Result<Toolset, ToolsetError> {
    let toolset = tx.lock_toolset(id).await?.ok_or_else(|| ToolsetError::NotFound(id.to_string()))?;
    if toolset.is_published() { Err(ToolsetError::Published) } else { Ok(toolset) }
}

/// Refuses servers and containers that an organisation may not store: everything that is wrong with them, by its place.
pub(super) fn refuse_literals(
    org: &OrgId,
    servers: &[McpServer],
    containers: &[Container],
) -> Result<(), ToolsetError> {
    if *org == OrgId::local() { Ok(()) } else { refuse_unshareable(servers, containers) }
}

/// The same for what others will see, whoever's it is.
pub(super) fn refuse_unshareable(servers: &[McpServer], containers: &[Container]) -> Result<(), ToolsetError> {
    let servers = servers.iter().map(|server| (&server.id, server.launch.clone()));
    let containers = containers.iter().map(|container| (&container.id, container.launch()));
    let of_one = |(id, launch): (&ServerId, Launch)| -> Vec<(ServerId, LaunchError)> {
        shared::refused(&launch).into_iter().map(|problem| (id.clone(), problem)).collect()
    };
    let found: Vec<(ServerId, LaunchError)> = servers.chain(containers).flat_map(of_one).collect();
    if found.is_empty() { Ok(()) } else { Err(ToolsetError::Literal(found)) }
}

/// How a server is reached, as somebody wrote it, if there is nothing wrong with it for this organisation; and all that is.
pub(super) fn judged(org: &OrgId, mut raw: RawLaunch) -> (Option<Launch>, Vec<LaunchError>) {
    let is_shared = *org != OrgId::local();
    let mut found = if is_shared { shared::screen(&mut raw) } else { Vec::new() };
    match raw.check() {
        Ok(launch) => {
            found.extend(if is_shared { shared::refused(&launch) } else { Vec::new() });
            (Some(launch), found)
        }
        Err(errors) => {
            found.extend(errors);
            (None, found)
        }
    }
}

/// The same, for who wants no more than that.
pub(crate) fn checked_launch(org: &OrgId, raw: RawLaunch) -> Result<Launch, ToolsetError> {
    match judged(org, raw) {
        (Some(launch), found) if found.is_empty() => Ok(launch),
        (_, found) => Err(ToolsetError::Launch(found)),
    }
}

/// What another program wrote, with references in the form that an organisation must write.
pub(crate) fn lowered(org: &OrgId, launch: Launch) -> Launch {
    if *org == OrgId::local() { launch } else { shared::in_strict_form(launch) }
}
