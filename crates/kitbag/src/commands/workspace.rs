//! `kitbag workspace`

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use kitbag_model::WorkPath;
use serde_json::{Value, json};

use crate::cli::{Place, WorkspaceCommand};
use crate::client::{Client, segment};
use crate::failure::Failure;
use crate::file_body::FileBody;
use crate::output::{Output, plain, table, text};

/// What a file is sent as: its name says what it is.
const BYTES: &str = "application/octet-stream";

pub(crate) async fn run(
    place: &Place,
    chat: Option<String>,
    command: WorkspaceCommand,
    output: &Output,
) -> Result<ExitCode, Failure> {
    let chat = chat.ok_or_else(|| Failure::wrong_use("say which chat: --chat CHAT. `kitbag chat list` shows them"))?;
    let client = Client::open(place).await?;
    let base = format!("/v1/orgs/local/chats/{}/workspace", segment(&chat));
    let done = dispatch(&client, &base, command, output).await;
    client.close().await;
    done
}

async fn dispatch(
    client: &Client,
    base: &str,
    command: WorkspaceCommand,
    output: &Output,
) -> Result<ExitCode, Failure> {
    match command {
        WorkspaceCommand::Ls { manifest } => {
            let files = client.list(&format!("{base}/files"), &of(manifest), None).await?;
            output.result(&json!({ "items": files }), |_| file_table(&files))
        }
        WorkspaceCommand::Cat { path, manifest } => {
            let query = of(manifest).map(|query| format!("?{query}")).unwrap_or_default();
            client.download(&format!("{base}/files/{}{query}", file(&path)?), &mut io::stdout()).await?;
            Ok(ExitCode::SUCCESS)
        }
        WorkspaceCommand::Put { path, file: source } => {
            let written =
                client.put_file(&format!("{base}/files/{}", file(&path)?), FileBody::of_file(BYTES, &source)?).await?;
            output.result(&written, |written| text(written, "sha256").to_owned())
        }
        WorkspaceCommand::Upload { files, to, replace } => {
            let address = format!("{base}/uploads{}", upload_query(to.as_deref(), replace));
            let done = client.post_file(&address, FileBody::form(&named(files)?)?).await?;
            output.result(&done, uploaded)
        }
        WorkspaceCommand::Unpack { archive, to, replace } => {
            let address = format!("{base}/uploads{}", upload_query(to.as_deref(), replace));
            let done = client.post_file(&address, FileBody::of_file("application/zip", &archive)?).await?;
            output.result(&done, uploaded)
        }
        WorkspaceCommand::Download { output: target, folder, manifest } => {
            let folder =
                folder.map(|folder| format!("folder={}&", segment(folder.trim_end_matches('/')))).unwrap_or_default();
            let address = format!("{base}/archive?{folder}{}", of(manifest).unwrap_or_default());
            let size = client.save(&address, &target).await?;
            let done = json!({ "path": target, "size": size });
            output.result(&done, |_| format!("{} ({size} bytes)", target.display()))
        }
        WorkspaceCommand::Mv { from, to } => {
            let state = client.post(&format!("{base}/rename"), &json!({ "from": from, "to": to })).await?;
            output.result(&state, |state| text(state, "id").to_owned())
        }
        WorkspaceCommand::Restore { path, manifest } => {
            let body = json!({ "path": path, "manifestId": manifest });
            let state = client.post(&format!("{base}/restore"), &body).await?;
            output.result(&state, |state| text(state, "id").to_owned())
        }
        WorkspaceCommand::Rm { path } => {
            client.delete(&format!("{base}/files/{}", file(&path)?)).await?;
            output.result(&json!({ "deleted": path }), |_| format!("deleted {path}"))
        }
        WorkspaceCommand::Snapshot => {
            let manifest = client.post_nothing(&format!("{base}/snapshot")).await?;
            output.result(&manifest, |manifest| text(manifest, "id").to_owned())
        }
        WorkspaceCommand::Log { limit } => {
            let states = client.list(&format!("{base}/manifests"), &None, limit).await?;
            output.result(&json!({ "items": states }), |_| state_table(&states))
        }
        WorkspaceCommand::Diff { from, to } => {
            let diff = client.get(&format!("{base}/diff?from={}&to={}", segment(&from), segment(&to))).await?;
            output.result(&diff, changes)
        }
        WorkspaceCommand::Gc { grace } => {
            let done = client.post(&format!("{base}/gc"), &json!({ "graceSeconds": grace })).await?;
            output.result(&done, |done| {
                format!("forgot {} tree nodes and {} blobs with {} bytes", done["nodes"], done["blobs"], done["bytes"])
            })
        }
        WorkspaceCommand::Fsck => {
            let found = client.post_nothing(&format!("{base}/fsck")).await?;
            output.result(&found, check_report)?;
            Ok(if found["ok"] == true { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        WorkspaceCommand::Checkout { manifest } => {
            let state = client.post(&format!("{base}/checkout"), &json!({ "manifestId": manifest })).await?;
            output.result(&state, |state| text(state, "id").to_owned())
        }
    }
}

fn of(manifest: Option<String>) -> Option<String> {
    manifest.map(|manifest| format!("manifest={}", segment(&manifest)))
}

/// A path of a workspace in an address: its names, each as one segment. It is checked here, because an address with `..`
/// would become another one on its way.
fn file(path: &str) -> Result<String, Failure> {
    let checked: WorkPath = path.parse().map_err(|reason| Failure::wrong_use(format!("{path:?}: {reason}")))?;
    Ok(checked.parts().map(segment).collect::<Vec<_>>().join("/"))
}

fn upload_query(to: Option<&str>, replace: bool) -> String {
    let folder = to.map(|to| format!("&folder={}", segment(to.trim_end_matches('/')))).unwrap_or_default();
    format!("?replace={replace}{folder}")
}

/// Each file with the name that it is to have.
fn named(files: Vec<PathBuf>) -> Result<Vec<(String, PathBuf)>, Failure> {
    let name = |path: &PathBuf| path.file_name().and_then(|name| name.to_str()).map(ToOwned::to_owned);
    let wrong = |path: &PathBuf| Failure::wrong_use(format!("{}: this cannot be the name of a file", path.display()));
    files.into_iter().map(|path| Ok((name(&path).ok_or_else(|| wrong(&path))?, path))).collect()
}

fn uploaded(done: &Value) -> String {
    let files = done["files"].as_array().map(Vec::as_slice).unwrap_or_default();
    let line = |file: &Value| {
        let (path, wanted) = (plain(text(file, "path")), plain(text(file, "requestedPath")));
        if path == wanted { path } else { format!("{path} (there is a {wanted} already)") }
    };
    files.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn file_table(files: &[Value]) -> String {
    if files.is_empty() {
        return "There are no files yet. Write one with: kitbag workspace put --chat CHAT PATH FILE".to_owned();
    }
    let row = |file: &Value| {
        let mark = if file["changedInLastRun"] == true { "*" } else { "" };
        [mark.to_owned(), text(file, "mode").to_owned(), file["size"].to_string(), plain(text(file, "path"))]
    };
    table(["", "MODE", "SIZE", "PATH"], &files.iter().map(row).collect::<Vec<_>>())
}

fn state_table(states: &[Value]) -> String {
    if states.is_empty() {
        return "There are no states yet.".to_owned();
    }
    let row = |state: &Value| {
        let files = state["files"].as_object().map_or(0, serde_json::Map::len);
        [
            text(state, "id").to_owned(),
            text(state, "createdAt").to_owned(),
            text(state, "source").to_owned(),
            files.to_string(),
        ]
    };
    table(["MANIFEST", "TAKEN", "SOURCE", "FILES"], &states.iter().map(row).collect::<Vec<_>>())
}

fn check_report(found: &Value) -> String {
    let list = |field: &str| {
        found[field].as_array().into_iter().flatten().filter_map(Value::as_str).map(plain).collect::<Vec<_>>()
    };
    let mut lines =
        vec![format!("{} states, {} tree nodes, {} blobs", found["states"], found["nodes"], found["blobs"])];
    lines.extend(list("mended").iter().map(|hash| format!("mended: the blob {hash}")));
    lines.extend(list("problems").iter().map(|problem| format!("problem: {problem}")));
    if found["ok"] == true {
        lines.push("Everything is whole.".to_owned());
    }
    lines.join("\n")
}

fn changes(diff: &Value) -> String {
    let items = diff["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    if items.is_empty() {
        return "Nothing differs.".to_owned();
    }
    let one = |change: &Value| match (change["patch"].as_str(), change["renamedFrom"].as_str()) {
        (Some(patch), _) => patch.lines().map(plain).collect::<Vec<_>>().join("\n"),
        (None, Some(from)) => format!("renamed {} to {}", plain(from), plain(text(change, "path"))),
        (None, None) => format!("{} {}", text(change, "change"), plain(text(change, "path"))),
    };
    items.iter().map(one).collect::<Vec<_>>().join("\n")
}
