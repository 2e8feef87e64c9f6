//! Running a driver: a job in, what it saw out.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::kit::installed;

/// The libraries, and the program that runs each one's driver.
pub(crate) const LIBRARIES: [&str; 6] = [
    "python_new.py",
    "fastmcp_client.py",
    "python_old.py",
    "typescript_new.mjs",
    "typescript_old.mjs",
    "inspector.mjs",
];

/// Whether a library knows the stateless era.
pub(crate) fn knows_both_eras(driver: &str) -> bool {
    !driver.contains("old")
}

/// Does a job. What the driver saw.
#[allow(clippy::disallowed_methods, reason = "it is started around the program, not by it")]
pub(crate) async fn drive(driver: &str, job: &Value) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clients/drivers").join(driver);
    let program = match driver {
        "python_old.py" => installed("KITBAG_TEST_CLIENTS", "python-old/bin/python"),
        _ if driver.ends_with(".py") => installed("KITBAG_TEST_CLIENTS", "python/bin/python"),
        _ => installed("KITBAG_TEST_NODE_MODULES", ".bin/node"),
    };
    let home = tempfile::tempdir().unwrap();
    let path = format!("{}:{}", installed("KITBAG_TEST_NODE_MODULES", ".bin"), std::env::var("PATH").unwrap());
    let mut command = Command::new(program);
    command.arg(script).env_clear().env("HOME", home.path()).env("PATH", path).env("PYTHONDONTWRITEBYTECODE", "1");
    command.env("KITBAG_TEST_CLIENTS", installed("KITBAG_TEST_CLIENTS", ""));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(job.to_string().as_bytes()).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(200), child.wait_with_output()).await;
    let ended = ended.unwrap_or_else(|_| panic!("{driver} does not end: {job}")).unwrap();
    serde_json::from_slice(&ended.stdout).unwrap_or_else(|error| {
        let said = String::from_utf8_lossy(&ended.stderr);
        panic!("{driver}: {error}; it said {said}{}", String::from_utf8_lossy(&ended.stdout))
    })
}

/// The names of a list, in an order of their own: clients need not keep that of the server.
pub(crate) fn names(seen: &Value) -> Vec<&str> {
    let list = seen["tools"].as_array().unwrap_or_else(|| panic!("no tools: {seen}"));
    let mut names: Vec<&str> = list.iter().map(|name| name.as_str().unwrap()).collect();
    names.sort_unstable();
    names
}
