//! What is kept for the database has a bound: the ends of calls keep their places in the queue.

use futures_util::future::join_all;
use kitbag_testkit::{Answer, Server};
use reqwest::Method;
use serde_json::json;

use crate::apart::{Apart, State, all_are, all_are_ready, all_say_so, come_again};
use crate::kit::{ask_nobody, begin, calls, command, new_chat, output, over, until, until_there};

const PLACES: usize = 3;

/// The database takes everything but the ends of calls.
const REFUSE_ENDS: &str = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         RAISE EXCEPTION 'not now' USING ERRCODE = '57P03'; END $$;
     CREATE TRIGGER refuse BEFORE UPDATE ON tool_calls FOR EACH ROW WHEN (OLD.status = 'running') EXECUTE FUNCTION refuse()";

/// Fills the queue of a node with calls that wait for a file.
async fn fill(apart: &Apart, server: &Server) -> Vec<(String, String)> {
    let mut begun = Vec::new();
    for _ in 0..PLACES {
        let chat = new_chat(server).await;
        let path = begin(server, &chat, "touch begun; until test -e go; do sleep 0.05; done; echo kept >file").await;
        until_there(&apart.workspace(0, &chat).join("begun")).await;
        begun.push((chat, path));
    }
    begun
}

/// Lets go of all of them.
fn let_go(apart: &Apart, begun: &[(String, String)]) {
    for (chat, _) in begun {
        std::fs::write(apart.workspace(0, chat).join("go"), "").unwrap();
    }
}

/// All of it is recorded, and all places are free again.
async fn all_is_there(apart: &Apart, begun: &[(String, String)]) {
    for (chat, path) in begun {
        for server in &apart.servers {
            let ended = over(server, path).await;
            assert_eq!(ended["status"], "success", "{ended}");
        }
        assert_eq!(output(command(&apart.servers[1], chat, "cat file").await), "kept");
    }
    let mut chats = Vec::new();
    for _ in 0..PLACES {
        chats.push(new_chat(&apart.servers[0]).await);
    }
    for answer in join_all(chats.iter().map(|chat| command(&apart.servers[0], chat, "echo a place"))).await {
        assert_eq!(output(answer), "a place");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ends_that_cannot_be_recorded_keep_their_places_and_no_more_are_taken() {
    let apart = Apart::with(&["--max-queue", &PLACES.to_string()]).await;
    let [first, second] = &apart.servers;
    ask_nobody(first).await;
    let begun = fill(&apart, first).await;
    let next = new_chat(first).await;
    apart.installation.database.change(REFUSE_ENDS).await;
    let_go(&apart, &begun);
    for (_, path) in &begun {
        let id = path.rsplit('/').next().unwrap();
        until("its end is kept", async || {
            first.log().lines().any(|line| line.contains("the end of a call") && line.contains(id)).then_some(())
        })
        .await;
    }
    // Whatever is asked for now, and by whatever way it comes.
    for server in [first, second] {
        for _ in 0..10 {
            let refused = command(server, &next, "true").await;
            refused.expect_error(429, "RATE_LIMITED");
            assert!(refused.headers.contains_key("retry-after"), "{refused:?}");
        }
    }
    // Nothing of it was taken.
    assert_eq!(second.get(&calls(&next)).await.expect(200)["items"], json!([]));
    for (_, path) in &begun {
        assert_eq!(second.get(path).await.expect(200)["status"], "running");
    }
    apart.installation.database.change("DROP TRIGGER refuse ON tool_calls").await;
    all_is_there(&apart, &begun).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_more_is_taken_while_the_database_is_away_and_all_is_recorded_afterwards() {
    let apart = Apart::with(&["--max-queue", &PLACES.to_string()]).await;
    let [first, second] = &apart.servers;
    let begun = fill(&apart, first).await;
    let next = new_chat(first).await;
    all_are(&apart.ways, State::Cut);
    all_say_so(&apart.servers).await;
    let_go(&apart, &begun);
    for server in [first, second] {
        for _ in 0..PLACES {
            let body = json!({ "toolId": "run_command", "args": { "command": "true" } });
            come_again(&Answer::of(server.request(Method::POST, &calls(&next)).json(&body)).await);
        }
    }
    until("the ends are kept", async || {
        let log = first.log();
        let is_kept = |path: &str| {
            let id = path.rsplit('/').next().unwrap();
            log.lines().any(|line| line.contains("the end of a call") && line.contains(id))
        };
        begun.iter().all(|(_, path)| is_kept(path)).then_some(())
    })
    .await;
    all_are(&apart.ways, State::Open);
    all_are_ready(&apart.servers).await;
    all_is_there(&apart, &begun).await;
    assert_eq!(second.get(&calls(&next)).await.expect(200)["items"], json!([]));
}
