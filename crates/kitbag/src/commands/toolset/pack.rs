//! A folder of this machine as a bundle.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use ignore::WalkBuilder;
use kitbag_formats::archive::ArchiveWriter;
use kitbag_model::WorkPath;
use tempfile::NamedTempFile;

use crate::failure::{Doing, Failure};

/// What tools leave in a folder while somebody works in it. Nobody means to ship it.
const LITTER: [&str; 9] =
    [".git", ".hg", ".svn", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".venv", "node_modules"];

/// Packs a folder into a file that goes away with the value. `.kitbagignore` names what is not to be packed.
pub(super) fn pack(folder: &Path) -> Result<NamedTempFile, Failure> {
    let mut files = Vec::new();
    let walk = WalkBuilder::new(folder)
        .standard_filters(false)
        .add_custom_ignore_filename(".kitbagignore")
        .filter_entry(|entry| !LITTER.iter().any(|name| entry.file_name() == *name))
        .build();
    for entry in walk {
        let entry = entry.doing(format!("cannot read {}", folder.display()))?;
        let kind = entry.file_type();
        if kind.is_none_or(|kind| kind.is_dir()) || entry.path().extension().is_some_and(|ending| ending == "pyc") {
            continue;
        }
        let relative = entry.path().strip_prefix(folder)?;
        let path = relative.to_str().and_then(|text| text.parse::<WorkPath>().ok());
        let path = path
            .ok_or_else(|| Failure::wrong_use(format!("{}: a bundle cannot have this name", entry.path().display())))?;
        if !kind.is_some_and(|kind| kind.is_file()) {
            return Err(Failure::wrong_use(format!(
                "{path} is a link or a special file; a bundle has plain files only"
            )));
        }
        files.push((path, entry.into_path()));
    }
    files.sort();
    let packed = NamedTempFile::new().doing("cannot make a temporary file")?;
    let mut archive = ArchiveWriter::new(BufWriter::new(packed.as_file()));
    for (path, source) in files {
        let mut file =
            File::open(&source).map_err(|error| Failure::wrong_use(format!("{}: {error}", source.display())))?;
        archive.file(&path, is_executable(&source), &mut file)?;
    }
    archive.finish()?.flush()?;
    Ok(packed)
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).is_ok_and(|data| data.permissions().mode() & 0o100 != 0)
}
