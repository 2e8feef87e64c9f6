//! The MCP servers that other programs on this machine use: found in their files, read, and made ready to be taken. The command line and
//! the API look here, so that both find the same and take it by the same rules.

pub mod places;

use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use kitbag_formats::clients::{Client, Found, Readable, Reader, Unreadable};
use kitbag_model::hash::Hasher;
use kitbag_model::{ContentHash, Launch, McpServer, Template};
use serde_json::{Map, Value, json};

use places::Place;

/// The most bytes of a file: some programs keep their whole history beside their servers.
const LARGEST: u64 = 64 * 1024 * 1024;

/// What a server is called whose text has no name for it.
const NAMELESS: &str = "mcp-server";

/// A server that was found.
pub struct Candidate {
    /// What it is called there.
    pub name: String,
    /// The program whose file it is in, if that is known.
    pub program: Option<Client>,
    /// The file; empty for a text that is in none.
    pub file: PathBuf,
    /// The folder that it is for, if it is a project's.
    pub project: Option<String>,
    /// Whether it is in a file of the user's own. A folder that somebody cloned must not start programs by what is in it.
    pub own: bool,
    /// The server, or everything that keeps it from being taken.
    pub server: Result<Readable, Unreadable>,
    /// Whether exactly this is there already, or stands further up in the list.
    pub known: bool,
}

impl Candidate {
    fn new(place: &Place, found: Found) -> Self {
        let project = found.project.clone().or_else(|| place.project.as_ref().map(|path| path.display().to_string()));
        let mut server = found.server;
        // A project's server is started in the project's folder, and its paths are meant from there.
        if let (Ok(Readable { server: McpServer { launch: Launch::Stdio { cwd, .. }, .. }, .. }), Some(project)) =
            (&mut server, &project)
        {
            cwd.get_or_insert_with(|| Template::literal(project));
        }
        let (program, file, own) = (place.client, place.file.clone(), place.own);
        Self { name: found.name, program, file, project, own, server, known: false }
    }

    /// A name that people can read, of what a file calls it.
    pub fn display_name(&self) -> String {
        let line: String = self.name.chars().filter(|c| !kitbag_model::safe_text::is_hidden(*c)).take(120).collect();
        if line.trim().is_empty() { NAMELESS.to_owned() } else { line.trim().to_owned() }
    }

    /// What stands for exactly this server in exactly this place: whoever chose it means what was shown.
    pub fn id(&self) -> ContentHash {
        let mut hasher = Hasher::default();
        let mut text = |text: &str| {
            hasher.update(&(text.len() as u64).to_be_bytes());
            hasher.update(text.as_bytes());
        };
        text(&self.file.to_string_lossy());
        text(self.project.as_deref().unwrap_or_default());
        text(&self.name);
        if let Ok(readable) = &self.server {
            text(&readable.server.fingerprint().to_string());
        }
        hasher.finish()
    }
}

/// A file that is there and could not be read.
pub struct Unread {
    /// Which.
    pub file: PathBuf,
    /// Why. It repeats nothing of what is in the file.
    pub reason: String,
}

/// All servers in these places. One program's broken file does not hide the others'.
pub fn look(places: &[Place]) -> (Vec<Candidate>, Vec<Unread>) {
    let mut reader = Reader::default();
    let (mut found, mut unread) = (Vec::new(), Vec::new());
    for place in places {
        let read = bytes_of(&place.file).and_then(|bytes| match bytes {
            Some(bytes) => reader.read(place.client, &bytes, &place.file.to_string_lossy()),
            None => Ok(Vec::new()),
        });
        match read {
            Ok(servers) => found.extend(servers.into_iter().map(|one| Candidate::new(place, one))),
            Err(reason) => unread.push(Unread { file: place.file.clone(), reason }),
        }
    }
    (found, unread)
}

/// The servers of a text that somebody has copied from somewhere: a whole file, a part of one, or one server.
pub fn read(text: &str) -> Result<Vec<Candidate>, String> {
    let text = text.trim().trim_end_matches(',');
    let is_json = text.starts_with(['{', '"', '/']);
    let text = if text.starts_with('"') { format!("{{{text}}}") } else { text.to_owned() };
    let place = Place { client: None, file: PathBuf::new(), project: None, own: false };
    let read = Reader::default().read(
        None,
        whole(&text).as_deref().unwrap_or(&text).as_bytes(),
        if is_json { "text.json" } else { "text.toml" },
    )?;
    Ok(read.into_iter().map(|one| Candidate::new(&place, one)).collect())
}

/// A file around a part of one, if it is a part.
fn whole(text: &str) -> Option<String> {
    let part: Map<String, Value> = serde_json::from_str(text).ok()?;
    let is_server = |value: &Map<String, Value>| {
        ["command", "url", "httpUrl", "serverUrl"]
            .iter()
            .any(|key| value.get(*key).is_some_and(|value| !value.is_null()))
    };
    let servers = if is_server(&part) {
        json!({ NAMELESS: part })
    } else if !part.is_empty() && part.values().all(|value| value.as_object().is_some_and(is_server)) {
        Value::Object(part)
    } else {
        return None;
    };
    Some(json!({ "mcpServers": servers }).to_string())
}

/// Marks what is there already, by the fingerprints of that, and what was found before in another place.
pub fn mark_known(found: &mut [Candidate], there: impl IntoIterator<Item = String>) {
    let mut known: HashSet<String> = there.into_iter().collect();
    for one in found {
        if let Ok(readable) = &one.server {
            let with = readable.with_values().fingerprint().to_string();
            let without = readable.server.fingerprint().to_string();
            one.known = known.contains(&with) || known.contains(&without);
            known.extend([with, without]);
        }
    }
}

/// What is in a file; none if there is none.
fn bytes_of(path: &Path) -> Result<Option<Vec<u8>>, String> {
    let told = |error: std::io::Error| error.to_string();
    let Ok(data) = path.metadata() else { return Ok(None) };
    if !data.is_file() {
        return Ok(None);
    }
    if data.len() > LARGEST {
        return Err("it is too large".to_owned());
    }
    let mut bytes = Vec::new();
    File::open(path).map_err(told)?.take(LARGEST).read_to_end(&mut bytes).map_err(told)?;
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Result<Vec<String>, String> {
        let line = |one: &Candidate| match &one.server {
            Ok(readable) => format!("{}: {}", one.name, readable.server.launch.command_line()),
            Err(why) => format!("{}! {}", one.name, why.problems.len()),
        };
        read(text).map(|found| found.iter().map(line).collect())
    }

    #[test]
    fn a_file_a_part_of_one_and_one_server() {
        for text in [
            r#"{"mcpServers": {"files": {"command": "npx", "args": ["-y", "fs"]}}}"#,
            r#" {"files": {"command": "npx", "args": ["-y", "fs"]}} "#,
            r#""files": {"command": "npx", "args": ["-y", "fs"]},"#,
            "// copied\n{\"servers\": {\"files\": {\"command\": \"npx\", \"args\": [\"-y\", \"fs\"]}}}",
            "[mcp_servers.files]\ncommand = \"npx\"\nargs = [\"-y\", \"fs\"]\n",
        ] {
            assert_eq!(names(text), Ok(vec!["files: npx -y fs".to_owned()]), "{text}");
        }
        assert_eq!(
            names(r#"{"url": "https://w.example/mcp"}"#),
            Ok(vec!["mcp-server: https://w.example/mcp".to_owned()])
        );
        assert_eq!(names(r#"{"theme": "dark"}"#), Ok(vec![]));
        assert!(names("hunter2 {").is_err_and(|reason| !reason.contains("hunter2")));
    }

    #[test]
    fn what_stands_for_a_server_changes_with_it() {
        let id = |text: &str| read(text).unwrap()[0].id();
        let text = r#"{"a": {"command": "x", "env": {"MODE": "1"}}}"#;
        assert_eq!(id(text), id(text));
        for other in [text.replace("\"x\"", "\"y\""), text.replace("\"1\"", "\"2\""), text.replace("\"a\"", "\"b\"")] {
            assert_ne!(id(text), id(&other), "{other}");
        }
    }
}
