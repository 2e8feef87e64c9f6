//! A stand-in for a model: does what its script says, and keeps what it is asked.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

use crate::kit::installed;

/// The stand-in, which ends with this value.
pub(crate) struct StandIn {
    child: Child,
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl StandIn {
    #[allow(clippy::disallowed_methods, reason = "it is started around the program, not by it")]
    pub(crate) fn new(steps: &Value) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clients/drivers/stand_in.py");
        let mut child = Command::new(installed("KITBAG_TEST_CLIENTS", "python/bin/python"))
            .arg(script)
            .arg(steps.to_string())
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = asked.clone();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                kept.lock().unwrap().push(serde_json::from_str(&line).unwrap());
            }
        });
        Self { child, url: first["url"].as_str().unwrap().to_owned(), asked }
    }

    /// Everything that it was asked so far.
    pub(crate) fn asked(&self) -> Vec<Value> {
        self.asked.lock().unwrap().clone()
    }

    /// Waits until it is asked something.
    pub(crate) async fn wait(&self) {
        for _ in 0..6000 {
            if !self.asked().is_empty() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("the model is not asked");
    }

    /// The names of the tools that it was offered at first, in the form that all engines share.
    pub(crate) fn offered(&self) -> Vec<String> {
        let asked = self.asked();
        let tools = asked.iter().find_map(|one| one["body"]["tools"].as_array()).cloned().unwrap_or_default();
        let name = |tool: &Value| {
            let name = [&tool["name"], &tool["function"]["name"], &tool["type"]];
            name.into_iter().find_map(Value::as_str).unwrap().to_owned()
        };
        let full = |tool: &Value| match tool["type"].as_str() {
            Some("namespace") => {
                let inner = tool["tools"].as_array().unwrap().iter();
                inner.map(|one| format!("{}__{}", name(tool), name(one))).collect()
            }
            _ => vec![name(tool)],
        };
        tools.iter().flat_map(full).collect()
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
