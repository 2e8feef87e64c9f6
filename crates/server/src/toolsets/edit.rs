//! Toolsets that people write here: made of servers and skills, and changed later. They are installed as bundles are, so that everything
//! else (export, trust, skills over MCP, calls) need not know the difference.

use std::io::{Read, Write};
use std::path::PathBuf;

use kitbag_model::{
    Action, Definition, Install, Installed, OrgId, Permissions, PythonNeeds, ServerId, SourceType, ToolsetFile,
    ToolsetId, Visibility,
};
use serde_json::{Value, json};
use tracing::Instrument;

use super::draft::{Completed, Draft, DraftProblem, RawDraft};
use super::export::checked_file;
use super::install::{Rows, Yes};
use super::shelf::Staging;
use super::{ShownImages, ToolsetError, Toolsets};
use crate::access::caller::Author;
use crate::api::error::Code;

/// How many ids are tried for a name that is taken.
const MOST_TRIED: usize = 1000;

/// The id of a toolset whose name has nothing that an id may have.
const NAMELESS: &str = "my-toolset";

/// What a change came to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Edited {
    /// Another version of it is installed: what ran of the old one must end.
    Replaced,
    /// What it is called, or who sees it.
    Described,
    /// Everything is as it was.
    Nothing,
}

impl Toolsets {
    /// Makes a toolset. Its id.
    pub(crate) async fn create(&self, org: &OrgId, by: Author, draft: Draft) -> Result<ToolsetId, ToolsetError> {
        let (toolsets, org) = (self.clone(), org.clone());
        let work = async move { toolsets.do_create(&org, &by, draft).await };
        tokio::spawn(work.in_current_span()).await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }

    /// Changes a toolset.
    pub(crate) async fn update(
        &self,
        org: &OrgId,
        by: Author,
        id: &ToolsetId,
        draft: Draft,
    ) -> Result<Edited, ToolsetError> {
        let (toolsets, org, id) = (self.clone(), org.clone(), id.clone());
        let work = async move { toolsets.do_update(&org, &by, &id, draft).await };
        tokio::spawn(work.in_current_span()).await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }

    async fn do_create(&self, org: &OrgId, by: &Author, mut draft: Draft) -> Result<ToolsetId, ToolsetError> {
        let made = complete_new(org, &mut draft)?;
        let name = draft.name.ok_or_else(|| ToolsetError::Draft(Vec::new()))?;
        let (given, wanted) = (draft.id.is_some(), draft.id.into_iter());
        let slugs = ToolsetId::from_name(name.as_str(), NAMELESS).take(if given { 0 } else { MOST_TRIED });
        let otherwise = if *org == OrgId::local() { Visibility::Org } else { Visibility::Private };
        let mut new = Install {
            definition: Definition {
                id: ToolsetId::builtin(),
                name: name.clone(),
                version: "1.0.0".parse().expect("a version"),
                description: draft.description.flatten(),
                tools: Vec::new(),
                overrides: Vec::new(),
                servers: made.servers.clone(),
                containers: Vec::new(),
                skills: made.listed(),
                python: PythonNeeds::default(),
                permissions: Permissions::default(),
            },
            skills: made.skills.clone(),
            files: made.files(),
            source_type: SourceType::Local,
            source_ref: None,
            generation: None,
            user_mcp: false,
            visibility: draft.visibility.unwrap_or(otherwise),
            adopted_from: None,
            by: by.user,
        };
        let trust = draft.trust.unwrap_or(true);
        let mut staged = self.stage_files(org, made, None).await?;
        new.generation = staged.as_ref().map(|staged| staged.generation().to_owned());
        for id in wanted.chain(slugs) {
            new.definition.id = id.clone();
            // With a transaction open nobody may wait for a turn: first the turn, then the rows.
            let _turn = self.turn(org, &id).await;
            let rows = Rows {
                replaces: None,
                visibility: None,
                yes: if trust { Yes::All(ShownImages::new()) } else { Yes::Nothing },
                switched_servers: Vec::new(),
                switched_skills: Vec::new(),
                action: Action::ToolsetCreated,
                details: json!({
                    "version": new.definition.version, "visibility": new.visibility.as_str(), "trusted": trust,
                    "servers": ids(new.definition.servers.iter().map(|server| &server.id)),
                    "skills": ids(new.skills.iter().map(|skill| &skill.reference.id)),
                }),
                new: &new,
            };
            match self.write_rows(org, by, rows).await {
                Err(ToolsetError::Conflict) if given => return Err(ToolsetError::Taken(id)),
                Err(ToolsetError::Conflict) => {}
                Err(error) => return Err(error),
                Ok(()) => {
                    if let Some(staged) = staged.take() {
                        self.settle(org, &id, staged).await;
                    }
                    return Ok(id);
                }
            }
        }
        Err(ToolsetError::Conflict)
    }

    /// Whether runs of the organisation have it that name no toolset.
    async fn is_default(&self, org: &OrgId, id: &ToolsetId) -> Result<bool, ToolsetError> {
        let settings = self.store.read_beside(org).await?.settings().await?;
        Ok(settings.is_some_and(|(settings, _)| settings.toolsets.default_toolset_id.as_ref() == Some(id)))
    }

    async fn do_update(
        &self,
        org: &OrgId,
        by: &Author,
        id: &ToolsetId,
        mut draft: Draft,
    ) -> Result<Edited, ToolsetError> {
        let _turn = self.turn(org, id).await;
        let (before, files) = self.read_all(org, id).await?;
        if before.toolset.is_published() {
            return Err(ToolsetError::Published);
        }
        if before.toolset.user_mcp {
            return Err(ToolsetError::EditServer(id.clone()));
        }
        if draft.id.as_ref().is_some_and(|given| given != id) {
            draft.problems.push(DraftProblem::new(Code::BadRequest, "id", "a toolset keeps its id; leave it out"));
        }
        let made = draft.complete(org, Some(&before), files.clone()).map_err(ToolsetError::Draft)?;
        let head = &before.toolset;
        let visibility = draft.visibility.filter(|visibility| *visibility != head.visibility);
        let is_shared = *org != OrgId::local();
        if is_shared && visibility == Some(Visibility::Private) && self.is_default(org, id).await? {
            let reason =
                "this is the organisation's default toolset, which everybody has; choose another default first";
            return Err(ToolsetError::Draft(vec![DraftProblem::new(Code::BadRequest, "visibility", reason)]));
        }
        let name = draft.name.take().unwrap_or_else(|| head.name.clone());
        let description = draft.description.take().unwrap_or_else(|| head.description.clone());
        let is_described = name != head.name || description != head.description;
        let (same_files, same_parts) = (made.files() == files, is_same(&made, &before));
        let trusted = trusted(&made, &before, draft.trust);
        let switched = !made.switched_servers.is_empty() || !made.switched_skills.is_empty();
        let is_replaced = !(same_files && same_parts);
        let newly_trusted = trusted.iter().any(|id| !before.server(id.as_str()).is_some_and(|one| one.is_trusted()));
        if !(is_replaced || is_described || switched || newly_trusted || visibility.is_some()) {
            return Ok(Edited::Nothing);
        }
        let version = if is_replaced { head.version.next_patch() } else { head.version.clone() };
        let details = json!({
            "version": version, "before": head.version, "visibility": visibility.map(Visibility::as_str),
            "servers": ids(made.relaunched.iter()), "trusted": ids(trusted.iter()),
            "skills": ids(made.skills.iter().map(|skill| &skill.reference.id)),
        });
        let mut new = Install {
            definition: Definition {
                id: id.clone(),
                name,
                version,
                description,
                tools: before.tools.clone(),
                overrides: before.bundle_overrides.clone(),
                servers: made.servers.clone(),
                containers: before.containers.iter().map(|one| one.container.clone()).collect(),
                skills: made.listed(),
                python: before.python.clone(),
                permissions: before.permissions,
            },
            skills: made.skills.clone(),
            files: made.files(),
            source_type: head.source_type,
            source_ref: head.source_ref.clone(),
            generation: head.generation.clone(),
            user_mcp: false,
            visibility: head.visibility,
            adopted_from: head.adopted_from.clone(),
            by: by.user,
        };
        let (switched_servers, switched_skills) = (made.switched_servers.clone(), made.switched_skills.clone());
        let staged = match same_files {
            true => None,
            false => {
                self.lay_out(org, head.generation.as_deref()).await?;
                let folder = head.generation.as_deref().map(|files| self.shelf(org).folder_of(id, files));
                let staged = self.stage_files(org, made, folder).await?;
                new.generation = staged.as_ref().map(|staged| staged.generation().to_owned());
                staged
            }
        };
        let rows = Rows {
            new: &new,
            replaces: Some(head),
            visibility,
            yes: Yes::Servers(trusted),
            switched_servers,
            switched_skills,
            action: Action::ToolsetUpdated,
            details,
        };
        self.write_rows(org, by, rows).await?;
        if let Some(staged) = staged {
            self.settle(org, id, staged).await;
        }
        Ok(if is_replaced || switched { Edited::Replaced } else { Edited::Described })
    }

    /// Writes the files that were written, and copies those that stay out of `folder`. None if there are no files.
    async fn stage_files(
        &self,
        org: &OrgId,
        made: Completed,
        folder: Option<PathBuf>,
    ) -> Result<Option<Staging>, ToolsetError> {
        if made.written.is_empty() && made.kept.is_empty() {
            return Ok(None);
        }
        let (staged, ()) = self.stage(org, move |place| unpack(&made, folder, place)).await?;
        Ok(Some(staged))
    }
}

/// Whether a toolset could be made of this, in this organisation. Nothing is.
pub(crate) fn check_draft(org: &OrgId, raw: RawDraft) -> Result<(), ToolsetError> {
    complete_new(org, &mut Draft::read(raw)).map(drop)
}

/// What a new toolset is made of.
fn complete_new(org: &OrgId, draft: &mut Draft) -> Result<Completed, ToolsetError> {
    if draft.name.is_none() && !draft.problems.iter().any(|problem| problem.field == "name") {
        draft.problems.push(DraftProblem::new(Code::BadRequest, "name", "must be there"));
    }
    draft.complete(org, None, Vec::new()).map_err(ToolsetError::Draft)
}

fn unpack(made: &Completed, folder: Option<PathBuf>, place: &Staging) -> Result<(), ToolsetError> {
    for one in &made.written {
        let mut target = place.create(&one.file.path, one.file.executable)?;
        target.write_all(&one.bytes).map_err(|source| place.failed(&one.file.path, source))?;
    }
    for file in &made.kept {
        let damaged = || ToolsetError::Damaged { path: file.path.to_string() };
        let mut source = checked_file(folder.as_deref().ok_or_else(damaged)?, file).ok_or_else(damaged)?;
        let mut target = place.create(&file.path, file.executable)?;
        copy(&mut source, &mut target, file, place)?;
    }
    place.sync().map_err(ToolsetError::from)
}

/// Copies a file. What was changed on the disk since it was installed is not copied.
fn copy(
    source: &mut impl Read,
    target: &mut impl Write,
    file: &ToolsetFile,
    place: &Staging,
) -> Result<(), ToolsetError> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let count = source.read(&mut buffer).map_err(|_| ToolsetError::Damaged { path: file.path.to_string() })?;
        if count == 0 {
            return Ok(());
        }
        target.write_all(&buffer[..count]).map_err(|source| place.failed(&file.path, source))?;
    }
}

/// Whether the servers and the skills are what they were.
fn is_same(made: &Completed, before: &Installed) -> bool {
    made.servers.iter().eq(before.servers.iter().map(|one| &one.server))
        && made.skills.iter().eq(before.skills.iter().map(|one| &one.skill))
}

/// Which servers may start because of who wrote them. Whoever writes a whole server has seen what it starts. One that was there, would start
/// something else now and was never trusted needs a yes of its own: a change of one word says nothing of the rest.
fn trusted(made: &Completed, before: &Installed, said: Option<bool>) -> Vec<ServerId> {
    let is_new_or_was_trusted = |id: &ServerId| before.server(id.as_str()).is_none_or(|one| one.is_trusted());
    match said {
        Some(false) => Vec::new(),
        Some(true) => made.servers.iter().map(|server| server.id.clone()).collect(),
        None => made.relaunched.iter().filter(|id| is_new_or_was_trusted(id)).cloned().collect(),
    }
}

fn ids<'a, T: ToString + 'a>(all: impl Iterator<Item = &'a T>) -> Value {
    all.map(ToString::to_string).collect::<Vec<_>>().into()
}
