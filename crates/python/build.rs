//! Lists the Python files that the program carries with it, so that no list has to be kept by hand.

use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    // Asked when it runs: a target folder may be shared by clones, and this program with it.
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where"));
    let packages = here.join("../../python").canonicalize().expect("the packages");
    let mut files = Vec::new();
    for package in ["covalt_toolset", "kitbag_builtin", "kitbag_worker"] {
        let folder = packages.join(package);
        println!("cargo::rerun-if-changed={}", folder.display());
        if folder.is_dir() {
            collect(&folder, &mut files);
        }
    }
    files.sort();
    let entries: Vec<String> = files.iter().map(|file| entry(&packages, file)).collect();
    let target = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo says where")).join("packages.rs");
    fs::write(target, format!("&[{}]", entries.join(","))).expect("write the list");
}

fn entry(packages: &Path, file: &Path) -> String {
    let name = file.strip_prefix(packages).expect("it is below").display().to_string();
    format!("({name:?}, include_str!({:?}))", file.display().to_string())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        let name = entry.file_name().expect("a name").to_string_lossy().into_owned();
        if entry.is_dir() && name != "__pycache__" && name != "tests" {
            collect(&entry, files);
        } else if name.ends_with(".py") || name == "py.typed" {
            files.push(entry);
        }
    }
}
