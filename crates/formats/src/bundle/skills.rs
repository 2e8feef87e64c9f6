//! The skills of a bundle: those that the manifest lists, and those that are found by their folder.

use kitbag_model::{Skill, SkillId, SkillRef, WorkPath};

use super::read::content;
use super::{BundleFile, Code, Content, Finding};
use crate::Problems;
use crate::archive::Archive;
use crate::skill::{self, ENTRY, LARGEST_FILE, LARGEST_SKILL, MOST_FILES, Strictness};

/// Reads them leniently: most skills in the world break a rule somewhere. One that is listed and cannot be read is a
/// problem; one that was only found is left out with a warning.
pub(super) fn read(
    archive: &Archive<'_>,
    files: &[BundleFile],
    listed: &[SkillRef],
    problems: &mut Vec<Finding>,
    warnings: &mut Vec<Finding>,
) -> Vec<Skill> {
    let mut skills = Vec::new();
    for (index, reference) in listed.iter().enumerate() {
        if let Some(other) = listed[..index].iter().find(|other| other.path == reference.path) {
            let message = format!("the skills {} and {} are the same folder", other.id, reference.id);
            problems.push(Finding::new(Code::InvalidSkillBundle, Some(reference.path.as_str()), message));
            continue;
        }
        match one(archive, files, reference, true, warnings) {
            Ok(skill) => skills.push(skill),
            Err(found) => problems.extend(found),
        }
    }
    let known = |folder: &WorkPath| listed.iter().any(|reference| reference.path == *folder);
    for folder in skill::folders(files.iter().map(|file| &file.path)).into_iter().filter(|folder| !known(folder)) {
        let found = match folder.name().parse::<SkillId>() {
            Ok(id) if listed.iter().any(|reference| reference.id == id) => Err(vec![Finding::new(
                Code::InvalidSkillBundle,
                Some(folder.as_str()),
                format!("there is another skill {id} in the manifest"),
            )]),
            Ok(id) => one(archive, files, &SkillRef { id, path: folder, enabled: true }, false, warnings),
            Err(reason) => Err(vec![Finding::new(Code::InvalidSkillBundle, Some(folder.as_str()), reason.to_string())]),
        };
        match found {
            Ok(skill) => skills.push(skill),
            Err(found) => {
                warnings.extend(found.into_iter().map(|finding| Finding {
                    message: format!("the skill is left out: {}", finding.message),
                    ..finding
                }))
            }
        }
    }
    skills
}

/// Reads the skill in one folder.
pub(crate) fn one(
    archive: &Archive<'_>,
    files: &[BundleFile],
    reference: &SkillRef,
    listed: bool,
    warnings: &mut Vec<Finding>,
) -> Result<Skill, Vec<Finding>> {
    let code = Code::InvalidSkillBundle;
    check_size(archive, files, reference)?;
    let path = format!("{}/{ENTRY}", reference.path);
    let bytes = content(archive, files, &path).map_err(|finding| vec![Finding { code, ..finding }])?;
    let read = skill::read(&bytes, Some(reference.path.name()), Strictness::Lenient).map_err(at(&path))?;
    Ok(described(read, reference, listed, &path, warnings))
}

/// Problems of a text, at their places in it.
fn at(path: &str) -> impl Fn(Problems) -> Vec<Finding> + '_ {
    move |problems| problems.0.iter().map(|problem| Finding::at(Code::InvalidSkillBundle, path, problem)).collect()
}

/// A skill as it is installed, with what its reader should know.
fn described(read: skill::Read, reference: &SkillRef, listed: bool, path: &str, warnings: &mut Vec<Finding>) -> Skill {
    let code = Code::InvalidSkillBundle;
    warnings.extend(read.warnings.iter().map(|problem| Finding::at(code, path, problem)));
    if !read.skill.allowed_tools.is_empty() {
        let asked = read.skill.allowed_tools.join(", ");
        warnings.push(Finding::new(
            code,
            Some(path),
            format!("it asks to use {asked} without asking; that grants nothing"),
        ));
    }
    let (name, description) = (plain(&read.skill.name), Some(plain(&read.skill.description)));
    Skill { reference: reference.clone(), listed, name, description }
}

/// A skill that came as `agentskills-v1`, as it is installed, with what whoever wrote it should know; or what is wrong with its `SKILL.md`.
///
/// It is read as leniently as all others but for its name: a skill that is made here is called what its folder is.
pub fn made(bundle: &skill::Bundle) -> Result<(Skill, Vec<Finding>), Vec<Finding>> {
    let id = &bundle.id;
    let bytes = bundle.files.get(ENTRY).map_or(&[][..], Vec::as_slice);
    let read = skill::read(bytes, Some(id.as_str()), Strictness::Lenient).map_err(at(ENTRY))?;
    if read.skill.name != id.as_str() {
        let message = format!("the front matter must have the name of the skill, {id}");
        let named = read.warnings.iter().find(|problem| problem.message.starts_with("name"));
        let (line, column) = (named.map(|problem| problem.line), named.map(|problem| problem.column));
        return Err(vec![Finding { line, column, ..Finding::new(Code::InvalidSkillBundle, Some(ENTRY), message) }]);
    }
    let reference = SkillRef { path: SkillRef::default_path(id), id: id.clone(), enabled: bundle.enabled };
    let mut warnings = Vec::new();
    let skill = described(read, &reference, true, ENTRY, &mut warnings);
    Ok((skill, warnings))
}

/// Without characters that no text needs, and that databases and terminals take for something else.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' && c != '\t' { ' ' } else { c }).collect()
}

/// What is accepted here can also be staged, exported and served.
fn check_size(archive: &Archive<'_>, files: &[BundleFile], reference: &SkillRef) -> Result<(), Vec<Finding>> {
    let prefix = format!("{}/", reference.path);
    let size = |file: &BundleFile| match &file.content {
        Content::Entry(number) => archive.entries()[*number].size(),
        Content::Made(bytes) => bytes.len() as u64,
    };
    let own: Vec<(&WorkPath, u64)> = files
        .iter()
        .filter(|file| file.path.as_str().starts_with(&prefix))
        .map(|file| (&file.path, size(file)))
        .collect();
    let refuse = |file: &str, message: String| Finding::new(Code::InvalidSkillBundle, Some(file), message);
    let mut found = Vec::new();
    if own.len() > MOST_FILES {
        found.push(refuse(reference.path.as_str(), format!("a skill may have {MOST_FILES} files, not {}", own.len())));
    }
    let all: u64 = own.iter().map(|(_, size)| size).sum();
    if all > LARGEST_SKILL as u64 {
        found.push(refuse(reference.path.as_str(), format!("a skill may have {LARGEST_SKILL} bytes, not {all}")));
    }
    for (path, size) in own.iter().filter(|(_, size)| *size > LARGEST_FILE as u64) {
        found.push(refuse(path.as_str(), format!("a file of a skill may have {LARGEST_FILE} bytes, not {size}")));
    }
    if found.is_empty() { Ok(()) } else { Err(found) }
}
