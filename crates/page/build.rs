//! Makes a table of the files that `npm run build` left in `web/dist`.
//!
//! Without that folder the program is built without a page: whoever works on something else needs no Node.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    // Asked when it runs: a target folder may be shared by clones, and this program with it.
    let here = env::var_os("CARGO_MANIFEST_DIR").ok_or_else(|| io::Error::other("cargo sets CARGO_MANIFEST_DIR"))?;
    let dist = Path::new(&here).join("../../web/dist");
    println!("cargo::rerun-if-changed={}", dist.display());
    let mut files = Vec::new();
    if dist.is_dir() {
        collect(&dist, &mut files)?;
        files.sort();
    }
    let mut table = String::from("&[\n");
    for file in files.iter().filter(|file| file.extension().is_none_or(|ending| ending != "br")) {
        let name = file.strip_prefix(&dist).map_err(io::Error::other)?.to_string_lossy().into_owned();
        let packed = PathBuf::from(format!("{}.br", file.display()));
        let brotli = if packed.exists() { format!("Some(include_bytes!({packed:?}))") } else { "None".to_owned() };
        writeln!(table, "File {{ name: {name:?}, plain: include_bytes!({file:?}), brotli: {brotli} }},")
            .map_err(io::Error::other)?;
    }
    table.push(']');
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo sets OUT_DIR"))?;
    fs::write(Path::new(&out).join("files.rs"), table)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { collect(&path, files)? } else { files.push(path) }
    }
    Ok(())
}
