//! `kitbag mcp import`: finds the servers that other programs use, shows them, and takes those that are wanted.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use kitbag_formats::clients::{Client as Program, Readable, Reader};
use kitbag_model::{Launch, McpServer, RawLaunch, Template};
use serde_json::{Value, json};

use super::places::{self, Place};
use super::{SERVERS, agrees, ask};
use crate::cli::ImportServers;
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Output, table, text};
use crate::visible;

/// The most bytes of a file: some programs keep their whole history beside their servers.
const LARGEST: u64 = 64 * 1024 * 1024;

/// A server that was found.
struct Candidate {
    name: String,
    program: Option<Program>,
    file: PathBuf,
    project: Option<String>,
    /// Whether it is in a file of the user's own. A folder that somebody cloned must not start programs by what is in it.
    own: bool,
    server: Result<Readable, Vec<String>>,
    /// Whether exactly this is there already, or stands further up in the list.
    known: bool,
}

pub(super) async fn run(client: &Client, flags: &ImportServers, output: &Output) -> Result<ExitCode, Failure> {
    let mut found = find(flags, output)?;
    mark_known(client, &mut found).await?;
    let chosen: Vec<usize> = if flags.all {
        all(&found, flags, output)
    } else if !flags.names.is_empty() {
        by_name(&found, &flags.names)?
    } else if output.has_person() && !flags.yes && found.iter().any(|one| one.server.is_ok()) {
        output.note(&shown(&found));
        match ask("Which do you want? (numbers or names, all; nothing for none)")?.as_str() {
            "all" => all(&found, flags, output),
            answer => by_answer(&found, answer)?,
        }
    } else {
        return output.result(&listed(&found), |_| {
            let hint = "Take some with: kitbag mcp import NAME…, or: kitbag mcp import --all";
            if found.is_empty() { shown(&found) } else { format!("{}\n{hint}", shown(&found)) }
        });
    };
    take(client, &found, &chosen, flags, output).await
}

async fn take(
    client: &Client,
    found: &[Candidate],
    chosen: &[usize],
    flags: &ImportServers,
    output: &Output,
) -> Result<ExitCode, Failure> {
    let (mut added, mut notes, mut failed) = (Vec::new(), Vec::new(), Vec::new());
    for one in chosen.iter().map(|index| &found[*index]) {
        let Ok(readable) = &one.server else { continue };
        let keep = !readable.written_out.is_empty() && (flags.keep_values || keeps(one, readable, flags, output)?);
        let server = if keep { readable.with_values() } else { readable.server.clone() };
        let told = readable
            .notes
            .iter()
            .filter(|note| !keep || readable.written_out.iter().all(|w| !note.starts_with(&w.place)));
        notes.extend(told.map(|note| format!("{}: {note}", one.name)));
        match client.post(SERVERS, &body(one, server, one.own || flags.trust)).await {
            Ok(made) => added.push(made),
            Err(failure) => failed.push(json!({ "name": one.name, "message": failure.message })),
        }
    }
    let result = json!({ "added": added, "notes": notes, "failed": failed });
    output.result(&result, |_| {
        let mut lines: Vec<String> = added
            .iter()
            .map(|server| {
                let (id, starts) = (text(server, "id"), visible::line(text(server, "commandLine")));
                let trusted = server["trusted"] == true;
                let hint =
                    if trusted { String::new() } else { format!("\n  it may start after: kitbag mcp trust {id}") };
                format!("added {id}:\n  {starts}{hint}")
            })
            .collect();
        lines.extend(notes.iter().map(|note| format!("note: {}", visible::line(note))));
        let told = |one: &Value| {
            format!("not added: {}: {}", visible::line(text(one, "name")), visible::line(text(one, "message")))
        };
        lines.extend(failed.iter().map(told));
        if lines.is_empty() { "Nothing was added.".to_owned() } else { lines.join("\n") }
    })?;
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether to keep the values that look like secrets, if there is somebody to ask.
fn keeps(one: &Candidate, readable: &Readable, flags: &ImportServers, output: &Output) -> Result<bool, Failure> {
    if flags.yes || !output.has_person() {
        return Ok(false);
    }
    let places: Vec<String> = readable.written_out.iter().map(|one| visible::line(&one.place)).collect();
    agrees(&format!(
        "{}: {} are written out in the file. Keep the values here? If not, they become variables that you set.",
        visible::line(&one.name),
        places.join(", ")
    ))
}

/// What the API is told of a server.
fn body(one: &Candidate, server: McpServer, trust: bool) -> Value {
    let raw = RawLaunch::from(&server.launch);
    let mut body = json!({ "name": name(&one.name), "serverType": raw.server_type, "enabled": server.enabled });
    let mut put = |field: &str, value: Option<Value>| {
        if let Some(value) = value {
            body[field] = value;
        }
    };
    put("trust", (!trust).then_some(Value::Bool(false)));
    put("command", raw.command.map(Value::from));
    put("cwd", raw.cwd.map(Value::from));
    put("url", raw.url.map(Value::from));
    put("args", Some(raw.args).filter(|args| !args.is_empty()).map(Value::from));
    put("env", Some(raw.env).filter(|env| !env.is_empty()).map(|env| json!(env)));
    put("headers", Some(raw.headers).filter(|headers| !headers.is_empty()).map(|headers| json!(headers)));
    put("description", server.description.map(|text| Value::from(text.as_str())));
    body
}

/// A name that people can read, of what a file calls a server.
fn name(name: &str) -> String {
    let line: String = name.chars().filter(|c| !kitbag_model::safe_text::is_hidden(*c)).take(120).collect();
    if line.trim().is_empty() { "mcp-server".to_owned() } else { line.trim().to_owned() }
}

fn find(flags: &ImportServers, output: &Output) -> Result<Vec<Candidate>, Failure> {
    let places = match flags.from.as_deref() {
        None => places::all(),
        Some(from) => match Program::find(from) {
            Some(program) => places::all().into_iter().filter(|place| place.client == Some(program)).collect(),
            None => vec![file_of(from)?],
        },
    };
    let named = flags.from.as_deref().is_some_and(|from| Program::find(from).is_none());
    let mut reader = Reader::default();
    let mut found = Vec::new();
    for place in places {
        let read = bytes_of(&place.file).and_then(|bytes| match bytes {
            Some(bytes) => reader.read(place.client, &bytes, &place.file.to_string_lossy()),
            None if named => Err("there is no such file".to_owned()),
            None => Ok(Vec::new()),
        });
        match read {
            Ok(servers) if servers.is_empty() && named => {
                return Err(Failure::wrong_use(format!("{}: there is no server in it", place.file.display())));
            }
            Ok(servers) => found.extend(servers.into_iter().map(|one| candidate(&place, one))),
            Err(reason) if named => {
                return Err(Failure::wrong_use(format!("{}: {reason}", place.file.display())));
            }
            // One program's broken file must not hide the others'.
            Err(reason) => output.note(&format!("{}: {}", place.file.display(), visible::line(&reason))),
        }
    }
    Ok(found)
}

/// A file that was named. Which program's it is follows from where it would be, or from what is in it.
fn file_of(text: &str) -> Result<Place, Failure> {
    let file = Path::new(text);
    if !file.exists() {
        let known: Vec<&str> = Program::ALL.iter().map(|program| program.key()).collect();
        return Err(Failure::wrong_use(format!(
            "{text} is neither a file nor a program; the programs are {}",
            known.join(", ")
        )));
    }
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let known = places::all().into_iter().find(|place| place.file == file);
    Ok(known.unwrap_or(Place { client: None, file, project: None, own: false }))
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

fn candidate(place: &Place, found: kitbag_formats::clients::Found) -> Candidate {
    let project = found.project.clone().or_else(|| place.project.as_ref().map(|path| path.display().to_string()));
    let mut server = found.server;
    // A project's server is started in the project's folder, and its paths are meant from there.
    if let (Ok(Readable { server: McpServer { launch: Launch::Stdio { cwd, .. }, .. }, .. }), Some(project)) =
        (&mut server, &project)
    {
        cwd.get_or_insert_with(|| Template::literal(project));
    }
    let (program, file, own) = (place.client, place.file.clone(), place.own);
    Candidate { name: found.name, program, file, project, own, server, known: false }
}

/// Marks what is there already, and what was found before in another place.
async fn mark_known(client: &Client, found: &mut [Candidate]) -> Result<(), Failure> {
    let servers = client.get(SERVERS).await?;
    let there = servers["items"].as_array().into_iter().flatten();
    let mut known: HashSet<String> = there.map(|server| text(server, "fingerprint").to_owned()).collect();
    for one in found {
        if let Ok(readable) = &one.server {
            let with = readable.with_values().fingerprint().to_string();
            let without = readable.server.fingerprint().to_string();
            one.known = known.contains(&with) || known.contains(&without);
            known.extend([with, without]);
        }
    }
    Ok(())
}

/// The servers of these names. One name may stand for several servers in several files; then somebody must say which.
fn by_name(found: &[Candidate], names: &[String]) -> Result<Vec<usize>, Failure> {
    let mut chosen = Vec::new();
    for wanted in names {
        let all: Vec<usize> = (0..found.len()).filter(|index| found[*index].name == *wanted).collect();
        let new: Vec<usize> = all.iter().copied().filter(|index| !found[*index].known).collect();
        match (all.as_slice(), new.as_slice()) {
            ([], _) => return Err(Failure::failed(format!("no program has a server {wanted:?}"))),
            (_, []) => {}
            (_, [one]) => {
                if let Err(problems) = &found[*one].server {
                    return Err(Failure::wrong_use(format!("{wanted} cannot be taken: {}", problems.join("; "))));
                }
                chosen.push(*one);
            }
            (_, several) => {
                let files: Vec<String> = several.iter().map(|index| found[*index].file.display().to_string()).collect();
                return Err(Failure::wrong_use(format!(
                    "several servers are called {wanted:?}; say --from one of: {}",
                    files.join(", ")
                )));
            }
        }
    }
    Ok(chosen)
}

/// All that can be taken without a word about each: the user's own, and those of a file or a folder that was named.
fn all(found: &[Candidate], flags: &ImportServers, output: &Output) -> Vec<usize> {
    let named = flags.project || flags.from.as_deref().is_some_and(|from| Program::find(from).is_none());
    let new = |one: &Candidate| one.server.is_ok() && !one.known;
    let left: Vec<String> =
        found.iter().filter(|one| new(one) && !one.own && !named).map(|one| visible::line(&one.name)).collect();
    if !left.is_empty() {
        let left = left.join(", ");
        output.note(&format!("of this folder's files, and taken only by name or with --project: {left}"));
    }
    (0..found.len()).filter(|index| new(&found[*index]) && (found[*index].own || named)).collect()
}

/// The servers that an answer names.
fn by_answer(found: &[Candidate], answer: &str) -> Result<Vec<usize>, Failure> {
    let mut chosen = Vec::new();
    for word in answer.split([',', ' ']).filter(|word| !word.is_empty()) {
        match word.parse::<usize>().ok().and_then(|number| number.checked_sub(1)).filter(|index| *index < found.len()) {
            Some(index) => match &found[index].server {
                Ok(_) => chosen.push(index),
                Err(problems) => {
                    return Err(Failure::wrong_use(format!("{word} cannot be taken: {}", problems.join("; "))));
                }
            },
            None => chosen.extend(by_name(found, &[word.to_owned()])?),
        }
    }
    chosen.dedup();
    Ok(chosen)
}

fn starts(one: &Candidate) -> String {
    one.server.as_ref().map(|readable| readable.server.launch.command_line()).unwrap_or_default()
}

fn listed(found: &[Candidate]) -> Value {
    let one = |one: &Candidate| {
        let readable = one.server.as_ref().ok();
        json!({
            "name": one.name,
            "program": one.program.map(Program::key),
            "file": one.file,
            "project": one.project,
            "own": one.own,
            "known": one.known,
            "serverType": readable.map(|readable| readable.server.launch.server_type().to_string()),
            "commandLine": readable.map(|_| starts(one)),
            "notes": readable.map(|readable| readable.notes.clone()).unwrap_or_default(),
            "writtenOut": readable.map(|readable| readable.written_out.iter().map(|one| &one.place).collect::<Vec<_>>()).unwrap_or_default(),
            "problems": one.server.as_ref().err().cloned().unwrap_or_default(),
        })
    };
    json!({ "items": found.iter().map(one).collect::<Vec<_>>() })
}

fn shown(found: &[Candidate]) -> String {
    if found.is_empty() {
        return "No other program on this machine has an MCP server that could be found.".to_owned();
    }
    let row = |(index, one): (usize, &Candidate)| {
        let state = match (&one.server, one.known) {
            (Err(problems), _) => format!("cannot be taken: {}", visible::line(&problems.join("; "))),
            (Ok(_), true) => format!("{}  (known)", starts(one)),
            (Ok(_), false) => starts(one),
        };
        let program = one.program.map_or("", Program::name);
        let place = match &one.project {
            Some(project) => format!("{program}, {}", visible::line(project)),
            None => program.to_owned(),
        };
        [(index + 1).to_string(), visible::line(&one.name), place, state]
    };
    table(["", "SERVER", "OF", "STARTS"], &found.iter().enumerate().map(row).collect::<Vec<_>>())
}
