//! The protocol's official conformance suite against servers: the fixtures, straight, so that what fails through Kitbag is Kitbag's.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use kitbag_testkit::TestDatabase;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::kit::{connect, installed, new_chat, text};
use crate::serve;

/// Scenarios of an extension that no revision's list has.
const SKILLS: [&str; 3] = ["sep-2640-skills-directory", "sep-2640-skills-enumeration", "sep-2640-skills-manifest"];

/// The scenarios that a revision requires and of which something is known to fail. There are no more than these, whatever reasons are found:
/// what a revision requires is not excused by a line in the baseline.
const EXCEPTIONS: [&str; 2] = ["input-required-result-basic-elicitation", "input-required-result-ignore-extra-params"];

/// A fixture that serves, until it is dropped.
pub(crate) struct Fixture {
    _child: Child,
    pub(crate) url: String,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/conformance")
}

impl Fixture {
    /// Starts `session` or `stateless`.
    #[allow(clippy::disallowed_methods, reason = "it is started around the program, not by it")]
    pub(crate) async fn start(name: &str) -> Self {
        let mut command = Command::new(installed("KITBAG_TEST_NODE_MODULES", ".bin/node"));
        command
            .arg(folder().join(format!("{name}.mjs")))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = lines.next_line().await.unwrap().expect("it says where it serves");
        Self { _child: child, url }
    }
}

/// What failed, by scenario and check, with what the suite says of it. Warnings count.
type Failures = BTreeMap<(String, String), String>;

/// Runs the suite. The scenarios that it ran, and what of them failed.
#[allow(clippy::disallowed_methods, reason = "it is started around the program, not by it")]
async fn suite(url: &str, more: &[&str]) -> (BTreeSet<String>, Failures) {
    let results = tempfile::tempdir().unwrap();
    let mut command = Command::new(installed("KITBAG_TEST_NODE_MODULES", ".bin/node"));
    command.arg(installed("KITBAG_TEST_NODE_MODULES", "@modelcontextprotocol/conformance/dist/index.js"));
    command.args(["server", "--url", url, "--output-dir"]).arg(results.path()).args(more);
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let ran: BTreeSet<String> = match said.split_once("=== SUMMARY ===") {
        Some((_, summary)) => summary.split_once("\nTotal:").expect("a total").0.lines().filter_map(scenario).collect(),
        None => more.windows(2).filter(|pair| pair[0] == "--scenario").map(|pair| pair[1].to_owned()).collect(),
    };
    assert!(!ran.is_empty(), "the suite ran nothing: {said}");
    let mut failures = Failures::new();
    for scenario in &ran {
        let Some(checks) = checks(results.path(), scenario) else {
            failures.insert(
                (scenario.clone(), "none".into()),
                format!("it did not come to an end: {}", about(&said, scenario)),
            );
            continue;
        };
        for check in checks.as_array().unwrap() {
            if check["status"] == "FAILURE" || check["status"] == "WARNING" {
                let id = check["id"].as_str().unwrap().to_owned();
                failures.insert((scenario.clone(), id), check["errorMessage"].as_str().unwrap_or_default().to_owned());
            }
        }
    }
    (ran, failures)
}

/// What the suite said of one scenario.
fn about<'a>(said: &'a str, scenario: &str) -> &'a str {
    let own = said.split_once(&format!("=== Running scenario: {scenario} ===")).map_or(said, |(_, rest)| rest);
    own.split_once("\n===").map_or(own, |(own, _)| own).trim()
}

/// The scenario of a line of the summary.
fn scenario(line: &str) -> Option<String> {
    Some(line.strip_prefix(['✓', '✗'])?.trim().split_once(": ")?.0.to_owned())
}

/// What the suite wrote down of a scenario: its folder is named after it and the time.
fn checks(results: &Path, scenario: &str) -> Option<Value> {
    let prefix = format!("server-{scenario}-2");
    let names = std::fs::read_dir(results).unwrap().map(|entry| entry.unwrap().path());
    let mut own = names.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(&prefix));
    Some(serde_json::from_slice(&std::fs::read(own.next()?.join("checks.json")).ok()?).unwrap())
}

/// What a revision requires of servers, from the suite's own list.
fn required(revision: &str) -> BTreeSet<String> {
    let file = format!("@modelcontextprotocol/conformance/requirements/{revision}.yaml");
    let text = std::fs::read_to_string(installed("KITBAG_TEST_NODE_MODULES", &file)).unwrap();
    let list = text.split_once("\nserver:\n").expect("a list for servers").1;
    let lines = list.lines().map(str::trim).take_while(|line| !line.is_empty());
    lines.filter_map(|line| line.strip_prefix("- ")).map(str::to_owned).collect()
}

/// The checks that are known to fail, each with the way, the fixture and the revision.
fn known() -> Vec<([String; 3], (String, String))> {
    let text = std::fs::read_to_string(folder().join("baseline.txt")).unwrap();
    let entries = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let known = entries.map(|line| {
        let (check, reason) = line.split_once(": ").unwrap_or_else(|| panic!("{line} has no reason"));
        assert!(!reason.trim().is_empty(), "{line} has no reason");
        let words: Vec<&str> = check.split(' ').collect();
        let [of_way, of_fixture, of_revision, scenario, id] = words[..] else { panic!("{line} is not five words") };
        let of = [of_way, of_fixture, of_revision].map(str::to_owned);
        (of, (scenario.to_owned(), id.to_owned()))
    });
    known.collect()
}

/// The checks that are known to fail on this way.
fn baseline(way: &str, fixture: &str, revision: &str) -> BTreeSet<(String, String)> {
    let own = |of: &[String; 3]| *of == [way, fixture, revision];
    known().into_iter().filter(|(of, _)| own(of)).map(|(_, check)| check).collect()
}

#[test]
fn nothing_more_that_is_required_is_known_to_fail() {
    for ([.., revision], (scenario, check)) in known() {
        let is_required = required(&revision).contains(&scenario);
        assert!(!is_required || EXCEPTIONS.contains(&scenario.as_str()), "{revision} {scenario} {check}");
    }
}

/// Runs all that a revision has for servers: what fails is exactly what is known to fail.
pub(crate) async fn conforms(way: &str, fixture: &str, revision: &str, url: &str) {
    let required = required(revision);
    assert!(required.len() >= 30 && required.contains("tools-call-simple-text"), "{required:?}");
    let (mut ran, mut failures) = suite(url, &["--requirements", revision]).await;
    if revision == "2026-07-28" {
        for skills in SKILLS {
            let (own, failed) = suite(url, &["--scenario", skills, "--force", "--spec-version", revision]).await;
            ran.extend(own);
            failures.extend(failed);
        }
    }
    let missing: Vec<_> = required.difference(&ran).collect();
    assert!(missing.is_empty(), "the suite did not run {missing:?}");
    let known = baseline(way, fixture, revision);
    let said = |(scenario, check): &(String, String), what: &str| {
        format!("{way} {fixture} {revision} {scenario} {check}: {what}")
    };
    let news = failures.iter().filter(|(check, _)| !known.contains(check)).map(|(check, what)| said(check, what));
    let gone = known
        .iter()
        .filter(|check| !failures.contains_key(check))
        .map(|check| said(check, "it does not fail any more"));
    let wrong: Vec<String> = news.chain(gone).collect();
    assert!(wrong.is_empty(), "what fails is not what is known to fail:\n{}", wrong.join("\n"));
}

/// Runs what there is for skills. All of it passes.
pub(crate) async fn skills_conform(url: &str) {
    for scenario in SKILLS {
        let (ran, failures) = suite(url, &["--scenario", scenario, "--force", "--spec-version", "2026-07-28"]).await;
        assert!(ran.contains(scenario) && failures.is_empty(), "{url}: {failures:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fixture_of_the_session_era_conforms() {
    let fixture = Fixture::start("session").await;
    conforms("direct", "session", "2025-11-25", &fixture.url).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fixture_of_the_stateless_era_conforms() {
    let fixture = Fixture::start("stateless").await;
    conforms("direct", "stateless", "2026-07-28", &fixture.url).await;
}

/// Kitbag speaks with servers of both eras, in both ways, as with any other server.
#[tokio::test(flavor = "multi_thread")]
async fn kitbag_speaks_with_the_fixtures() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    let chat = new_chat(&server).await;
    for (name, revision) in [("session", "2025-11-25"), ("stateless", "2026-07-28")] {
        let fixture = Fixture::start(name).await;
        let script = folder().join(format!("{name}.mjs"));
        let by_process = json!({
            "command": installed("KITBAG_TEST_NODE_MODULES", ".bin/node"),
            "args": [script, "--stdio"],
            "env": { "KITBAG_TEST_NODE_MODULES": installed("KITBAG_TEST_NODE_MODULES", "") },
        });
        let by_web = json!({ "serverType": "streamable-http", "url": fixture.url });
        for (way, launch) in [("process", by_process), ("web", by_web)] {
            let id = format!("{name}-{way}");
            let shown = connect(&server, &id, launch).await;
            assert_eq!(shown["protocolVersion"], revision, "{shown}");
            let said = text(&server, &chat, &format!("mcp:{id}~{id}:test_simple_text"), json!({})).await;
            assert_eq!(said, "This is a simple text response for testing.");
        }
    }
}
