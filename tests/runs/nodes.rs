//! The files of a run on several nodes with a bucket: the executor speaks to one of them, and a balancer brings its files to any.

use std::collections::BTreeMap;

use kitbag_model::ContentHash;
use kitbag_model::run::wire::{AttemptId, FileRef, FromExecutor, FromServer};
use kitbag_testkit::{Answer, Gate, Program, Server, TestBucket, TestDatabase};
use reqwest::Method;
use serde_json::{Value, json};

use crate::BINARY;
use crate::kit::{Executor, Paired, ask, config, pair, succeeded, until};

const CHATS: &str = "/v1/orgs/local/chats";
const MASTER_KEY: &str = "6b1f0d5c2a7e4938b6d1c0f3e8a79254716f3c8d9e0b2a4f5d6c7b8a99887766";
const NAME: &str = "left.txt";
const CONTENT: &str = "what the agent left";

fn node(database: &TestDatabase) -> Server {
    let program = Program::on(BINARY, database)
        .env("KITBAG_MASTER_KEY", MASTER_KEY)
        .env("KITBAG_ADVERTISE", "http://127.0.0.1:0");
    Server::start_program(&program, database.data(), &["serve", "--listen", "127.0.0.1:0"])
}

/// Two nodes, of which the first holds a chat, and an attempt of a run in that chat.
struct Installation {
    _databases: [TestDatabase; 2],
    servers: [Server; 2],
    /// Before the first one's bucket.
    gate: Gate,
    chat: String,
    paired: Paired,
    executor: Executor,
    id: AttemptId,
}

impl Installation {
    /// With the executor's connection at one of the nodes.
    async fn with_executor_at(which: usize) -> Self {
        let bucket = TestBucket::new();
        let gate = Gate::before(&bucket);
        let database = TestDatabase::postgres().await.in_bucket(&bucket.through(&gate));
        let beside = database.beside().in_bucket(&bucket);
        let servers = [node(&database), node(&beside)];
        let chat = servers[0].post(CHATS, &json!({})).await.expect(201)["id"].as_str().unwrap().to_owned();
        let put = servers[0].request(Method::PUT, &format!("{CHATS}/{chat}/workspace/files/notes.txt"));
        Answer::of(put.body("beans")).await.expect(201);
        let paired = pair(&servers[which], &json!({})).await;
        let mut executor = paired.connect(1, &[]).await;
        let workspace = json!({ "chatId": chat, "apply": true });
        ask(&servers[0], &json!({ "config": config("gateway.codex.v2"), "workspace": workspace })).await;
        let id = executor.given().await.id;
        Self { _databases: [database, beside], servers, gate, chat, paired, executor, id }
    }

    /// Asks a node whether it has the file. From then on it has looked at what there is of the chat.
    async fn is_missing_at(&self, which: usize) -> bool {
        let asked = self.paired.request(&self.servers[which], Method::POST, self.id, "missing");
        let asked = asked.json(&json!({ "hashes": [file().sha256.to_string()] }));
        Answer::of(asked).await.expect(200)["missing"] != json!([])
    }

    async fn put_at(&self, which: usize) {
        let path = format!("blobs/{}", file().sha256);
        let put = self.paired.request(&self.servers[which], Method::PUT, self.id, &path);
        Answer::of(put.body(CONTENT)).await.expect(204);
    }

    /// Collects what nobody needs and is older than an hour: nothing is.
    async fn collect_at(&self, which: usize) {
        let path = format!("{CHATS}/{}/workspace/gc", self.chat);
        let done = self.servers[which].post(&path, &json!({ "graceSeconds": 3600 })).await.expect(200);
        assert_eq!(done["blobs"], 0, "{done}");
    }

    /// Says that it ended, and what it left.
    async fn say_the_end(&mut self) {
        let files = BTreeMap::from([("notes.txt".parse().unwrap(), beans()), (NAME.parse().unwrap(), file())]);
        let (id, outcome) = (self.id, succeeded("done"));
        self.executor.say(&FromExecutor::Result { id, outcome, files: Some(files) }).await;
    }

    /// The run is over, and every node has its files.
    async fn has_its_files(&mut self) {
        self.executor.acknowledged(self.id).await;
        let over: Value = until(&self.servers[0], self.id.run_id, "succeeded").await;
        assert!(over["postManifestId"].is_string(), "{over}");
        for server in &self.servers {
            let path = format!("{CHATS}/{}/workspace/files/{NAME}", self.chat);
            let answer = server.request(Method::GET, &path).send().await.unwrap();
            assert_eq!((answer.status().as_u16(), &*answer.text().await.unwrap()), (200, CONTENT));
            let checked = server.post(&format!("{CHATS}/{}/workspace/fsck", self.chat), &json!({})).await.expect(200);
            assert_eq!(checked["problems"], json!([]), "{checked}");
        }
    }
}

fn file() -> FileRef {
    FileRef { sha256: ContentHash::of(CONTENT.as_bytes()), size: CONTENT.len() as u64, executable: false }
}

fn beans() -> FileRef {
    FileRef { sha256: ContentHash::of(b"beans"), size: 5, executable: false }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_came_through_another_node_are_kept() {
    let mut all = Installation::with_executor_at(0).await;
    assert!(all.is_missing_at(0).await);
    all.put_at(1).await;
    all.say_the_end().await;
    all.has_its_files().await;
}

/// Who is acknowledged clears its folder.
#[tokio::test(flavor = "multi_thread")]
async fn an_end_whose_files_cannot_be_looked_for_is_not_acknowledged() {
    let mut all = Installation::with_executor_at(0).await;
    assert!(all.is_missing_at(0).await);
    all.put_at(1).await;
    all.gate.shut();
    all.say_the_end().await;
    while let Some(said) = all.executor.maybe().await {
        assert!(!matches!(said, FromServer::Ack { result: true, .. }), "{said:?}");
    }
    all.gate.open();
    all.executor = all.paired.connect(1, &[all.id]).await;
    all.say_the_end().await;
    all.has_its_files().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_kept_that_came_before_a_collection() {
    let mut all = Installation::with_executor_at(0).await;
    all.put_at(0).await;
    all.collect_at(0).await;
    all.say_the_end().await;
    all.has_its_files().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_ends_at_a_node_that_heard_of_no_collection() {
    let mut all = Installation::with_executor_at(1).await;
    assert!(all.is_missing_at(1).await);
    all.put_at(1).await;
    all.collect_at(0).await;
    all.say_the_end().await;
    all.has_its_files().await;
}
