//! The protocol's official conformance suite, against the driver over our client.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use kitbag_guard::child::ChildSpec;
use tokio::io::AsyncReadExt;

use crate::support::installed;

/// The driver, which is an example of this crate and was built with this test.
pub fn driver() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.ancestors().nth(2).unwrap().join("examples/conformance_client");
    assert!(path.exists(), "{} is missing: build the examples of this crate", path.display());
    path
}

/// The scenarios that are known to fail at this revision, each with its reason.
fn baseline(revision: &str) -> BTreeSet<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance-baseline.txt");
    let text = std::fs::read_to_string(file).unwrap();
    let entries = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let known = entries.map(|line| {
        let (scenario, reason) = line.split_once(':').expect("every known failure has a reason");
        let (at, name) = scenario.split_once(' ').expect("a revision and a scenario");
        assert!(!reason.trim().is_empty(), "{line} has no reason");
        (at.to_owned(), name.to_owned())
    });
    known.filter(|(at, _)| at == revision).map(|(_, name)| name).collect()
}

/// What a revision requires of clients, from the suite's own list.
fn required(revision: &str) -> BTreeSet<String> {
    let file = format!("@modelcontextprotocol/conformance/requirements/{revision}.yaml");
    let text = std::fs::read_to_string(installed("KITBAG_TEST_NODE_MODULES", &file)).unwrap();
    let list = text.split_once("\nclient:\n").expect("a list for clients").1;
    let lines = list.lines().map(str::trim).take_while(|line| line.is_empty() || line.starts_with(['-', '#']));
    lines.filter_map(|line| line.strip_prefix("- ")).map(str::to_owned).collect()
}

/// Runs what a revision requires: all of that passes, and of the rest exactly what is known to fail fails.
async fn conforms(revision: &str) {
    let required = required(revision);
    assert!(required.len() > 15 && required.contains("tools_call"), "{required:?}");
    let modules = installed("KITBAG_TEST_NODE_MODULES", "");
    let suite = installed("KITBAG_TEST_NODE_MODULES", "@modelcontextprotocol/conformance/dist/index.js");
    let results = tempfile::tempdir().unwrap();
    let spec = ChildSpec::new(modules.join(".bin/node"), results.path()).args([
        suite.into_os_string(),
        "client".into(),
        "--command".into(),
        driver().into_os_string(),
        "--requirements".into(),
        revision.into(),
        "--output-dir".into(),
        results.path().into(),
    ]);
    let (mut child, mut pipes) = spec.start().await.unwrap();
    let (mut said, mut beside) = (String::new(), String::new());
    let read = async { tokio::join!(pipes.stdout.read_to_string(&mut said), pipes.stderr.read_to_string(&mut beside)) };
    let _ = read.await;
    child.ended().await.unwrap();
    let summary = said.split_once("=== SUITE SUMMARY ===").unwrap_or_else(|| panic!("no summary: {said}{beside}")).1;
    let summary = summary.split_once("\nTotal:").unwrap().0;
    let with = |mark: char| -> BTreeSet<String> {
        let lines = summary.lines().filter_map(|line| line.strip_prefix(mark)?.trim().split_once(": "));
        lines.map(|(name, _)| name.to_owned()).collect()
    };
    let (passed, failed) = (with('✓'), with('✗'));
    let missing: Vec<_> = required.difference(&passed).collect();
    assert!(missing.is_empty(), "{missing:?} did not pass: {said}{beside}");
    assert_eq!(failed, baseline(revision), "what fails is not what is known to fail: {said}{beside}");
}

#[tokio::test]
async fn what_2025_11_25_requires_of_a_client() {
    conforms("2025-11-25").await;
}

#[tokio::test]
async fn what_2026_07_28_requires_of_a_client() {
    conforms("2026-07-28").await;
}
