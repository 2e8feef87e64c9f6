//! `kitbag mcp config`: what another program needs to use Kitbag, printed or written into its own file.
//!
//! The program gets a token of its own that may only use tools, never the one that may also say yes to their calls.

mod file;

use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;

use kitbag_formats::clients::{Client as Program, Way};
use kitbag_model::{BearerToken, Secret};
use serde_json::{Value, json};

use self::file::OwnFile;
use super::places;
use crate::cli::{ClientConfig, Place};
use crate::client::{Client, segment};
use crate::config::Config;
use crate::data::DataFolder;
use crate::failure::Failure;
use crate::output::{Output, text};

/// What Kitbag is called in other programs.
const NAME: &str = "kitbag";

const TOKENS: &str = "/v1/orgs/local/tokens";

/// What comes before the names of settings that a request carries.
const HEADER_PREFIX: &str = "X-Mcp-";

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
    let file = places::own(program);
    let own = match (flags.install, &file) {
        (false, _) => None,
        (true, Some(file)) => Some(OwnFile::read(file)?),
        (true, None) => return Err(Failure::wrong_use("there is no home folder, so no program has a file in it")),
    };
    let (way, made) = if flags.stdio || !program.dials() {
        let way = by_process(place, &settings)?;
        refuse_early(program, own.as_ref(), &way)?;
        (way, None)
    } else {
        let url = url(client, place, flags).await?;
        // A file that cannot be written must not leave a token behind.
        refuse_early(program, own.as_ref(), &by_address(&url, "x", &settings))?;
        let made = make_token(client, program).await?;
        (by_address(&url, made.secret.expose(), &settings), Some(made))
    };
    let configuration = program.configuration(NAME, &way);
    let mut backup = None;
    let mut ended = None;
    if let Some(own) = &own {
        let text = program.with_server(&own.text, NAME, &way).map_err(|reason| own.refused(&reason, None))?;
        backup = own.write(&text)?;
        ended = end_old_token(client, program, &own.text, made.as_ref()).await;
    }
    let entry = program.server_in(&configuration, NAME);
    let result = json!({
        "client": program.key(),
        "name": NAME,
        "file": file,
        "installed": own.is_some(),
        "backup": backup,
        "entry": entry,
        "configuration": configuration,
        "url": if let Way::Http { url, .. } = &way { json!(url) } else { Value::Null },
        "token": made.as_ref().map(|made| json!({ "id": made.id, "name": made.name })),
        "revokedToken": ended,
    });
    if let Some(made) = &made {
        let ended = ended.as_ref().map(|id| format!("; the one before it, {id}, is ended")).unwrap_or_default();
        output.note(&format!("made the token {} for it ({}), which may use tools and no more{ended}", made.id, made.name));
    }
    let place = file.as_deref().map(Path::display);
    match (&own, place) {
        (Some(_), Some(place)) => output.result(&result, |_| {
            let backup = backup.as_ref().map(|backup| format!("; as it was: {}", backup.display())).unwrap_or_default();
            format!("{} has {NAME} in {place}{backup}", program.name())
        }),
        (_, place) => {
            if let Some(place) = place {
                output.note(&format!("{} reads this from {place}; --install writes it there", program.name()));
            }
            output.result(&result, |_| configuration.clone())
        }
    }
}

/// Says no before anything was made, with what to paste by hand.
fn refuse_early(program: Program, own: Option<&OwnFile>, way: &Way) -> Result<(), Failure> {
    let Some(own) = own else { return Ok(()) };
    let by_hand = format!("kitbag mcp config {}", program.key());
    program.with_server(&own.text, NAME, way).map(|_| ()).map_err(|reason| own.refused(&reason, Some(&by_hand)))
}

/// The settings that a program's requests carry, by the names of their flags.
fn settings(flags: &ClientConfig) -> Result<Vec<(&'static str, String)>, Failure> {
    let dynamic = flags.dynamic.then(|| "true".to_owned());
    let all = [
        ("toolsets", flags.toolsets.clone()),
        ("enabled-tools", flags.enabled_tools.clone()),
        ("disabled-tools", flags.disabled_tools.clone()),
        ("dynamic", dynamic),
        ("chat", flags.chat.clone()),
    ];
    let given: Vec<(&str, String)> = all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    match given.iter().find(|(_, value)| value.bytes().any(|byte| !(b' '..=b'~').contains(&byte))) {
        Some((name, _)) => Err(Failure::wrong_use(format!(
            "--{name} goes into a header, which has printable ASCII alone; write other characters as %XX"
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

/// An address at which everybody is listened to is none to dial.
fn reachable(base: &str) -> String {
    let listens = base.strip_prefix("http://").and_then(|address| address.parse::<SocketAddr>().ok());
    match listens {
        Some(address) if address.ip().is_unspecified() && address.is_ipv4() => {
            format!("http://127.0.0.1:{}", address.port())
        }
        Some(address) if address.ip().is_unspecified() => format!("http://[::1]:{}", address.port()),
        _ => base.to_owned(),
    }
}

fn by_address(url: &str, token: &str, settings: &[(&'static str, String)]) -> Way {
    let mut headers = vec![("Authorization".to_owned(), format!("Bearer {token}"))];
    headers.extend(settings.iter().map(|(name, value)| (header(name), value.clone())));
    Way::Http { url: url.to_owned(), headers }
}

/// `enabled-tools` becomes `X-Mcp-Enabled-Tools`.
fn header(setting: &str) -> String {
    let capital = |word: &str| word[..1].to_ascii_uppercase() + &word[1..];
    format!("{HEADER_PREFIX}{}", setting.split('-').map(capital).collect::<Vec<_>>().join("-"))
}

fn by_process(place: &Place, settings: &[(&'static str, String)]) -> Result<Way, Failure> {
    let text = |path: &Path| {
        let told = || Failure::wrong_use(format!("{}: a name that is not UTF-8 cannot be written", path.display()));
        path.to_str().map(ToOwned::to_owned).ok_or_else(told)
    };
    // The program may have another idea of where things are: nothing is left to its environment.
    let command = text(&std::env::current_exe()?)?;
    let mut args = vec!["mcp".to_owned(), "stdio".to_owned(), "--data".to_owned()];
    args.push(text(DataFolder::open(place)?.path())?);
    if let Some(config) = &place.config {
        args.extend(["--config".to_owned(), text(&std::path::absolute(config)?)?]);
    }
    for (name, value) in settings {
        args.push(format!("--{name}"));
        if *name != "dynamic" {
            args.push(value.clone());
        }
    }
    Ok(Way::Stdio { command, args })
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
async fn end_old_token(client: &Client, program: Program, before: &str, made: Option<&Made>) -> Option<String> {
    let entry = program.server_in(before, NAME)?;
    let headers = entry.get("headers").or_else(|| entry.get("http_headers"))?;
    let old: BearerToken = text(headers, "Authorization").strip_prefix("Bearer ")?.parse().ok()?;
    let id = old.id.to_string();
    let known = client.list(TOKENS, &None, None).await.ok()?;
    let ours = known.iter().any(|token| text(token, "id") == id && text(token, "name") == token_name(program));
    if !ours || made.is_some_and(|made| made.id == id) {
        return None;
    }
    client.delete(&format!("{TOKENS}/{}", segment(&id))).await.ok().map(|_| id)
}

#[cfg(test)]
mod tests {
    use super::{header, reachable};

    #[test]
    fn headers_are_named_after_their_flags() {
        assert_eq!(header("enabled-tools"), "X-Mcp-Enabled-Tools");
        assert_eq!(header("chat"), "X-Mcp-Chat");
    }

    #[test]
    fn an_address_that_can_be_dialled() {
        assert_eq!(reachable("http://0.0.0.0:8700"), "http://127.0.0.1:8700");
        assert_eq!(reachable("http://[::]:8700"), "http://[::1]:8700");
        assert_eq!(reachable("http://127.0.0.1:1"), "http://127.0.0.1:1");
        assert_eq!(reachable("http://192.0.2.1:1"), "http://192.0.2.1:1");
    }
}
