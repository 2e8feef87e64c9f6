//! The skills of toolsets that are on, and their files. What stands in a skill is for models to read: nothing of it is run here.

use kitbag_formats::skill::{LARGEST_FILE, LARGEST_SKILL, MOST_FILES};
use kitbag_model::{Installed, OrgId, SkillId, ToolsetFile, ToolsetId, WorkPath};

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

impl Toolsets {
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
