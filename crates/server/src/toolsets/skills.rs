//! The skills of toolsets that are on, and their files. What stands in a skill is for models to read: nothing of it is run here.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use kitbag_formats::skill::{LARGEST_FILE, LARGEST_SKILL, MOST_FILES};
use kitbag_model::{Audience, Installed, InstalledSkill, OrgId, SkillId, ToolsetFile, ToolsetId, WorkPath};

use super::{ToolsetError, Toolsets};

/// A skill that is on, of a toolset that is on.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct OfferedSkill {
    pub(crate) toolset: ToolsetId,
    pub(crate) id: SkillId,
    /// Its folder, below that of its toolset.
    pub(crate) folder: WorkPath,
    /// What it calls itself.
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    /// Which set of the toolset's files it is in.
    pub(crate) generation: Option<String>,
}

impl OfferedSkill {
    /// Those of a toolset.
    pub(super) fn all_of(one: &Installed) -> impl Iterator<Item = Self> + '_ {
        let on = one.skills.iter().filter(|skill| one.toolset.enabled && skill.is_enabled());
        on.map(|installed| Self {
            toolset: one.toolset.id.clone(),
            id: installed.skill.reference.id.clone(),
            folder: installed.skill.reference.path.clone(),
            name: installed.skill.name.clone(),
            description: installed.skill.description.clone(),
            generation: one.toolset.generation.clone(),
        })
    }
}

/// A skill with the contents of its files.
pub(crate) struct WholeSkill {
    pub(crate) skill: InstalledSkill,
    /// By path: the content, and how it is encoded.
    pub(crate) files: Vec<(String, (String, String))>,
}

impl Toolsets {
    /// A skill with its files; none if the toolset has no such skill.
    pub(crate) async fn skill(
        &self,
        org: &OrgId,
        audience: Audience,
        id: &ToolsetId,
        skill: &str,
    ) -> Result<Option<WholeSkill>, ToolsetError> {
        let one = self.seen(org, audience, id).await?;
        let Some(skill) = one.skills.into_iter().find(|one| one.skill.reference.id.as_str() == skill) else {
            return Ok(None);
        };
        let folder = skill.skill.reference.path.clone();
        let most = u32::try_from(MOST_FILES).unwrap_or(u32::MAX);
        let rows = self.store.read_beside(org).await?.toolset_files_below(id, &folder, most).await?;
        let mut files = Vec::with_capacity(rows.len());
        for row in rows {
            let Some((_, bytes)) = self.file(org, id, &row.path, LARGEST_FILE as u64).await? else { continue };
            let path = row.path.as_str().strip_prefix(folder.as_str()).unwrap_or_default();
            let content = match String::from_utf8(bytes) {
                Ok(text) => (text, "utf8".to_owned()),
                Err(error) => (BASE64_STANDARD.encode(error.as_bytes()), "base64".to_owned()),
            };
            files.push((path.trim_start_matches('/').to_owned(), content));
        }
        Ok(Some(WholeSkill { skill, files }))
    }

    /// The files of a skill, by path. None of one that has more than a skill may have: an import lets none in.
    pub(crate) async fn skill_files(
        &self,
        org: &OrgId,
        skill: &OfferedSkill,
    ) -> Result<Vec<ToolsetFile>, ToolsetError> {
        let most = u32::try_from(MOST_FILES).unwrap_or(u32::MAX);
        let mut tx = self.store.read_beside(org).await?;
        let files = tx.toolset_files_below(&skill.toolset, &skill.folder, most.saturating_add(1)).await?;
        let fits = files.len() <= MOST_FILES && files.iter().map(|file| file.size).sum::<u64>() <= LARGEST_SKILL as u64;
        Ok(if fits { files } else { Vec::new() })
    }

    /// The content of one of them, as it was installed.
    pub(crate) async fn skill_file(
        &self,
        org: &OrgId,
        skill: &OfferedSkill,
        path: &WorkPath,
    ) -> Result<Option<Vec<u8>>, ToolsetError> {
        let found = self.file(org, &skill.toolset, path, LARGEST_FILE as u64).await?;
        Ok(found.map(|(_, bytes)| bytes))
    }
}
