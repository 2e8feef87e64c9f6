//! Many files into a workspace at once: all of them or none.

use std::collections::{HashMap, HashSet};

use kitbag_cas::workspace::Workspace;
use kitbag_model::{Manifest, Source, WorkPath};

use super::{Lease, WorkspaceError};
use crate::transfer::Staged;

/// A file that is to go into a workspace.
pub(crate) struct Upload {
    /// What it is to be called.
    pub(crate) path: WorkPath,
    pub(crate) file: Staged,
    /// None keeps the bit of a file that is replaced.
    pub(crate) executable: Option<bool>,
}

impl Lease {
    /// Puts files into the workspace. One whose name is taken gets another (`name_1.ext`), unless it is to replace what is
    /// there. The state that has them, and what each is called.
    pub(crate) async fn upload(
        &self,
        folders: Vec<WorkPath>,
        files: Vec<Upload>,
        replace: bool,
    ) -> Result<(Option<Manifest>, Vec<WorkPath>), WorkspaceError> {
        self.current().await?;
        self.edit(Source::UserUpload, None, move |workspace| {
            for folder in folders {
                workspace.make_folder(&folder)?;
            }
            place_all(workspace, files, replace)
        })
        .await
    }
}

fn place_all(workspace: &Workspace, files: Vec<Upload>, replace: bool) -> Result<Vec<WorkPath>, WorkspaceError> {
    let mut taken: HashSet<WorkPath> = HashSet::new();
    // Where counting stopped for a name: a thousand files of one name must not be counted through a thousand times.
    let mut counted: HashMap<WorkPath, u32> = HashMap::new();
    let mut names = Vec::with_capacity(files.len());
    for Upload { path, file, executable } in files {
        let mut name = path.clone();
        let count = counted.entry(path.clone()).or_default();
        while taken.contains(&name) || (!replace && workspace.has_path(&name)?) {
            *count += 1;
            name = numbered(&path, *count).ok_or_else(|| WorkspaceError::NameTaken(path.clone()))?;
        }
        workspace.place_file(&name, file.path(), executable)?;
        taken.insert(name.clone());
        names.push(name);
    }
    Ok(names)
}

/// `a/name.ext` becomes `a/name_1.ext`. None if that is too long for a name.
fn numbered(path: &WorkPath, count: u32) -> Option<WorkPath> {
    let name = match path.name().rsplit_once('.') {
        Some((stem, ending)) if !stem.is_empty() => format!("{stem}_{count}.{ending}"),
        _ => format!("{}_{count}", path.name()),
    };
    WorkPath::below(path.parent().unwrap_or_default(), &name).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_name_gets_a_number_before_its_ending() {
        for (path, count, name) in [
            ("a.txt", 1, "a_1.txt"),
            ("x/y/a.tar.gz", 12, "x/y/a.tar_12.gz"),
            ("x.d/README", 2, "x.d/README_2"),
            (".bashrc", 1, ".bashrc_1"),
            ("é.😀", 1, "é_1.😀"),
        ] {
            let numbered = numbered(&path.parse().unwrap(), count).unwrap();
            assert_eq!(numbered.as_str(), name);
        }
        assert_eq!(numbered(&"n".repeat(255).parse().unwrap(), 1), None);
    }
}
