//! The files of a run: what it begins with, what it leaves, and what becomes of that.

use std::collections::BTreeMap;

use kitbag_model::ContentHash;
use kitbag_model::run::wire::{AttemptId, FileRef, FromExecutor};
use kitbag_model::run::{RunError, RunOutcome, RunState};
use kitbag_testkit::{Answer, Server, on_both};
use reqwest::Method;
use serde_json::{Value, json};

use crate::kit::{Executor, Paired, RUNS, ask, config, events, pair, serve, succeeded, until};

const CHATS: &str = "/v1/orgs/local/chats";

/// A chat with one file.
async fn chat_with(server: &Server, path: &str, content: &str) -> String {
    let chat = server.post(CHATS, &json!({})).await.expect(201)["id"].as_str().unwrap().to_owned();
    write(server, &chat, path, content).await;
    chat
}

async fn write(server: &Server, chat: &str, path: &str, content: &str) {
    let request = server.request(Method::PUT, &format!("{CHATS}/{chat}/workspace/files/{path}"));
    let status = Answer::of(request.body(content.to_owned())).await.status.as_u16();
    assert!([200, 201].contains(&status));
}

async fn read(server: &Server, chat: &str, path: &str) -> Option<String> {
    let answer = server.request(Method::GET, &format!("{CHATS}/{chat}/workspace/files/{path}")).send().await.unwrap();
    if answer.status() == 200 { Some(answer.text().await.unwrap()) } else { None }
}

fn file(content: &str) -> FileRef {
    FileRef { sha256: ContentHash::of(content.as_bytes()), size: content.len() as u64, executable: false }
}

/// Brings what is missing, and ends well with these files.
async fn end_with(
    server: &Server,
    paired: &Paired,
    executor: &mut Executor,
    id: AttemptId,
    files: &[(&str, &str)],
) -> usize {
    end_as(server, paired, executor, id, (succeeded("done"), files)).await
}

/// Brings what is missing, and ends in some way with these files. How many were missing.
async fn end_as(
    server: &Server,
    paired: &Paired,
    executor: &mut Executor,
    id: AttemptId,
    (outcome, files): (RunOutcome, &[(&str, &str)]),
) -> usize {
    let hashes: Vec<String> = files.iter().map(|(_, content)| file(content).sha256.to_string()).collect();
    let asked = paired.request(server, Method::POST, id, "missing").json(&json!({ "hashes": hashes }));
    let missing = Answer::of(asked).await.expect(200)["missing"].as_array().unwrap().clone();
    for (_, content) in files {
        let hash = file(content).sha256.to_string();
        if missing.contains(&json!(hash)) {
            let put = paired.request(server, Method::PUT, id, &format!("blobs/{hash}")).body((*content).to_owned());
            Answer::of(put).await.expect(204);
        }
    }
    let named: BTreeMap<_, _> = files.iter().map(|(path, content)| (path.parse().unwrap(), file(content))).collect();
    executor.say(&FromExecutor::Result { id, outcome, files: Some(named) }).await;
    executor.acknowledged(id).await;
    missing.len()
}

on_both! {
    async fn what_did_not_succeed_is_not_brought_in(database: TestDatabase) {
        let server = serve(&database);
        let chat = chat_with(&server, "notes.txt", "beans").await;
        let paired = pair(&server, &json!({})).await;
        let mut executor = paired.connect(1, &[]).await;
        let run = ask(&server, &json!({ "config": config("gateway.codex.v2"), "workspace": { "chatId": chat, "apply": true } })).await;
        let id = executor.given().await.id;
        let error = RunError { code: "INVALID_AGENT_OUTPUT".to_owned(), message: "no JSON".to_owned() };
        let failed = RunOutcome { state: RunState::Failed, output: None, error: Some(error), usage: None };
        end_as(&server, &paired, &mut executor, id, (failed, &[("notes.txt", "be")])).await;
        let over = until(&server, run, "failed").await;
        assert_ne!(over["postManifestId"], over["preManifestId"], "what it left is kept");
        assert_eq!(read(&server, &chat, "notes.txt").await.as_deref(), Some("beans"));
        let told = events(&server, run, "").await;
        assert!(told.iter().any(|(_, name, data)| name == "log" && data["message"].as_str().unwrap().contains("did not succeed")), "{told:?}");
        server.post(&format!("{RUNS}/{run}/apply"), &json!({})).await.expect(200);
        assert_eq!(read(&server, &chat, "notes.txt").await.as_deref(), Some("be"));
    }

    async fn a_run_begins_with_a_chats_files_and_may_become_its_next_state(database: TestDatabase) {
        let server = serve(&database);
        let chat = chat_with(&server, "notes.txt", "beans").await;
        let paired = pair(&server, &json!({})).await;
        let mut executor = paired.connect(1, &[]).await;
        let body = json!({ "config": config("gateway.codex.v2"), "workspace": { "chatId": chat, "apply": true } });
        let run = ask(&server, &body).await;
        let job = executor.given().await;
        assert_eq!(job.files, BTreeMap::from([("notes.txt".parse().unwrap(), file("beans"))]));
        // What it is told of it may read; nothing else of the chat, and nobody else may.
        let blob = |hash: &str| format!("blobs/{hash}");
        let known = file("beans").sha256.to_string();
        let content = paired.request(&server, Method::GET, job.id, &blob(&known)).send().await.unwrap();
        assert_eq!((content.status().as_u16(), content.text().await.unwrap().as_str()), (200, "beans"));
        write(&server, &chat, "secret.txt", "not for it").await;
        server.delete(&format!("{CHATS}/{chat}/workspace/files/secret.txt")).await.expect(204);
        let hidden = blob(&file("not for it").sha256.to_string());
        Answer::of(paired.request(&server, Method::GET, job.id, &hidden)).await.expect_error(404, "NOT_FOUND");
        let stranger = pair(&server, &json!({})).await;
        Answer::of(stranger.request(&server, Method::GET, job.id, &blob(&known))).await.expect_error(409, "CONFLICT");
        let wrong = paired.request(&server, Method::PUT, job.id, &blob(&known)).body("other");
        Answer::of(wrong).await.expect_error(400, "BAD_REQUEST");
        // The chat was changed meanwhile (twice), so what the run left is kept, and not brought in by itself.
        let files = [("notes.txt", "runner beans"), ("new/plan.md", "# Plan")];
        assert_eq!(end_with(&server, &paired, &mut executor, job.id, &files).await, 2);
        let over = until(&server, run, "succeeded").await;
        let (pre, post) = (over["preManifestId"].as_str().unwrap(), over["postManifestId"].as_str().unwrap());
        assert_eq!(read(&server, &chat, "notes.txt").await.as_deref(), Some("beans"));
        let noted: Vec<Value> = events(&server, run, "").await.into_iter().filter(|(_, name, _)| name == "log").map(|(.., data)| data).collect();
        assert!(noted[0]["message"].as_str().unwrap().contains("changed while it ran"), "{noted:?}");
        let shown = server.get(&format!("{RUNS}/{run}/workspace")).await.expect(200);
        assert_eq!((shown["preManifestId"].as_str(), shown["postManifestId"].as_str()), (Some(pre), Some(post)));
        let changes: Vec<(&str, &str)> = shown["changes"].as_array().unwrap().iter().map(|change| (change["path"].as_str().unwrap(), change["change"].as_str().unwrap())).collect();
        assert_eq!(changes, [("new/plan.md", "added"), ("notes.txt", "changed")]);
        assert!(shown["changes"][1]["patch"].as_str().unwrap().contains("+runner beans"));
        // By hand it is.
        server.post(&format!("{RUNS}/{run}/apply"), &json!({})).await.expect(200);
        assert_eq!(read(&server, &chat, "notes.txt").await.as_deref(), Some("runner beans"));
        // The next run begins there, brings nothing that is known, and becomes the next state by itself. A link, of which executors are not
        // told, stays.
        let home = database.data().join(format!("chats/{chat}/workspace"));
        std::os::unix::fs::symlink("notes.txt", home.join("latest")).unwrap();
        let next = ask(&server, &body).await;
        let job = executor.given().await;
        assert_eq!(job.files.len(), 2);
        assert_eq!(end_with(&server, &paired, &mut executor, job.id, &[("notes.txt", "runner beans")]).await, 0);
        until(&server, next, "succeeded").await;
        assert_eq!(read(&server, &chat, "new/plan.md").await, None);
        assert_eq!(std::fs::read_link(home.join("latest")).unwrap().to_str(), Some("notes.txt"));
        // An earlier state can be begun with, too.
        let body = json!({ "config": config("gateway.codex.v2"), "workspace": { "chatId": chat, "manifestId": pre } });
        ask(&server, &body).await;
        assert_eq!(executor.given().await.files, BTreeMap::from([("notes.txt".parse().unwrap(), file("beans"))]));
        server.post(&format!("{CHATS}/{chat}/workspace/fsck"), &json!({})).await.expect(200);
    }

    async fn a_run_of_its_own_has_a_folder_of_its_own(database: TestDatabase) {
        let server = serve(&database);
        let paired = pair(&server, &json!({})).await;
        let mut executor = paired.connect(1, &[]).await;
        let run = ask(&server, &json!({ "name": "Plan", "config": config("gateway.codex.v2") })).await;
        let job = executor.given().await;
        assert!(job.files.is_empty() && job.keep_files);
        end_with(&server, &paired, &mut executor, job.id, &[("plan.md", "# Plan")]).await;
        let over = until(&server, run, "succeeded").await;
        let chat = over["chatId"].as_str().unwrap();
        assert_eq!(read(&server, chat, "plan.md").await.as_deref(), Some("# Plan"));
        assert_eq!(server.get(CHATS).await.expect(200)["items"], json!([]), "lists of chats leave it out");
        assert_eq!(server.get(&format!("{RUNS}?chat={chat}")).await.expect(200)["items"].as_array().unwrap().len(), 1);
        // Again is again with nothing.
        server.post(&format!("{RUNS}/{run}/retry"), &json!({})).await.expect(201);
        assert!(executor.given().await.files.is_empty());
        server.delete(&format!("{CHATS}/{chat}")).await.expect(204);
        server.get(&format!("{RUNS}/{run}")).await.expect_error(404, "NOT_FOUND");
    }

    /// An answer is not lost because a file is.
    async fn files_that_never_came(database: TestDatabase) {
        let server = serve(&database);
        let mut executor = pair(&server, &json!({})).await.connect(1, &[]).await;
        let run = ask(&server, &json!({ "config": config("gateway.codex.v2") })).await;
        let id = executor.given().await.id;
        let named = BTreeMap::from([("ghost.txt".parse().unwrap(), file("boo"))]);
        executor.say(&FromExecutor::Result { id, outcome: succeeded("done"), files: Some(named) }).await;
        executor.acknowledged(id).await;
        let over = until(&server, run, "succeeded").await;
        assert_eq!((&over["output"], &over["postManifestId"]), (&json!("done"), &Value::Null));
        let noted = events(&server, run, "").await;
        assert!(noted.iter().any(|(_, name, data)| name == "log" && data["message"].as_str().unwrap().contains("could not be kept")));
    }
}
