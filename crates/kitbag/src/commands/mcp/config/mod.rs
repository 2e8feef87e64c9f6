//! `kitbag mcp config`: what another program needs to use Kitbag, printed or written into its own file.
//!
//! The program gets a token of its own that may only use tools, never the one that may also say yes to their calls.

mod file;

use std::path::Path;
use std::process::ExitCode;

use kitbag_formats::clients::reach::{self, NAME, Settings, by_address, flag, reachable};
use kitbag_formats::clients::{Client as Program, NotWritten, Way};
use kitbag_model::{BearerToken, Secret};
use serde_json::{Value, json};

use self::file::OwnFile;
use crate::cli::{ClientConfig, Place};
use crate::client::{Client, segment};
use crate::config::Config;
use crate::data::DataFolder;
use crate::failure::Failure;
use crate::output::{Output, text};
use kitbag_server::elsewhere::places;

const TOKENS: &str = "/v1/orgs/local/tokens";

/// A token that was made for a program.
struct Made {
    id: String,
    name: String,
    secret: Secret,
}

pub(super) async fn run(
    client: &Client,
    place: &Place,
    flags: &ClientConfig,
    output: &Output,
) -> Result<ExitCode, Failure> {
    let program = Program::find(&flags.client)
        .ok_or_else(|| Failure::wrong_use(format!("{} is not a program that is known", flags.client)))?;
    if flags.toolset.is_some() && !program.dials() {
        return Err(Failure::wrong_use(format!(
            "{} dials no address, and so not that of a toolset; say --toolsets",
            program.name()
        )));
    }
    let settings = settings(flags)?;
    let prefix = check_lists(client, &settings).await?;
    let file = places::own(program);
    let mut own = match (flags.install, &file) {
        (false, _) => None,
        (true, Some(file)) => Some(OwnFile::read(file)?),
        (true, None) => return Err(Failure::wrong_use("there is no home folder, so no program has a file in it")),
    };
    let by_process = match flags.stdio || !program.dials() {
        true => Some(by_process(place, &settings)?),
        false => None,
    };
    let url = url(client, place, flags).await;
    // A file that cannot be written must not leave a token behind.
    let trial = match &by_process {
        Some(way) => way.clone(),
        None => by_address(url.as_deref().unwrap_or_default(), &prefix, "x", &settings),
    };
    let problem = refuse_early(program, own.as_ref(), &trial)?;
    if problem.is_some() {
        own = None;
    }
    let (way, made) = match by_process {
        Some(way) => (way, None),
        None => {
            let url = url?;
            let made = make_token(client, program).await?;
            (by_address(&url, &prefix, made.secret.expose(), &settings), Some(made))
        }
    };
    let configuration = program.configuration(NAME, &way);
    let (mut backup, mut ended) = (None, None);
    if let Some(own) = &own {
        let text = program.with_server(&own.text, NAME, &way).map_err(|reason| own.refused(&reason))?;
        backup = own.write(&text)?;
        ended = end_old_token(client, program, &own.text).await;
    }
    let result = json!({
        "client": program.key(),
        "name": NAME,
        "file": file,
        "installed": own.is_some(),
        "problem": problem.as_ref().map(|problem| &problem.message),
        "backup": backup,
        "entry": program.server_in(&configuration, NAME),
        "configuration": configuration,
        "url": if let Way::Http { url, .. } = &way { json!(url) } else { Value::Null },
        "token": made.as_ref().map(|made| json!({ "id": made.id, "name": made.name })),
        "revokedToken": ended,
    });
    if let Some(made) = &made {
        let ended = ended.as_ref().map(|id| format!("; the one before it, {id}, is ended")).unwrap_or_default();
        let told = format!("made the token {} for it ({}), which may use tools and no more{ended}", made.id, made.name);
        output.note(&told);
    }
    let place = file.as_deref().map(|file| file.display().to_string()).unwrap_or_default();
    if own.is_some() {
        return output.result(&result, |_| {
            let backup = backup.as_ref().map(|backup| format!("; as it was: {}", backup.display())).unwrap_or_default();
            format!("{} has {NAME} in {place}{backup}", program.name())
        });
    }
    match &problem {
        Some(problem) => output.note(&format!("error: {}. Paste this there by hand:", problem.message)),
        None if !place.is_empty() => {
            output.note(&format!("{} reads this from {place}; --install writes it there", program.name()));
        }
        None => {}
    }
    output.result(&result, |_| configuration.clone())?;
    Ok(if problem.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Says no before anything was made. A file in which a person must do it is a problem and no end: there is something to paste.
fn refuse_early(program: Program, own: Option<&OwnFile>, way: &Way) -> Result<Option<Failure>, Failure> {
    let Some(own) = own else { return Ok(None) };
    match program.with_server(&own.text, NAME, way) {
        Ok(_) => Ok(None),
        Err(reason @ (NotWritten::Comments | NotWritten::Entangled(_))) => Ok(Some(own.refused(&reason))),
        Err(reason) => Err(own.refused(&reason)),
    }
}

/// Lists with a name that nobody knows are refused here, not by the program later. What the names of headers begin with.
async fn check_lists(client: &Client, settings: &Settings) -> Result<String, Failure> {
    let lists = settings.iter().filter(|(name, _)| *name != "chat");
    let pairs: String = lists.map(|(name, value)| format!("&{name}={}", segment(value))).collect();
    let resolved = client.get(&format!("/v1/orgs/local/tools/resolve?explain=false{pairs}")).await?;
    Ok(text(&resolved, "headerPrefix").to_owned())
}

fn settings(flags: &ClientConfig) -> Result<Vec<(&'static str, String)>, Failure> {
    let lists = flags.lists.given().map(|(name, value)| (name, value.to_owned()));
    let given: Vec<_> = lists.chain(flags.chat.iter().map(|chat| ("chat", chat.clone()))).collect();
    match given.iter().find(|(_, value)| value.bytes().any(|byte| !(b' '..=b'~').contains(&byte))) {
        Some((name, _)) => Err(Failure::wrong_use(format!(
            "{} goes into a header, which has printable ASCII alone; write other characters as %XX",
            flag(name)
        ))),
        None => Ok(given),
    }
}

/// Where the server is, or will be.
async fn url(client: &Client, place: &Place, flags: &ClientConfig) -> Result<String, Failure> {
    let base = match client.address() {
        Some(running) => running.to_owned(),
        None => {
            let config = Config::of_folder(&DataFolder::open(place)?, place.config.as_deref())?;
            if config.settings.address.port() == 0 {
                return Err(Failure::failed(
                    "the server is configured to listen on a port that is free when it starts, and it does not run: start it first, or use --stdio",
                ));
            }
            format!("http://{}", config.settings.address)
        }
    };
    let base = reachable(&base);
    Ok(match &flags.toolset {
        None => format!("{base}/mcp"),
        Some(id) => {
            let path = format!("/v1/orgs/local/toolsets/{}", segment(id));
            client.get(&path).await?;
            format!("{base}{path}/mcp")
        }
    })
}

fn by_process(place: &Place, settings: &Settings) -> Result<Way, Failure> {
    let text = |path: &Path| {
        let told = || Failure::wrong_use(format!("{}: a name that is not UTF-8 cannot be written", path.display()));
        path.to_str().map(ToOwned::to_owned).ok_or_else(told)
    };
    let command = text(&std::env::current_exe()?)?;
    let data = text(DataFolder::open(place)?.path())?;
    let config = place.config.as_deref().map(|config| text(&std::path::absolute(config)?)).transpose()?;
    Ok(reach::by_process(command, data, config, settings))
}

async fn make_token(client: &Client, program: Program) -> Result<Made, Failure> {
    let name = token_name(program);
    let made = client.post(TOKENS, &json!({ "name": name, "scopes": ["use"] })).await?;
    Ok(Made { id: text(&made, "id").to_owned(), name, secret: Secret::new(text(&made, "secret").to_owned()) })
}

fn token_name(program: Program) -> String {
    format!("mcp config {}", program.key())
}

/// Ends the token that stood in the file before, if it was made here for the same program. Its id.
async fn end_old_token(client: &Client, program: Program, before: &str) -> Option<String> {
    let entry = program.server_in(before, NAME)?;
    let headers = entry.get("headers").or_else(|| entry.get("http_headers"))?;
    let old: BearerToken = text(headers, "Authorization").strip_prefix("Bearer ")?.parse().ok()?;
    let id = old.id.to_string();
    let known = client.list(TOKENS, &None, None).await.ok()?;
    let ours = known.iter().any(|token| text(token, "id") == id && text(token, "name") == token_name(program));
    if !ours {
        return None;
    }
    client.delete(&format!("{TOKENS}/{}", segment(&id))).await.ok().map(|_| id)
}
