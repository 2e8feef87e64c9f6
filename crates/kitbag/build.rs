//! Finds the commit that is being built, for `kitbag --version`. It reads files and starts no process; outside a
//! checkout, `KITBAG_BUILD_COMMIT` may name it.

use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-env-changed=KITBAG_BUILD_COMMIT");
    let commit = std::env::var("KITBAG_BUILD_COMMIT").ok().or_else(|| head(&git_folder()?));
    println!(
        "cargo::rustc-env=BUILT_FROM_COMMIT={}",
        commit.as_deref().map_or("unknown", |commit| commit.get(..12).unwrap_or(commit))
    );
}

fn git_folder() -> Option<PathBuf> {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")?;
    Path::new(&manifest).ancestors().map(|folder| folder.join(".git")).find(|git| git.is_dir())
}

fn head(git: &Path) -> Option<String> {
    let watch = |path: &Path| println!("cargo::rerun-if-changed={}", path.display());
    let head = git.join("HEAD");
    watch(&head);
    let text = fs::read_to_string(head).ok()?;
    let Some(name) = text.strip_prefix("ref: ") else { return Some(text.trim().to_owned()) };
    let (loose, packed) = (git.join(name.trim()), git.join("packed-refs"));
    watch(&loose);
    if let Ok(commit) = fs::read_to_string(&loose) {
        return Some(commit.trim().to_owned());
    }
    watch(&packed);
    let packed = fs::read_to_string(packed).ok()?;
    packed.lines().find_map(|line| line.strip_suffix(name.trim())?.split(' ').next().map(ToOwned::to_owned))
}
