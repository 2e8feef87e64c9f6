//! `kitbag toolset import`, `validate`, `update`

use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Value, json};
use tempfile::NamedTempFile;

use super::{TOOLSETS, address, pack, show};
use crate::cli::ImportFlags;
use crate::client::{Client, segment};
use crate::failure::{Doing, Failure};
use crate::file_body::FileBody;
use crate::output::{Output, text};

/// Where a bundle is.
enum Source {
    Url(String),
    /// An installed toolset, to be looked for where it came from.
    Again(String),
    File(PathBuf),
    Folder {
        folder: PathBuf,
        packed: NamedTempFile,
    },
}

impl Source {
    fn find(text: &str) -> Result<Self, Failure> {
        if text.starts_with("https://") || text.starts_with("http://") {
            return Ok(Self::Url(text.to_owned()));
        }
        let path = Path::new(text);
        let found = path.metadata().map_err(|error| Failure::wrong_use(format!("{text}: {error}")))?;
        let path = path.canonicalize().doing(text)?;
        if found.is_dir() {
            return Ok(Self::Folder { packed: pack::pack(&path)?, folder: path });
        }
        Ok(Self::File(path))
    }

    async fn send(&self, client: &Client, query: &str) -> Result<Value, Failure> {
        let address = |kind: &str, path: &Path| {
            let path = segment(&path.to_string_lossy());
            format!("{TOOLSETS}/import?{query}&sourceType={kind}&sourceRef={path}")
        };
        match self {
            Self::Url(url) => client.post(&format!("{TOOLSETS}/import?{query}"), &json!({ "url": url })).await,
            Self::Again(id) => client.post(&format!("{TOOLSETS}/import?{query}"), &json!({ "toolsetId": id })).await,
            Self::File(path) => {
                client.post_file(&address("zip", path), FileBody::of_file("application/octet-stream", path)?).await
            }
            Self::Folder { folder, packed } => {
                let body = FileBody::of_file("application/zip", &packed.path().to_owned())?;
                client.post_file(&address("local", folder), body).await
            }
        }
    }
}

/// Says everything that is wrong, or what an import would change.
pub(super) async fn validate(client: &Client, source: &str, output: &Output) -> Result<ExitCode, Failure> {
    let report = Source::find(source)?.send(client, "dryRun=true").await?;
    output.result(&report, |report| format!("{}\nNothing is wrong.", show::report(report)))
}

pub(super) async fn import(
    client: &Client,
    source: &str,
    how: &ImportFlags,
    output: &Output,
) -> Result<ExitCode, Failure> {
    let source = Source::find(source)?;
    if how.trust || how.dry_run || !output.has_person() {
        return install(client, &source, how, how.trust, None, output).await;
    }
    let report = look(client, &source, how).await?;
    writeln!(io::stderr(), "{}", show::report(&report))?;
    let trust = ask(&report)?;
    install(client, &source, how, trust, Some(&report), output).await
}

/// Looks where a toolset came from, shows what is different, and installs that.
pub(super) async fn update(client: &Client, id: &str, how: &ImportFlags, output: &Output) -> Result<ExitCode, Failure> {
    let toolset = client.get(&address(id)).await?;
    let source = match (text(&toolset, "sourceType"), toolset["sourceRef"].as_str()) {
        ("url", Some(_)) => Source::Again(id.to_owned()),
        (_, Some(path)) => Source::find(path)?,
        (_, None) => return Err(Failure::wrong_use(format!("it is not known where {id} came from; import it again"))),
    };
    let report = look(client, &source, how).await?;
    if text(&report, "id") != id {
        return Err(Failure::wrong_use(format!("there is another toolset now: {}", text(&report, "id"))));
    }
    if !output.is_json() {
        let _ = writeln!(io::stderr(), "{}", show::report(&report));
    }
    if how.dry_run {
        return output.result(&report, |_| String::new());
    }
    let trust = how.trust || (output.has_person() && ask(&report)?);
    install(client, &source, how, trust, Some(&report), output).await
}

async fn install(
    client: &Client,
    source: &Source,
    how: &ImportFlags,
    trust: bool,
    looked_at: Option<&Value>,
    output: &Output,
) -> Result<ExitCode, Failure> {
    // What was looked at is what is installed, or nothing is: an address may give something else the second time.
    let digest = looked_at.map(|report| format!("&digest={}", text(report, "digest"))).unwrap_or_default();
    // The same of images: a name may mean another one by now.
    let images =
        looked_at.filter(|_| trust).map(|report| format!("&images={}", segment(&show::images(report).to_string())));
    let images = images.unwrap_or_default();
    let query = format!("dryRun={}&trust={trust}&force={}&{}{digest}{images}", how.dry_run, how.force, literals(how));
    let report = source.send(client, &query).await?;
    output.result(&report, show::report)
}

/// What an import would do.
async fn look(client: &Client, source: &Source, how: &ImportFlags) -> Result<Value, Failure> {
    source.send(client, &format!("dryRun=true&{}", literals(how))).await
}

fn literals(how: &ImportFlags) -> String {
    format!("replaceLiterals={}", how.replace_literals)
}

/// Asks whether to trust what was shown, if there is anything to ask about.
fn ask(report: &Value) -> Result<bool, Failure> {
    let list = |field: &str| report[field].as_array().map(Vec::as_slice).unwrap_or_default();
    let nothing = list("launches").iter().all(|launch| launch["trusted"] == true);
    let nothing = nothing && list("containers").is_empty();
    if nothing && list("unasked").is_empty() && list("permissions").is_empty() {
        return Ok(false);
    }
    let mut stderr = io::stderr();
    let then = match (list("launches").is_empty(), list("containers").is_empty()) {
        (false, true) => " Its servers then start with your own rights.",
        (false, false) => " Its servers then start with your own rights, and its containers run.",
        (true, false) => " Its containers are then fetched or built, and run.",
        (true, true) => "",
    };
    write!(stderr, "Trust it?{then} [y/N] ")?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
