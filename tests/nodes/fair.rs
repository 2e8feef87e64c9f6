//! One organisation's flood does not slow another, whichever node either of them is at.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use kitbag_testkit::database::{add_organization, add_token};
use kitbag_testkit::{Answer, Server};
use reqwest::{Method, RequestBuilder, header};
use serde_json::{Value, json};

use crate::kit::{Installation, until};

/// Who floods has so many clients at each node: more than a node lets one organisation queue.
const CLIENTS: usize = 96;
const QUEUE: &str = "160";
/// So many of their calls run at a time.
const RUNNING: usize = 32;
/// Half of the queue is theirs, of which those run. Who came after those that wait would see so many end before their own.
const WAITING: usize = 80 - RUNNING;

/// Somebody of an organisation, at a node.
#[derive(Clone)]
struct Client {
    client: reqwest::Client,
    base: String,
    token: String,
    org: &'static str,
}

impl Client {
    fn request(&self, method: Method, rest: &str) -> RequestBuilder {
        self.client.request(method, format!("{}/v1/orgs/{}{rest}", self.base, self.org)).bearer_auth(&self.token)
    }

    async fn post(&self, rest: &str, body: Value) -> Answer {
        Answer::of(self.request(Method::POST, rest).json(&body)).await
    }

    async fn new_chat(&self) -> String {
        self.post("/chats", json!({})).await.expect(201)["id"].as_str().unwrap().to_owned()
    }

    async fn command(&self, chat: &str, command: &str) -> Answer {
        let body = json!({ "toolId": "run_command", "args": { "command": command } });
        self.post(&format!("/chats/{chat}/tool-calls"), body).await
    }
}

/// What came of a flood so far.
#[derive(Default)]
struct Flood {
    over: AtomicBool,
    done: [AtomicUsize; 2],
    refused: [AtomicUsize; 2],
}

/// Calls that never stop, as far as they are let in.
async fn flood(by: Client, node: usize, flood: Arc<Flood>) {
    let chat = by.new_chat().await;
    while !flood.over.load(Ordering::SeqCst) {
        let answer = by.command(&chat, "sleep 0.05").await;
        if answer.status == 429 {
            assert!(answer.headers.contains_key(header::RETRY_AFTER), "{answer:?}");
            flood.refused[node].fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(100)).await;
        } else {
            let call = answer.expect(200);
            assert_eq!(call["status"], "success", "{call}");
            flood.done[node].fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_floods_all_nodes_is_held_back_and_nobody_else() {
    let installation = Installation::new(2).await;
    let servers: [Server; 2] = std::array::from_fn(|node| installation.start(node, &["--max-queue", QUEUE]));
    let store = installation.database.open().await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut of = Vec::new();
    for org in ["acme", "bolt"] {
        let id = add_organization(&store, org).await;
        let token = add_token(&store, &id, "use manage").await;
        let at =
            |server: &Server| Client { client: client.clone(), base: server.url.clone(), token: token.clone(), org };
        let both = [at(&servers[0]), at(&servers[1])];
        let asks_nobody = both[0].request(Method::PUT, "/toolsets/builtin/overrides/run_command");
        Answer::of(asks_nobody.json(&json!({ "requiresConfirmation": false }))).await.expect(200);
        of.push(both);
    }
    let [acme, bolt] = of.try_into().ok().unwrap();
    let chats = [bolt[0].new_chat().await, bolt[1].new_chat().await];
    for (by, chat) in bolt.iter().zip(&chats) {
        by.command(chat, "true").await.expect(200);
    }

    let said = Arc::new(Flood::default());
    let mut flooding = tokio::task::JoinSet::new();
    for number in 0..2 * CLIENTS {
        flooding.spawn(flood(acme[number % 2].clone(), number % 2, Arc::clone(&said)));
    }
    let refused = |node: usize| said.refused[node].load(Ordering::SeqCst);
    until("the flood is at its height", async || (refused(0) > 20 && refused(1) > 20).then_some(())).await;

    // Nobody refuses them, at either node, also where their chat is at the other one; and they wait for few of the others' calls.
    let done = || [0, 1].map(|node: usize| said.done[node].load(Ordering::SeqCst));
    let begun = done();
    let goes_on = || done().iter().zip(begun).all(|(now, begun)| *now >= begun + RUNNING);
    let (mut longest, mut number) = (0, 0);
    // For as long as it takes to see that the flood goes on at both nodes meanwhile.
    while number < 24 || (number < 1000 && !goes_on()) {
        let holder = number / 2 % 2;
        let before = said.done[holder].load(Ordering::SeqCst);
        let called = bolt[number % 2].command(&chats[holder], "true").await.expect(200);
        assert_eq!(called["status"], "success", "{called}");
        longest = longest.max(said.done[holder].load(Ordering::SeqCst) - before);
        number += 1;
    }
    assert!(goes_on(), "the flood stood still: {begun:?} before {number} calls, {:?} after them", done());
    said.over.store(true, Ordering::SeqCst);
    flooding.join_all().await;
    println!("at most {longest} calls of the flood ended during one of theirs");
    assert!(longest < WAITING, "{longest} calls of the flood ended during one of theirs");
}

/// Of many who ask two nodes at once for runs of agents as many are let in as there are places, and not one more.
#[tokio::test(flavor = "multi_thread")]
async fn the_queue_of_runs_has_one_end_for_all_nodes() {
    const MOST: usize = 5;
    let installation = Installation::new(2).await;
    let servers: [Server; 2] = std::array::from_fn(|node| installation.start(node, &["--max-queued-runs", "5"]));
    let asking = (0..20).map(|number| {
        let server = &servers[number % 2];
        let config = json!({ "prompt": "Say hello.", "engine": { "id": "gateway.codex.v2" } });
        async move { server.post("/v1/orgs/local/agent-runs", &json!({ "config": config })).await }
    });
    let answers = futures_util::future::join_all(asking).await;
    let (asked, refused): (Vec<Answer>, Vec<Answer>) = answers.into_iter().partition(|answer| answer.status == 201);
    assert_eq!(asked.len(), MOST, "{refused:?}");
    for answer in refused {
        answer.expect_error(429, "QUOTA_EXCEEDED");
        assert!(answer.headers.contains_key(header::RETRY_AFTER), "{answer:?}");
    }
    assert_eq!(installation.database.count("SELECT COUNT(*) FROM run_queue").await, MOST as i64);
}
