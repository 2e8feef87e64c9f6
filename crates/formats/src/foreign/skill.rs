//! A skill that travels alone, and the skills of a plugin.

use std::collections::HashSet;

use kitbag_model::{Skill, SkillId, SkillRef, WorkPath};

use super::name::Ids;
use super::notes::Notes;
use super::toolset;
use crate::bundle::{Bundle, Code, Finding, Refused, read_skill};
use crate::import::Tree;
use crate::skill::{self, ENTRY, Strictness};

/// The most skills that a plugin may have.
const MOST_SKILLS: usize = 1000;

/// Reads an archive that is one skill. It becomes a toolset with that skill in `skills/`.
pub(crate) fn read(mut tree: Tree<'_, '_>, file: Option<&str>) -> Result<Bundle, Refused> {
    let bytes = tree.content(ENTRY)?;
    let read = skill::read(&bytes, tree.folder.as_deref(), Strictness::Lenient).map_err(|problems| Refused {
        problems: problems.0.iter().map(|problem| Finding::at(Code::InvalidSkillBundle, ENTRY, problem)).collect(),
        warnings: Vec::new(),
    })?;
    let said = read.skill;
    let stem = file.map(super::name::stem).unwrap_or_default();
    let valid = |name: &&str| name.parse::<SkillId>().is_ok();
    let names = [said.name.as_str(), tree.folder.as_deref().unwrap_or_default(), stem];
    let name = names.into_iter().find(valid).or_else(|| names.into_iter().find(|name| !name.is_empty()));
    let id = Ids::skills().take(name.unwrap_or_default(), "skill");
    let mut notes = tree.notes(ENTRY);
    let version = said.metadata.get("version").map(String::as_str);
    let version = version.or_else(|| said.front_matter.get("version").and_then(serde_json::Value::as_str));
    let mut made = toolset::Made::new([id.as_str(), stem], version, &said.name, &mut notes);
    made.describe(Some(&said.description), &mut notes);
    let reference = SkillRef { path: SkillRef::default_path(&id), id, enabled: true };
    for file in &mut tree.files {
        match WorkPath::below(reference.path.as_str(), file.path.as_str()) {
            Ok(path) => file.path = path,
            Err(error) => notes.problem_of(Code::InvalidSkillBundle, format!("{}: {error}", file.path)),
        }
    }
    tree.files.sort_by(|a, b| a.path.cmp(&b.path));
    let skill = match read_skill(tree.archive, &tree.files, &reference, true, &mut notes.warnings) {
        Ok(skill) => vec![skill],
        Err(found) => {
            notes.problems.extend(found);
            Vec::new()
        }
    };
    made.definition.skills.push(reference);
    made.finish(skill, tree.files, notes)
}

/// The skills in these folders and below them, each with whether the manifest must list it. One that cannot be
/// read is left out with a warning. A folder inside a skill belongs to that skill.
pub(super) fn found(tree: &Tree<'_, '_>, roots: &[String], notes: &mut Notes) -> Vec<Skill> {
    let mut folders: Vec<WorkPath> = Vec::new();
    for file in tree.files.iter().filter(|file| file.path.name() == ENTRY) {
        let Some(folder) = file.path.parent().and_then(|folder| folder.parse::<WorkPath>().ok()) else { continue };
        let inside = |above: &str| {
            folder.as_str().strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if roots.iter().any(|root| root.is_empty() || inside(root)) {
            folders.push(folder);
        }
    }
    folders.sort();
    folders.dedup();
    let all: HashSet<&str> = folders.iter().map(WorkPath::as_str).collect();
    let is_part = |folder: &WorkPath| {
        let above = folder.as_str().match_indices('/').map(|(end, _)| &folder.as_str()[..end]);
        above.into_iter().any(|above| all.contains(above))
    };
    let own: Vec<&WorkPath> = folders.iter().filter(|folder| !is_part(folder)).collect();
    if own.len() > MOST_SKILLS {
        notes.problem(format!("there are {} skills; at most {MOST_SKILLS} are allowed", own.len()));
        return Vec::new();
    }
    let mut ids = Ids::skills();
    let mut skills = Vec::new();
    for folder in own {
        let id = ids.take(folder.name(), "skill");
        let found_by_folder = SkillRef::default_path(&id) == *folder;
        let reference = SkillRef { id, path: folder.clone(), enabled: true };
        match read_skill(tree.archive, &tree.files, &reference, !found_by_folder, &mut notes.warnings) {
            Ok(skill) => skills.push(skill),
            Err(found) => {
                notes.warnings.extend(found.into_iter().map(|finding| Finding {
                    message: format!("the skill is left out: {}", finding.message),
                    ..finding
                }))
            }
        }
    }
    // As the reader of bundles tells them.
    skills.sort_by_key(|skill| !skill.listed);
    skills
}
