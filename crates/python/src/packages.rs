//! The Python packages that the program carries: the SDK, the built-in tools, the worker.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use kitbag_model::Hasher;

/// Path and text of each file.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/packages.rs"));

/// Writes them below `data`, unless they are there. Where they are.
pub(crate) fn install(data: &Path) -> io::Result<PathBuf> {
    let mut hasher = Hasher::default();
    for (path, text) in FILES {
        for part in [path, text] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
    }
    let home = data.join("runtime");
    // Named by what is in it: another version of the program has another folder.
    let folder = home.join(&hasher.finish().to_string()[..16]);
    if folder.is_dir() {
        return Ok(folder);
    }
    let staged = home.join(format!(".{}", std::process::id()));
    let _ = fs::remove_dir_all(&staged);
    for (path, text) in FILES {
        let target = staged.join(path);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(target, text)?;
    }
    match fs::rename(&staged, &folder) {
        // Somebody else was quicker, with the same files.
        Err(_) if folder.is_dir() => fs::remove_dir_all(&staged)?,
        moved => moved?,
    }
    Ok(folder)
}
