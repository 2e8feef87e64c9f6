//! Other people's files: what each becomes here, what is left behind, and what is refused.
//!
//! The fixtures are written for these tests, in the shapes that published files have.
#![allow(clippy::unwrap_used, missing_docs)]

mod detection;
mod hostile;
mod mcpb;
mod plugin;
mod properties;
mod registry;
mod servers;
mod skill;

use kitbag_formats::archive::{ArchiveWriter, Limits};
use kitbag_formats::bundle::{Bundle, Content, Refused};
use kitbag_formats::import::{Imported, Input, Kind, Options};
use kitbag_formats::manifest;

const REPLACE: Options = Options { replace_literals: true };

/// An archive with these files.
fn zip(files: &[(&str, &str)]) -> Vec<u8> {
    let mut files = files.to_vec();
    files.sort();
    let mut writer = ArchiveWriter::new(Vec::new());
    for (path, content) in files {
        writer.file(&path.parse().unwrap(), path.ends_with(".sh"), &mut content.as_bytes()).unwrap();
    }
    writer.finish().unwrap()
}

/// Reads what must be good, and holds it to what everything that is imported must fulfil.
fn import(bytes: &[u8], name: &str, options: Options) -> Imported {
    let imported = attempt(bytes, name, options).unwrap_or_else(|refused| panic!("{name}: {refused}"));
    check(bytes, &imported);
    imported
}

fn attempt(bytes: &[u8], name: &str, options: Options) -> Result<Imported, Refused> {
    Input::open(bytes, &Limits::BUNDLE)?.read(Some(name), &options)
}

/// The manifest says the whole definition; the files are sorted and there once; exported, it is the same toolset.
fn check(bytes: &[u8], imported: &Imported) {
    let Bundle { definition, files, skills, .. } = &imported.bundle;
    let written = manifest::write(definition);
    assert_eq!(&manifest::read(written.as_bytes()).unwrap().definition, definition, "{written}");
    assert!(files.is_sorted_by(|a, b| a.path < b.path));
    let input = Input::open(bytes, &Limits::BUNDLE).unwrap();
    let mut writer = ArchiveWriter::new(Vec::new());
    for file in files {
        let content = match &file.content {
            Content::Made(bytes) => bytes.clone(),
            Content::Entry(number) => {
                let archive = input.archive().unwrap();
                archive.read(&archive.entries()[*number]).unwrap()
            }
        };
        if file.path.as_str() == "toolset.yaml" && imported.kind != Kind::Toolset {
            assert_eq!(String::from_utf8_lossy(&content), written);
        }
        writer.file(&file.path, file.executable, &mut &content[..]).unwrap();
    }
    let exported = writer.finish().unwrap();
    let again = attempt(&exported, "again.zip", Options::default()).unwrap();
    assert_eq!(&again.bundle.definition, definition);
    assert_eq!(&again.bundle.skills, skills);
    assert_eq!(again.bundle.files.len(), files.len());
}

/// What is wrong with what must be refused.
fn refused(bytes: &[u8], name: &str) -> String {
    match attempt(bytes, name, Options::default()) {
        Ok(imported) => panic!("{name} is taken as {:?}", imported.kind),
        Err(refused) => refused.to_string(),
    }
}

/// The servers as a manifest writes them.
fn servers(imported: &Imported) -> String {
    let text = manifest::write(&imported.bundle.definition);
    text.split_once("mcp_servers:\n").map_or(String::new(), |(_, servers)| servers.to_owned())
}

fn warnings(imported: &Imported) -> String {
    imported.bundle.warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Each of these must be in the text.
fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
}
