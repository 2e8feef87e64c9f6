//! Which files of an archive are the toolset's, and what they are called there.

use kitbag_model::WorkPath;

use super::{BundleFile, Code, Content, Finding, MANIFEST};
use crate::archive::Archive;

/// The files, as seen from the folder that the manifest is in.
pub(super) fn files(archive: &Archive<'_>) -> Result<(Vec<BundleFile>, Vec<Finding>), Finding> {
    let (mut files, warnings) = kept(archive);
    let top = top(&files)?;
    if !top.is_empty() {
        lift(&mut files, &top);
    }
    for file in &mut files {
        if file.path.as_str() == "toolset.yml" {
            file.path = MANIFEST.parse().expect("a plain name");
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok((files, warnings))
}

/// Takes away the folder that all files are in.
pub(crate) fn lift(files: &mut [BundleFile], folder: &str) {
    for file in files {
        let below = file.path.as_str().strip_prefix(folder).and_then(|path| path.strip_prefix('/'));
        file.path = below.and_then(|path| path.parse().ok()).expect("every file is below the one folder");
    }
}

/// The one folder that all files are in.
pub(crate) fn only_folder(files: &[BundleFile]) -> Option<String> {
    let first = files.first().and_then(|file| file.path.parts().next().filter(|_| file.path.parent().is_some()))?;
    let all = files.iter().all(|file| file.path.parts().next() == Some(first) && file.path.parent().is_some());
    all.then(|| first.to_owned())
}

/// The files that belong to what is in the archive.
pub(crate) fn kept(archive: &Archive<'_>) -> (Vec<BundleFile>, Vec<Finding>) {
    let mut warnings = Vec::new();
    let (files, litter): (Vec<BundleFile>, Vec<BundleFile>) = archive
        .entries()
        .iter()
        .enumerate()
        .map(|(number, entry)| BundleFile {
            path: entry.path().clone(),
            content: Content::Entry(number),
            executable: entry.executable(),
        })
        .partition(|file| !is_litter(&file.path));
    if let Some(first) = litter.first() {
        let message =
            format!("{} files that a computer left behind, such as {}, are left out", litter.len(), first.path);
        warnings.push(Finding::new(Code::InvalidBundle, None, message));
    }
    (files, warnings)
}

/// What the Finder and the Explorer put into folders and archives.
fn is_litter(path: &WorkPath) -> bool {
    path.parts().next() == Some("__MACOSX") || matches!(path.name(), ".DS_Store" | "Thumbs.db" | "desktop.ini")
}

/// The folder that the manifest is in: the top, or the one folder that everything is in.
fn top(files: &[BundleFile]) -> Result<String, Finding> {
    let refuse = |message: String| Err(Finding::new(Code::InvalidBundle, None, message));
    let is_manifest = |name: &str| matches!(name, MANIFEST | "toolset.yml");
    let found: Vec<&str> = files
        .iter()
        .map(|file| file.path.as_str())
        .filter(|path| is_manifest(path.rsplit('/').next().unwrap_or_default()))
        .collect();
    let in_folder = |folder: &str| -> Vec<&str> {
        let inside = |path: &&&str| path.rsplit_once('/').map_or("", |(above, _)| above) == folder;
        found.iter().filter(inside).copied().collect()
    };
    let only = only_folder(files);
    for folder in [Some(""), only.as_deref()].into_iter().flatten() {
        match in_folder(folder).as_slice() {
            [] => {}
            [_] => return Ok(folder.to_owned()),
            both => return refuse(format!("there are two manifests: {}", both.join(" and "))),
        }
    }
    if let Some(other) =
        files.iter().find(|file| is_manifest(&file.path.name().to_lowercase()) && !is_manifest(file.path.name()))
    {
        return refuse(format!("the manifest must be called {MANIFEST}, in lower case, not {}", other.path));
    }
    match found.first() {
        Some(path) => refuse(format!(
            "{path} is too deep: {MANIFEST} must be at the top of the bundle, or in the one folder that everything is in"
        )),
        None => refuse(format!("there is no {MANIFEST} in the bundle")),
    }
}
