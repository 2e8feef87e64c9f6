//! Stages the code of a toolset on the home's side: the agent's folder is the agent's, and code that runs in the sandbox is not to be
//! changed from there.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use kitbag_model::run::wire::ProgramSnapshot;

use super::Files;
use super::folder::{fetched, write_new};
use crate::Failure;

/// How many files a toolset may have, as on the server.
const MOST_FILES: usize = 10_000;
/// How many bytes they may have together.
const MOST_BYTES: u64 = 256 << 20;

/// Puts the files of a toolset into a new folder `toolset` of `home`, where nobody writes to them.
pub async fn stage_program(program: &ProgramSnapshot, home: &Path, contents: &impl Files) -> Result<PathBuf, Failure> {
    let failed = |why: &dyn std::fmt::Display| Failure::new("TOOLSET_STAGING_FAILED", why);
    let size = program.files.values().fold(0u64, |sum, file| sum.saturating_add(file.size));
    if program.files.len() > MOST_FILES || size > MOST_BYTES {
        let count = program.files.len();
        return Err(failed(&format_args!(
            "the toolset has {count} files with {size} bytes, and may have {MOST_FILES} with {MOST_BYTES}"
        )));
    }
    let folder = home.join("toolset");
    fs::create_dir(&folder).map_err(|error| failed(&error))?;
    for (path, file) in &program.files {
        let content = fetched(contents, path, file).await.map_err(|why| failed(&why))?;
        let written = write_new(&folder, path, file.executable, &content)
            .and_then(|()| close(&folder.join(path.as_str()), file.executable));
        written.map_err(|error| failed(&format_args!("{path}: {error}")))?;
    }
    Ok(folder)
}

fn close(file: &Path, executable: bool) -> io::Result<()> {
    fs::set_permissions(file, Permissions::from_mode(if executable { 0o555 } else { 0o444 }))
}
