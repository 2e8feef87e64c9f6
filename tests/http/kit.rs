//! What tests of toolsets share: bundles made in memory, a way in and out, and a picture of everything that there is.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use kitbag_formats::archive::{Archive, ArchiveWriter, Limits};
pub(crate) use kitbag_testkit::shelf::on_disk;
use kitbag_testkit::shelf::{Files, Found};
use kitbag_testkit::{Answer, Server, TestDatabase};
use reqwest::{Method, header};
use serde_json::Value;

use crate::whole_list;

pub(crate) const TOOLSETS: &str = "/v1/orgs/local/toolsets";
pub(crate) const TOOLS: &str = "/v1/orgs/local/tools";
pub(crate) const SERVERS: &str = "/v1/orgs/local/mcp-servers";

/// The least that a manifest has, with more lines.
pub(crate) fn manifest(id: &str, version: &str, more: &str) -> String {
    format!("id: {id}\nname: A toolset\nversion: \"{version}\"\n{more}")
}

/// An archive with these files; `*` in front of a name makes a file executable.
pub(crate) fn bundle(files: &[(&str, &str)]) -> Vec<u8> {
    let mut files: Vec<(bool, &str, &str)> =
        files.iter().map(|(name, text)| (name.starts_with('*'), name.trim_start_matches('*'), *text)).collect();
    files.sort_by_key(|(_, name, _)| *name);
    let mut archive = ArchiveWriter::new(Vec::new());
    for (executable, name, text) in files {
        archive.file(&name.parse().unwrap(), executable, &mut text.as_bytes()).unwrap();
    }
    archive.finish().unwrap()
}

/// A bundle with a manifest of its own and one module, `tools/t.py`, for entrypoints.
pub(crate) fn with_manifest(text: &str) -> Vec<u8> {
    bundle(&[("toolset.yaml", text), ("tools/t.py", "def f(workspace): pass\n")])
}

/// A folder of this machine as a bundle.
pub(crate) fn pack(folder: &Path) -> Vec<u8> {
    let files = on_disk(folder);
    let mut archive = ArchiveWriter::new(Vec::new());
    for (path, file) in &files {
        let mut content = fs::File::open(folder.join(path)).unwrap();
        archive.file(&path.parse().unwrap(), file.executable, &mut content).unwrap();
    }
    archive.finish().unwrap()
}

/// The example that comes with the program.
pub(crate) fn example() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/app-builder")
}

/// Everything that an archive holds, unpacked.
pub(crate) fn unpacked(bytes: &[u8]) -> BTreeMap<String, (bool, Vec<u8>)> {
    let archive = Archive::open(bytes, &Limits::BUNDLE).unwrap();
    let read = |entry: &kitbag_formats::archive::Entry| {
        (entry.path().to_string(), (entry.executable(), archive.read(entry).unwrap()))
    };
    archive.entries().iter().map(read).collect()
}

/// The manifest in a bundle.
pub(crate) fn manifest_of(bytes: &[u8]) -> String {
    String::from_utf8(unpacked(bytes)["toolset.yaml"].1.clone()).unwrap()
}

pub(crate) async fn import(server: &Server, query: &str, bytes: &[u8]) -> Answer {
    let request = server.request(Method::POST, &format!("{TOOLSETS}/import{query}"));
    Answer::of(request.header(header::CONTENT_TYPE, "application/zip").body(bytes.to_vec())).await
}

pub(crate) async fn export(server: &Server, id: &str) -> Vec<u8> {
    let answer = server.request(Method::GET, &format!("{TOOLSETS}/{id}/export")).send().await.unwrap();
    assert_eq!(answer.status(), 200, "{:?}", answer.text().await);
    assert_eq!(answer.headers()[header::CONTENT_TYPE], "application/zip");
    answer.bytes().await.unwrap().to_vec()
}

pub(crate) async fn put(server: &Server, path: &str, body: &Value) -> Answer {
    Answer::of(server.request(Method::PUT, path).json(body)).await
}

pub(crate) fn override_path(id: &str, key: &str) -> String {
    let key: String = key.bytes().map(|byte| format!("%{byte:02X}")).collect();
    format!("{TOOLSETS}/{id}/overrides/{key}")
}

/// A tool with where its values come from.
pub(crate) async fn tool(server: &Server, id: &str) -> Value {
    server.get(&format!("{TOOLS}/{id}")).await.expect(200)
}

/// Everything that there is: every file below the data folder but the database's own and the log, everything in the bucket if there is one, and
/// every list of the API.
#[derive(Debug, PartialEq)]
pub(crate) struct Picture {
    pub(crate) files: Files,
    pub(crate) lists: Vec<(String, Vec<Value>)>,
}

impl Picture {
    pub(crate) async fn take(server: &Server, database: &TestDatabase) -> Self {
        let mut files = database.all_files().await;
        // What the program itself keeps there is nobody's toolset: it is written when it is first needed.
        let own =
            |path: &str| path.starts_with("kitbag.db") || path.starts_with("runtime/") || path == "test-server.log";
        files.retain(|path, _| !own(path));
        let mut lists = Vec::new();
        for path in [TOOLSETS, TOOLS, SERVERS, "/v1/orgs/local/available-tools", "/v1/orgs/local/chats"] {
            let items = match path {
                TOOLSETS | TOOLS => whole_list(server, path, 200).await,
                _ => server.get(path).await.expect(200)["items"].as_array().unwrap().clone(),
            };
            lists.push((path.to_owned(), items));
        }
        for id in lists[0].1.iter().map(|toolset| toolset["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>() {
            let at = format!("{TOOLSETS}/{id}");
            lists.push((at.clone(), vec![server.get(&at).await.expect(200)]));
            lists.push((format!("{at}/files"), whole_list(server, &format!("{at}/files"), 200).await));
            let overrides = server.get(&format!("{at}/overrides")).await.expect(200)["items"].clone();
            lists.push((format!("{at}/overrides"), overrides.as_array().unwrap().clone()));
        }
        lists.iter_mut().flat_map(|(_, items)| items).for_each(at_rest);
        Self { files, lists }
    }

    /// Nothing is left of what came and was refused.
    #[track_caller]
    pub(crate) fn assert_tidy(&self) {
        let left: Vec<&String> =
            self.files.keys().filter(|path| path.starts_with("inbox/") || path.contains(".staged/")).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// Takes away what changes about a server by itself.
fn at_rest(value: &mut Value) {
    match value {
        Value::Object(object) => {
            if object.contains_key("serverType") {
                for live in ["status", "reason", "since", "error", "stderr"] {
                    object.remove(live);
                }
            }
            object.values_mut().for_each(at_rest);
        }
        Value::Array(items) => items.iter_mut().for_each(at_rest),
        _ => {}
    }
}

/// What the rows say about a toolset's files is what is kept.
pub(crate) async fn assert_files_agree(server: &Server, database: &TestDatabase, id: &str) {
    let rows = whole_list(server, &format!("{TOOLSETS}/{id}/files"), 200).await;
    let said: Files = rows
        .iter()
        .map(|file| {
            let found = Found {
                sha256: file["sha256"].as_str().unwrap().to_owned(),
                executable: file["executable"].as_bool().unwrap(),
            };
            (file["path"].as_str().unwrap().to_owned(), found)
        })
        .collect();
    assert_eq!(said, database.files_of_toolset("local", id).await);
}
