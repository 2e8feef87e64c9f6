//! What must hold when the storm is over.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use kitbag_testkit::Server;
use reqwest::Method;
use serde_json::{Value, json};

use super::faults::Parts;
use super::load::{Client, Said};
use crate::kit::CHATS;

/// All pages of a list.
pub(crate) async fn all(server: &Server, path: &str) -> Vec<Value> {
    let (mut items, mut query) = (Vec::new(), "?limit=200".to_owned());
    loop {
        let page = server.get(&format!("{path}{query}")).await.expect(200);
        items.extend(page["items"].as_array().unwrap().iter().cloned());
        let Some(cursor) = page["nextCursor"].as_str() else { return items };
        query = format!("?limit=200&cursor={cursor}");
    }
}

/// Everything that a chat's states need is there, and nothing had to be brought again from the folder that happens to have it still.
pub(crate) async fn is_whole(server: &Server, chat: &str) {
    let checked = server.post(&format!("{CHATS}/{chat}/workspace/fsck"), &json!({})).await.expect(200);
    let found = (&checked["ok"], &checked["problems"], &checked["mended"]);
    assert_eq!(found, (&json!(true), &json!([]), &json!([])), "{chat}: {checked}");
}

/// A chat has all that was acknowledged, once, and nothing that overlapped.
pub(crate) async fn chat(server: &Server, chat: &str, said: &Said) {
    let at = |rest: &str| format!("{CHATS}/{chat}/{rest}");
    is_whole(server, chat).await;
    let log = server.request(Method::GET, &at("workspace/files/log")).send().await.unwrap().text().await.unwrap();
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    let mut before = 0;
    for (number, line) in log.lines().enumerate() {
        let words: Vec<&str> = line.split(' ').collect();
        let [found, began, ended, line] = words[..] else { panic!("half a line: {line:?}") };
        assert_eq!(found, number.to_string(), "line {number} is {line}:\n{log}");
        assert!(began.parse::<u64>().unwrap() >= before, "{line} began before the one above was over:\n{log}");
        before = ended.parse().unwrap();
        *times.entry(line).or_default() += 1;
    }
    let records = all(server, &at("tool-calls")).await;
    let mut asked: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for record in &records {
        assert!(record["finishedAt"].is_string(), "a call is still going on: {record}");
        // What was broken is told by its name; and the tool fails if another is at work in the same folder.
        let code = record["error"]["code"].as_str().unwrap_or_default();
        assert!(!["INTERNAL", "TOOL_FAILED"].contains(&code), "{record}");
        asked.entry(record["args"]["line"].as_str().unwrap()).or_default().push(record);
    }
    for (_, line, is_acknowledged) in said.lines.lock().unwrap().iter().filter(|(of, ..)| of == chat) {
        let (times, records) = (times.get(line.as_str()).copied().unwrap_or(0), asked.get(line.as_str()));
        let records = records.map_or(&[][..], Vec::as_slice);
        let is_success = records.iter().any(|record| record["status"] == "success");
        assert!(times <= 1 && records.len() <= 1, "{line} happened {times} times: {records:?}");
        if *is_acknowledged {
            assert!(
                times == 1 && is_success,
                "{line} was acknowledged, and is there {times} times: {records:?}\n{log}"
            );
        }
        assert!(!is_success || times == 1, "{line} is recorded as done, and is not there: {records:?}\n{log}");
    }

    let messages = all(server, &at("messages")).await;
    for (_, message) in said.messages.lock().unwrap().iter().filter(|(of, _)| of == chat) {
        let found: Vec<&Value> = messages.iter().filter(|one| one["content"] == message["content"]).collect();
        assert!(found.len() == 1 && found[0]["id"] == message["id"], "{message} was acknowledged; there is {found:?}");
    }

    for (_, text) in said.texts.lock().unwrap().iter().filter(|(of, _)| of == chat) {
        let times = messages.iter().filter(|one| one["content"] == **text).count();
        assert!(times <= 1, "{text} was written once, and is there {times} times");
    }

    let manifests = all(server, &at("workspace/manifests")).await;
    let active = server.get(&at("workspace/manifest")).await.expect(200);
    let files: Vec<_> = said.files.lock().unwrap().iter().filter(|(of, ..)| of == chat).cloned().collect();
    for (_, path, file) in &files {
        assert_eq!(active["files"][path], file["sha256"], "{path} was acknowledged: {active}");
        assert!(
            manifests.iter().any(|state| state["id"] == file["manifestId"]),
            "{file} was acknowledged: {manifests:?}"
        );
    }
    if let Some((_, path, file)) = files.last() {
        let state = server.get(&at(&format!("workspace/manifest?id={}", file["manifestId"].as_str().unwrap()))).await;
        assert_eq!(state.expect(200)["files"][path], file["sha256"]);
    }
}

/// What an MCP server noted: everything that was acknowledged, and nothing twice, whoever had its process. The records say the same.
pub(crate) async fn notes(server: &Server, chat: &str, said: &Said, noted: &[String]) {
    let records = all(server, &format!("{CHATS}/{chat}/tool-calls")).await;
    let mut done = 0;
    for (_, line, is_acknowledged) in said.notes.lock().unwrap().iter().filter(|(of, ..)| of == chat) {
        let times = noted.iter().filter(|one| *one == line).count();
        let records: Vec<&Value> = records.iter().filter(|record| record["args"]["line"] == **line).collect();
        assert!(times <= 1 && records.len() <= 1, "{line} was noted {times} times: {records:?}");
        let is_success = records.iter().any(|record| record["status"] == "success");
        if *is_acknowledged {
            assert!(times == 1 && is_success, "{line} was acknowledged, and noted {times} times: {records:?}");
            done += 1;
        }
        assert!(!is_success || times == 1, "{line} is recorded as done, and was not noted: {records:?}");
    }
    assert!(done > 5, "there was something to lose");
}

/// Every run that was acknowledged ends, once.
pub(crate) async fn runs(client: &Client, parts: &Parts) {
    let runs = client.said.runs.lock().unwrap().clone();
    let server = parts.nodes[0].lock().await;
    for (task, run) in &runs {
        let path = format!("/v1/orgs/local/agent-runs/{run}");
        let over = crate::kit::until(&format!("{task} is over"), async || {
            let shown = server.get(&path).await.expect(200);
            shown["finishedAt"].is_string().then_some(shown)
        })
        .await;
        assert_eq!(over["state"], "succeeded", "{over}");
        let text = server.request(Method::GET, &format!("{path}/events")).send().await.unwrap().text().await.unwrap();
        // One line of the record; the stream's own last word has no kind.
        let is_end = |line: &&str| line.contains("\"kind\":\"state\",\"state\":\"succeeded\"");
        let ends = text.lines().filter(is_end).count();
        assert_eq!(ends, 1, "{task} ended {ends} times:\n{text}");
        // No attempt is begun twice.
        let attempts = over["attempt"].as_u64().unwrap() as usize;
        let mut did = Vec::new();
        for machine in &parts.machines {
            did.extend(machine.lock().await.did());
        }
        let began = did.iter().filter(|line| **line == format!("began {task}")).count();
        assert!(began <= attempts, "{task} was begun {began} times in {attempts} attempts");
        assert!(did.contains(&format!("ended {task}")), "{task} succeeded, and no agent came to its end: {did:?}");
        assert_eq!(over["output"], json!(task), "{over}");
    }
}

/// There was something to lose, in every round.
pub(crate) fn enough(said: &Said, rounds: usize) {
    let (lines, messages) = (said.lines.lock().unwrap(), said.messages.lock().unwrap());
    let (files, runs) = (said.files.lock().unwrap(), said.runs.lock().unwrap());
    let done = lines.iter().filter(|(.., is_done)| *is_done).count();
    println!(
        "{done} of {} calls, {} messages, {} files and {} runs were acknowledged",
        lines.len(),
        messages.len(),
        files.len(),
        runs.len()
    );
    let refused = said.refused.lock().unwrap();
    println!("not acknowledged: {refused:#?}");
    // Whatever breaks, nobody is told that they did something wrong, but that somebody else is at the files.
    let odd = refused.keys().find(|why| why.contains(": 4") && !why.ends_with("409 Conflict") || why.contains(": 500"));
    assert_eq!(odd, None);
    assert!(done > 20 * rounds && messages.len() > 10 * rounds && files.len() > 2 * rounds && runs.len() > rounds);
    let collected = said.collected.load(Ordering::SeqCst);
    assert!(collected > rounds, "{collected} collections");
}
