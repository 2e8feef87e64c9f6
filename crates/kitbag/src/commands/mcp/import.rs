//! `kitbag mcp import`: finds the servers that other programs use, shows them, and takes those that are wanted.

use std::path::Path;
use std::process::ExitCode;

use kitbag_formats::clients::{Client as Program, Readable};
use kitbag_model::{McpServer, RawLaunch};
use kitbag_server::elsewhere::places::{self, Place};
use kitbag_server::elsewhere::{self, Candidate};
use serde_json::{Value, json};

use super::{SERVERS, agrees, ask};
use crate::cli::ImportServers;
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Output, table, text};
use crate::visible;

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
    let mut body = json!({ "name": one.display_name(), "serverType": raw.server_type, "enabled": server.enabled });
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

fn find(flags: &ImportServers, output: &Output) -> Result<Vec<Candidate>, Failure> {
    let places = match flags.from.as_deref() {
        None => places::all(),
        Some(from) => match Program::find(from) {
            Some(program) => places::all().into_iter().filter(|place| place.client == Some(program)).collect(),
            None => vec![file_of(from)?],
        },
    };
    let named = flags.from.as_deref().filter(|from| Program::find(from).is_none()).and(places.first());
    let (found, unread) = elsewhere::look(&places);
    let Some(place) = named else {
        for one in unread {
            output.note(&format!("{}: {}", one.file.display(), visible::line(&one.reason)));
        }
        return Ok(found);
    };
    let wrong = |reason: &str| Err(Failure::wrong_use(format!("{}: {reason}", place.file.display())));
    match unread.first() {
        Some(one) => wrong(&one.reason),
        None if !place.file.is_file() => wrong("there is no such file"),
        None if found.is_empty() => wrong("there is no server in it"),
        None => Ok(found),
    }
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

/// Marks what is there already.
async fn mark_known(client: &Client, found: &mut [Candidate]) -> Result<(), Failure> {
    let servers = client.get(SERVERS).await?;
    let there = servers["items"].as_array().into_iter().flatten();
    elsewhere::mark_known(found, there.map(|server| text(server, "fingerprint").to_owned()));
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
                if let Err(why) = &found[*one].server {
                    return Err(Failure::wrong_use(format!("{wanted} cannot be taken: {why}")));
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
                Err(why) => return Err(Failure::wrong_use(format!("{word} cannot be taken: {why}"))),
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
            "problems": one.server.as_ref().err().map(|why| why.problems.as_slice()).unwrap_or_default(),
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
            (Err(why), _) => format!("cannot be taken: {}", visible::line(&why.to_string())),
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
