//! Packages of a registry entry: by which program each kind is started.

use serde_json::{Map, Value};

use super::super::builder::{Builder, Draft, Secretive};
use super::super::lower;
use super::super::notes::shown;
use super::{Variables, input, objects, text};
use crate::import::Download;

/// The spellings of a package's type.
pub(super) const TYPE: &[&str] = &["registryType", "registry_type", "registry_name"];

/// How packages of one type are started.
struct Runner {
    /// The programs that can, the usual one first. A hint of the entry is followed only if it is one of these: the hint
    /// could as well say `sh`.
    programs: &'static [&'static str],
    /// What stands before the runtime's arguments.
    before: &'static [&'static str],
    /// What stands before the package, unless it is there already.
    yes: &'static [&'static str],
    /// What stands between the package and its version.
    version: &'static str,
    /// What stands between the package and its arguments.
    then: &'static [&'static str],
    /// Where packages come from if nobody says otherwise.
    home: &'static [&'static str],
}

fn runner(kind: &str) -> Option<Runner> {
    let runner = match kind {
        "npm" => Runner {
            programs: &["npx"],
            before: &[],
            yes: &["-y"],
            version: "@",
            then: &[],
            home: &["https://registry.npmjs.org"],
        },
        "pypi" => Runner {
            programs: &["uvx"],
            before: &[],
            yes: &[],
            version: "==",
            then: &[],
            home: &["https://pypi.org", "https://pypi.org/simple"],
        },
        "oci" | "docker" => Runner {
            programs: &["docker", "podman"],
            before: &["run", "-i", "--rm"],
            yes: &[],
            version: ":",
            then: &[],
            home: &["https://docker.io"],
        },
        "nuget" => Runner {
            programs: &["dnx"],
            before: &[],
            yes: &["--yes"],
            version: "@",
            then: &["--"],
            home: &["https://api.nuget.org", "https://api.nuget.org/v3/index.json"],
        },
        _ => return None,
    };
    Some(runner)
}

/// Reads a package; one that is a file to download is handed over.
pub(super) fn read(builder: &mut Builder<'_>, draft: Draft, entry: &Map<String, Value>) -> Option<Download> {
    let place = draft.place.clone();
    let kind = text(entry, TYPE).unwrap_or_default();
    let Some(identifier) = text(entry, &["identifier", "name"]).filter(|text| is_plain(text)) else {
        builder.notes.problem(format!(
            "{place}.identifier must be the name or the address of a package: no space, and no \"-\" in front"
        ));
        return None;
    };
    if kind == "mcpb" {
        return download(builder, &place, identifier, entry);
    }
    let Some(runner) = runner(kind) else {
        builder.notes.warn(format!(
            "{place}: packages of the type \"{}\" cannot be started here and are not taken",
            shown(kind)
        ));
        return None;
    };
    let transport = entry.get("transport").and_then(Value::as_object).and_then(|map| text(map, &["type"]));
    if transport.is_some_and(|transport| transport != "stdio") {
        builder.notes.warn(format!(
            "{place}: it is started by hand and then dialled; start it yourself and add its address as a server"
        ));
        return None;
    }
    launched(builder, draft, entry, kind, identifier, &runner);
    None
}

fn launched(
    builder: &mut Builder<'_>,
    mut draft: Draft,
    entry: &Map<String, Value>,
    kind: &str,
    identifier: &str,
    runner: &Runner,
) {
    let before = builder.notes.problems.len();
    let place = draft.place.clone();
    let hint = text(entry, &["runtimeHint", "runtime_hint"]);
    let program = hint.and_then(|hint| runner.programs.iter().find(|program| **program == hint));
    if let (Some(hint), None) = (hint, program) {
        builder.notes.warn(format!("{place}: the hint to start it with \"{}\" is not followed", shown(hint)));
    }
    if text(entry, &["fileSha256", "file_sha256"]).is_some() {
        builder.notes.warn(format!("{place}: the hash is not checked; the program that starts the package fetches it"));
    }
    for text in entry.get("postInstallInstructions").and_then(Value::as_array).into_iter().flatten() {
        let text = text.as_str().map(shown).unwrap_or_default();
        builder.notes.warn(format!("{place}: its author asks for this after installing, and it is not done: {text}"));
    }
    input::values(
        builder,
        &mut draft,
        Secretive::Env,
        &objects(entry, &["environmentVariables", "environment_variables"]),
        &Variables::new(),
    );
    let at = format!("{place}.runtimeArguments");
    let runtime = input::arguments(builder, &at, &objects(entry, &["runtimeArguments", "runtime_arguments"]));
    let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    // Some entries say the whole command line of the runtime, its first words included.
    let (mut args, rest) = match runtime.split_first() {
        Some((first, rest)) if runner.before.first() == Some(&first.as_str()) => (vec![first.clone()], rest),
        _ => (own(runner.before), runtime.as_slice()),
    };
    // A container sees only the variables that it is given by name.
    if !runner.before.is_empty() {
        args.extend(draft.launch.env.keys().flat_map(|key| ["-e".to_owned(), lower::literal(key).text()]));
    }
    if !rest.iter().any(|word| matches!(word.as_str(), "-y" | "--yes")) {
        args.extend(own(runner.yes));
    }
    args.extend_from_slice(rest);
    args.push(lower::literal(&package(builder, &place, entry, kind, identifier, runner)).text());
    let at = format!("{place}.packageArguments");
    let more = input::arguments(builder, &at, &objects(entry, &["packageArguments", "package_arguments"]));
    if !more.is_empty() {
        args.extend(own(runner.then));
    }
    args.extend(more);
    draft.launch.command = Some((*program.unwrap_or(&runner.programs[0])).to_owned());
    draft.launch.args = args;
    if builder.notes.problems.len() == before {
        builder.finish(draft);
    }
}

/// The package as its program wants it.
fn package(
    builder: &mut Builder<'_>,
    place: &str,
    entry: &Map<String, Value>,
    kind: &str,
    identifier: &str,
    runner: &Runner,
) -> String {
    let is_image = matches!(kind, "oci" | "docker");
    let mut package = identifier.to_owned();
    if let Some(base) = text(entry, &["registryBaseUrl", "registry_base_url"])
        && !runner.home.contains(&base.trim_end_matches('/'))
    {
        let host = base.trim_start_matches("https://").trim_end_matches('/');
        if is_image && is_plain(host) && !identifier.starts_with(&format!("{host}/")) {
            package = format!("{host}/{identifier}");
        } else if !is_image {
            builder.notes.warn(format!(
                "{place}: it comes from another registry than the usual one; tell the program that starts it"
            ));
        }
    }
    let last = identifier.rsplit('/').next().unwrap_or(identifier);
    let has_version = is_image && last.contains([':', '@']);
    match text(entry, &["version"]) {
        Some(version) if !is_plain(version) || version.contains(['^', '*', '>', '<', '|', ',']) => {
            builder.notes.problem(format!("{place}.version must be one version"));
        }
        Some(version) if !has_version => package = format!("{package}{}{version}", runner.version),
        None if !has_version => {
            builder.notes.warn(format!("{place} has no version; whatever is newest will be started"));
        }
        _ => {}
    }
    package
}

/// A package that is a file. Its hash is required: it is the only thing that says what will be run.
fn download(builder: &mut Builder<'_>, place: &str, url: &str, entry: &Map<String, Value>) -> Option<Download> {
    let hash = text(entry, &["fileSha256", "file_sha256"]).and_then(|text| text.parse().ok());
    let Some(sha256) = hash else {
        builder.notes.problem(format!("{place}.fileSha256 must be the SHA-256 of the file: 64 digits of 0-9 and a-f"));
        return None;
    };
    if !url.starts_with("https://") {
        builder.notes.problem(format!("{place}.identifier must be an address that begins with https://"));
        return None;
    }
    builder.notes.warn(format!(
        "{place} is an MCP bundle at another address, which is not downloaded; fetch it, check that its SHA-256 is {sha256}, \
         and import the file"
    ));
    Some(Download { url: url.to_owned(), sha256 })
}

/// Whether a program takes it for one name and not for an option.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('-') && !text.contains(|c: char| c.is_whitespace() || c.is_control())
}
