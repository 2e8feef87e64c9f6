//! `kill -9` and a full disk at every step of every operation on a workspace, one after another: acknowledged states are
//! whole, the folder is the old state or the new one, and the operation works the next time.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use kitbag_testkit::{Answer, Program, Server, TestDatabase, on_both, sha256};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::BINARY;
use crate::crash_workspace::{Acknowledged, on_disk, verify};

/// Paths and the hashes of what they hold.
type Files = BTreeMap<String, String>;

/// The folder through which a running server is told where to fail.
struct Faults(TempDir);

impl Faults {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn arm(&self, what: &str, step: usize) {
        self.disarm();
        fs::write(self.0.path().join("plan.new"), format!("{what} {step}")).unwrap();
        fs::rename(self.0.path().join("plan.new"), self.0.path().join("plan")).unwrap();
    }

    /// The steps that were done since it was armed.
    fn disarm(&self) -> Vec<String> {
        let _ = fs::remove_file(self.0.path().join("plan"));
        let steps = fs::read_to_string(self.0.path().join("steps")).unwrap_or_default();
        let _ = fs::remove_file(self.0.path().join("steps"));
        steps.lines().map(str::to_owned).collect()
    }
}

/// A chat with two branches that differ, and a server to break.
struct Scene {
    database: TestDatabase,
    faults: Faults,
    server: Server,
    chat: String,
    leaves: Vec<String>,
    done: Vec<Acknowledged>,
}

/// An operation: what to ask, and what the folder may be afterwards.
struct Attempt {
    request: RequestBuilder,
    states: Vec<Files>,
}

impl Scene {
    async fn new(database: TestDatabase) -> Self {
        let faults = Faults::new();
        let server = start(&database, &faults);
        let mut scene = Self { database, faults, server, chat: String::new(), leaves: Vec::new(), done: Vec::new() };
        scene.make_chat(&["a", "b"]).await;
        scene
    }

    async fn make_chat(&mut self, branches: &[&str]) {
        let made = self.server.post("/v1/orgs/local/chats", &json!({})).await.expect(201);
        self.chat = made["id"].as_str().unwrap().to_owned();
        (self.leaves, self.done) = (Vec::new(), Vec::new());
        for branch in branches {
            let body = json!({ "role": "user", "content": branch, "parentId": null });
            let message = self.server.post(&self.at("messages"), &body).await.expect(201);
            self.leaves.push(message["id"].as_str().unwrap().to_owned());
            self.server.post(&self.at("active-leaf"), &json!({ "messageId": message["id"] })).await.expect(200);
            for path in ["both", &format!("{branch}/more/only")] {
                self.put(path, &format!("{branch} {path}")).await;
            }
        }
    }

    fn at(&self, rest: &str) -> String {
        format!("/v1/orgs/local/chats/{}/{rest}", self.chat)
    }

    fn home(&self) -> PathBuf {
        self.database.data().join("chats").join(&self.chat)
    }

    fn folder(&self) -> Files {
        on_disk(&self.home().join("workspace"))
    }

    async fn put(&mut self, path: &str, content: &str) {
        let request = self.server.request(Method::PUT, &self.at(&format!("workspace/files/{path}")));
        let written = Answer::of(request.body(content.to_owned())).await;
        assert!(written.status.is_success(), "{written:?}");
        let text = |field: &str| written.body[field].as_str().unwrap().to_owned();
        self.done.push((text("manifestId"), path.to_owned(), text("sha256")));
    }

    async fn files_of(&self, manifest: &str) -> Files {
        let state = self.server.get(&self.at(&format!("workspace/manifest?id={manifest}"))).await.expect(200);
        serde_json::from_value(state["files"].clone()).unwrap()
    }

    /// What is in the folder is one of the states that it may be in, and everything acknowledged is there.
    async fn check(&self, attempt: &Attempt, what: &str) {
        eprintln!("{what}");
        verify(&self.server, &self.database, &self.chat, &self.done).await;
        assert!(attempt.states.contains(&self.folder()), "{what}: neither the old state nor the new one");
    }

    /// Kills the server at every step of an operation, until one goes well. The steps of that one.
    async fn kill_at_every_step(&mut self, prepare: impl AsyncFn(&mut Self) -> Attempt) -> Vec<String> {
        for step in 1.. {
            let attempt = prepare(self).await;
            if let Some(steps) = self.kill_at("kill", step, &attempt).await {
                assert_eq!(steps.len(), step - 1);
                // Half a write, and then the end.
                for at in (1..step).filter(|at| steps[at - 1] == "write") {
                    let attempt = prepare(self).await;
                    self.kill_at("torn", at, &attempt).await;
                }
                return steps;
            }
            assert!(step < 200, "it never goes well");
        }
        unreachable!("the loop has no end")
    }

    async fn kill_at(&mut self, what: &str, step: usize, attempt: &Attempt) -> Option<Vec<String>> {
        self.faults.arm(what, step);
        let answer = attempt.request.try_clone().unwrap().send().await;
        let steps = self.faults.disarm();
        match answer {
            Ok(answer) => assert!(answer.status().is_success(), "{what} {step}: {answer:?}"),
            Err(_) => {
                self.server.wait();
                self.server = start(&self.database, &self.faults);
                self.check(attempt, &format!("{what} at step {step}, {:?}", steps.last())).await;
                return None;
            }
        }
        self.check(attempt, &format!("no {what} at step {step}")).await;
        Some(steps)
    }

    /// Lets the disk be full from every step of an operation on, and fail at every step.
    async fn fail_at_every_step(&mut self, steps: usize, prepare: impl AsyncFn(&mut Self) -> Attempt) {
        for (what, status) in [("full", 503), ("broken", 500), ("half", 503)] {
            for step in 1..=steps {
                let attempt = prepare(self).await;
                self.faults.arm(what, step);
                let answer = Answer::of(attempt.request.try_clone().unwrap()).await;
                let done = self.faults.disarm();
                let what = format!("{what} at step {step}, {:?}", done.get(step - 1));
                assert!(answer.status.is_success() || answer.status.as_u16() == status, "{what}: {answer:?}");
                self.check(&attempt, &what).await;
            }
        }
    }
}

fn start(database: &TestDatabase, faults: &Faults) -> Server {
    let program = Program::on(BINARY, database).env("TEST_KITBAG_FAULT", faults.0.path().to_str().unwrap());
    Server::start_program(&program, database.data(), &["serve", "--listen", "127.0.0.1:0"])
}

/// A tool has changed some files, enough to share a pack; a person writes another.
async fn put_file(scene: &mut Scene) -> Attempt {
    let folder = scene.home().join("workspace");
    fs::create_dir_all(folder.join("tool")).unwrap();
    let count = sha256(format!("{:?}", scene.folder()).as_bytes());
    for number in 0..10 {
        fs::write(folder.join(format!("tool/{number}")), format!("{number} {count}")).unwrap();
    }
    let before = scene.folder();
    let mut after = before.clone();
    after.insert("person/file".to_owned(), sha256(count.as_bytes()));
    let path = scene.at("workspace/files/person/file");
    Attempt { request: scene.server.request(Method::PUT, &path).body(count), states: vec![before, after] }
}

async fn switch(scene: &mut Scene) -> Attempt {
    let chat = scene.server.get(&format!("/v1/orgs/local/chats/{}", scene.chat)).await.expect(200);
    let (here, there) = if chat["activeLeafMessageId"] == scene.leaves[0].as_str() { (0, 1) } else { (1, 0) };
    // The last state of each branch.
    let states =
        vec![scene.files_of(&scene.done[here * 2 + 1].0).await, scene.files_of(&scene.done[there * 2 + 1].0).await];
    assert_eq!(scene.folder(), states[0], "the folder is that of the branch that the chat stands at");
    let request = scene.server.request(Method::POST, &scene.at("active-leaf"));
    Attempt { request: request.json(&json!({ "messageId": scene.leaves[there] })), states }
}

async fn checkout(scene: &mut Scene) -> Attempt {
    let (a, b) = (scene.done[1].0.clone(), scene.done[3].0.clone());
    let states = vec![scene.files_of(&a).await, scene.files_of(&b).await];
    let target = if scene.folder() == states[0] { b } else { a };
    let request = scene.server.request(Method::POST, &scene.at("workspace/checkout"));
    Attempt { request: request.json(&json!({ "manifestId": target })), states }
}

async fn gc(scene: &mut Scene) -> Attempt {
    // As a snapshot leaves them that was cut off before its rows were written.
    for number in 0..3 {
        let garbage = format!("garbage {number}");
        let hash = sha256(garbage.as_bytes());
        let shard = scene.home().join("blobs").join(&hash[..2]);
        fs::create_dir_all(&shard).unwrap();
        fs::write(shard.join(&hash), garbage).unwrap();
    }
    fs::write(scene.home().join("tmp/left"), "over").unwrap();
    let request = scene.server.request(Method::POST, &scene.at("workspace/gc")).json(&json!({ "graceSeconds": 0 }));
    Attempt { request, states: vec![scene.folder()] }
}

fn has(steps: &[String], wanted: &[&str]) {
    for name in wanted {
        assert!(steps.iter().any(|step| step == name), "{name} is not among {steps:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_written() {
    let mut scene = Scene::new(TestDatabase::sqlite()).await;
    let steps = scene.kill_at_every_step(put_file).await;
    // Copies of what is in a bucket need not outlive a power cut.
    match scene.database.bucket() {
        None => has(&steps, &["create", "write", "sync", "rename", "sync folder"]),
        Some(_) => has(&steps, &["create", "write", "rename"]),
    }
    has(&steps, &["state taken", "state written", "state kept"]);
    scene.fail_at_every_step(steps.len(), put_file).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_branch_is_switched() {
    let mut scene = Scene::new(TestDatabase::sqlite()).await;
    let steps = scene.kill_at_every_step(switch).await;
    has(&steps, &["create", "write", "remove", "make folder", "switch written", "switch kept"]);
    scene.fail_at_every_step(steps.len(), switch).await;
}

on_both! {
    async fn a_state_is_brought_back(database: TestDatabase) {
        let mut scene = Scene::new(database).await;
        let steps = scene.kill_at_every_step(checkout).await;
        has(&steps, &["create", "write", "remove", "make folder", "state written", "state kept"]);
        scene.fail_at_every_step(steps.len(), checkout).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_is_collected() {
    let mut scene = Scene::new(TestDatabase::sqlite()).await;
    let steps = scene.kill_at_every_step(gc).await;
    has(&steps, &["nodes swept", "nodes gone", "remove"]);
    assert!(!scene.home().join("tmp/left").exists());
    scene.fail_at_every_step(steps.len(), gc).await;
}

/// A chat is there with all it had, or it is gone and its folder too.
#[tokio::test(flavor = "multi_thread")]
async fn a_chat_is_deleted() {
    let mut scene = Scene::new(TestDatabase::sqlite()).await;
    scene.make_chat(&["only"]).await;
    for step in 1.. {
        let path = format!("/v1/orgs/local/chats/{}", scene.chat);
        scene.faults.arm("kill", step);
        let answer = scene.server.request(Method::DELETE, &path).send().await;
        let steps = scene.faults.disarm();
        if answer.is_err() {
            scene.server.wait();
            scene.server = start(&scene.database, &scene.faults);
        }
        let mark = scene.home().with_extension("doomed");
        let found = scene.server.get(&path).await;
        eprintln!("kill at step {step}, {:?}: {}", steps.last(), found.status);
        // What the deletion left is taken care of behind the start.
        while mark.exists() || (found.status.as_u16() == 404 && scene.home().exists()) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        if let Ok(answer) = answer {
            assert_eq!(answer.status().as_u16(), 204);
            assert_eq!(found.body["code"], Value::from("NOT_FOUND"));
            has(&steps, &["chat deleted", "remove"]);
            break;
        }
        if found.status.as_u16() == 200 {
            verify(&scene.server, &scene.database, &scene.chat, &scene.done).await;
        } else {
            found.expect_error(404, "NOT_FOUND");
            scene.make_chat(&["only"]).await;
        }
    }
}
