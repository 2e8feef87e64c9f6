//! The toolset that a foreign file becomes.

use std::collections::BTreeMap;

use kitbag_model::{Definition, Permissions, PythonNeeds, Skill};

use super::name;
use super::notes::{Notes, shown};
use crate::bundle::{Bundle, BundleFile, Content, MANIFEST, Refused};
use crate::manifest;

/// A toolset that is being made.
pub(super) struct Made {
    pub definition: Definition,
}

impl Made {
    /// One without parts. Its id comes from the first of `ids` that gives one.
    pub(super) fn new<'a>(
        ids: impl IntoIterator<Item = &'a str>,
        version: Option<&str>,
        display: &str,
        notes: &mut Notes,
    ) -> Self {
        let id = name::toolset_id(ids);
        let (number, said) = name::version(version);
        match version {
            None => notes.warn(format!("it has no version; it becomes {number}")),
            Some(version) if !said => {
                notes.warn(format!("the version \"{}\" is not a semantic one; it becomes {number}", shown(version)));
            }
            Some(_) => {}
        }
        let definition = Definition {
            name: name::display_name(display, &id),
            id,
            version: number,
            description: None,
            tools: Vec::new(),
            overrides: Vec::new(),
            servers: Vec::new(),
            containers: Vec::new(),
            skills: Vec::new(),
            python: PythonNeeds::default(),
            permissions: Permissions::default(),
        };
        Self { definition }
    }

    /// Lists the skills that are not found by their folder.
    pub(super) fn list(&mut self, skills: &[Skill]) {
        self.definition.skills =
            skills.iter().filter(|skill| skill.listed).map(|skill| skill.reference.clone()).collect();
    }

    /// What it is for.
    pub(super) fn describe(&mut self, text: Option<&str>, notes: &mut Notes) {
        let Some((description, cut)) = text.and_then(name::description) else { return };
        if cut {
            notes.warn("the description is shortened, or has characters that are not text and are left out");
        }
        self.definition.description = Some(description);
    }

    /// The bundle, with a manifest that says what was made. It is read once more: what cannot be written must not be
    /// installed, or it could never leave again.
    pub(super) fn finish(
        self,
        skills: Vec<Skill>,
        files: Vec<BundleFile>,
        mut notes: Notes,
    ) -> Result<Bundle, Refused> {
        let Self { definition } = self;
        let text = manifest::write(&definition);
        if notes.problems.is_empty() {
            let again = manifest::read(text.as_bytes()).map(|read| read.definition);
            if again.as_ref() != Ok(&definition) {
                notes.problem("it is too large, or too odd, to be written as toolset.yaml");
            }
        }
        let mut all: BTreeMap<_, _> = files.into_iter().map(|file| (file.path.clone(), file)).collect();
        if let Some(path) = all.keys().find(|path| path.parts().next().is_some_and(is_like_manifest)) {
            notes.problem(format!("{path} would be taken for the manifest of a toolset; rename it"));
        }
        if !notes.problems.is_empty() {
            return Err(notes.refused());
        }
        let path: kitbag_model::WorkPath = MANIFEST.parse().expect("a plain name");
        let content = Content::Made(text.into_bytes());
        all.insert(path.clone(), BundleFile { path, content, executable: false });
        Ok(Bundle { definition, skills, files: all.into_values().collect(), warnings: notes.warnings })
    }
}

/// Whether some file system, or some reader, cannot tell it from the manifest.
fn is_like_manifest(name: &str) -> bool {
    ["toolset.yaml", "toolset.yml"].iter().any(|manifest| manifest.eq_ignore_ascii_case(name))
}
