//! Calls of one chat, asked for at any node.

use futures_util::future::join_all;
use kitbag_testkit::Answer;
use reqwest::Method;
use serde_json::json;

use crate::kit::{
    CHATS, Installation, begin, calls, command, is_whole, new_chat, nodes, nodes_of, output, over, until, until_there,
};

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_one_chat_go_to_any_node_and_never_interleave() {
    let (_installation, servers) = nodes_of::<3>(Installation::in_bucket(3).await).await;
    let chat = new_chat(&servers[0]).await;
    // Each fails if another is at work, and none is lost.
    let script =
        "mkdir busy && n=$(cat count 2>/dev/null || echo 0) && sleep 0.02 && echo $((n + 1)) >count && rmdir busy";
    let all = (0..18).map(|n| command(&servers[n % 3], &chat, script));
    for answer in join_all(all).await {
        output(answer);
    }
    for server in &servers {
        let path = format!("{CHATS}/{chat}/workspace/files/count");
        let file = server.request(Method::GET, &path).send().await.unwrap();
        assert_eq!(file.text().await.unwrap().trim(), "18");
        assert_eq!(server.get(&calls(&chat)).await.expect(200)["items"].as_array().unwrap().len(), 18);
        is_whole(server, &chat).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_decided_followed_and_cancelled_at_another_node() {
    let (installation, [first, second]) = nodes::<2>().await;
    let chat = new_chat(&first).await;
    output(command(&first, &chat, "true").await);

    // A file goes in at the other node, too large to be kept on the way, and comes back at both.
    let large = "x".repeat(3 << 20);
    let path = format!("{CHATS}/{chat}/workspace/files/large.txt");
    Answer::of(second.request(Method::PUT, &path).body(large.clone())).await.expect(201);
    for server in [&first, &second] {
        let file = server.request(Method::GET, &path).send().await.unwrap().text().await.unwrap();
        assert_eq!(file.len(), large.len());
    }

    let path = "/v1/orgs/local/toolsets/builtin/overrides/run_command";
    Answer::of(second.request(Method::PUT, path).json(&json!({ "requiresConfirmation": true }))).await.expect(200);
    let body = json!({ "toolId": "run_command", "args": { "command": "echo yes" } });
    let waiting = first.post(&calls(&chat), &body).await.expect(202);
    let at = format!("{}/{}", calls(&chat), waiting["id"].as_str().unwrap());
    let decided = second.post(&format!("{at}/decision"), &json!({ "approve": true })).await;
    assert_eq!(output(decided), "yes");

    Answer::of(second.request(Method::PUT, path).json(&json!({ "requiresConfirmation": false }))).await.expect(200);
    let begun = begin(&first, &chat, "touch begun; sleep 600").await;
    until_there(&installation.folder(0).join("chats").join(&chat).join("workspace/begun")).await;
    let ended = second.post(&format!("{begun}/cancel"), &json!({})).await.expect(200);
    assert_eq!(ended["error"]["code"], "CANCELLED", "{ended}");
    assert_eq!(over(&first, &begun).await["error"]["code"], "CANCELLED");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_at_a_time_are_counted_over_all_nodes() {
    let (_installation, [first, second]) = nodes::<2>().await;
    let settings = first.request(Method::PUT, "/v1/orgs/local/settings");
    Answer::of(settings.json(&json!({ "quotas": { "concurrentCalls": 2 } }))).await.expect(200);
    let mut chats = Vec::new();
    for server in [&first, &second, &second] {
        chats.push(new_chat(server).await);
    }
    let begun = begin(&first, &chats[0], "sleep 600").await;
    let other = begin(&second, &chats[1], "sleep 600").await;
    // Two run, one at each; a third may run nowhere.
    for server in [&first, &second] {
        let refused = command(server, &chats[2], "true").await;
        refused.expect_error(429, "QUOTA_EXCEEDED");
        assert!(refused.headers.contains_key("retry-after"), "{refused:?}");
    }
    first.post(&format!("{begun}/cancel"), &json!({})).await.expect(200);
    let done = until("there is a place", async || {
        let answer = command(&second, &chats[2], "echo a place").await;
        (answer.status != 429).then_some(answer)
    });
    assert_eq!(output(done.await), "a place");
    second.post(&format!("{other}/cancel"), &json!({})).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_but_a_node_speaks_as_one() {
    let (_installation, [first, second]) = nodes::<2>().await;
    let chat = new_chat(&first).await;
    let begun = begin(&first, &chat, "true").await;
    let call = begun.rsplit('/').next().unwrap();
    let path = format!("/internal/nodes/run-call?org=local&chat={chat}&call={call}");
    second.post(&path, &json!({})).await.expect_error(404, "NOT_FOUND");
    for seal in ["", "x", &"A".repeat(80)] {
        let request = second.request(Method::POST, &path).header("x-kitbag-node", seal);
        Answer::of(request).await.expect_error(403, "FORBIDDEN");
    }
}
