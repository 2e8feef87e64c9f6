//! Turns of models in chats that several nodes serve.

use kitbag_testkit::model::{Anthropic, Gate, StandIn};
use kitbag_testkit::{Answer, Server};
use reqwest::Method;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::apart::{are_there, come_again, knows};
use crate::kit::{CHATS, Installation, ask_nobody, command, new_chat, output, until};
use crate::turns_kit::{Event, Following, blocks, end, messages, turn};

/// Two nodes whose models are a stand-in's.
async fn nodes(models: &StandIn) -> (Installation, [Server; 2]) {
    let installation = Installation::new(2).await;
    let url = models.url();
    let more = ["--anthropic-url", &url, "--openai-url", &url, "--model", "anthropic/claude-test"];
    let servers = [0, 1].map(|node| installation.start(node, &more));
    ask_nobody(&servers[0]).await;
    (installation, servers)
}

/// An answer with a block that is whole and another that waits at a gate in its middle.
fn half(gate: &Gate) -> Anthropic {
    let begin = json!({ "type": "content_block_start", "index": 1, "content_block": { "type": "text", "text": "" } });
    let piece = |text: &str| {
        let delta = json!({ "type": "text_delta", "text": text });
        json!({ "type": "content_block_delta", "index": 1, "delta": delta })
    };
    let end = json!({ "type": "content_block_stop", "index": 1 });
    Anthropic::new().text(&["Whole."]).event(&begin).event(&piece("Hal")).hold(gate).event(&piece("f")).event(&end)
}

fn texts(message: &Value) -> Vec<String> {
    blocks(message).iter().map(|block| block["text"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_model_says_to_a_node_that_was_thought_dead_is_not_written() {
    let models = StandIn::start();
    let (installation, [first, second]) = nodes(&models).await;
    let chat = new_chat(&first).await;
    let gate = Gate::new();
    models.messages(half(&gate).ends("end_turn"));
    let mut following = Following::ask(&first, &chat, &json!({ "content": "Talk." })).await;
    following.until(|event| event.data["delta"] == "Hal").await;
    first.signal(Signal::STOP);
    let taken = until("the other has the chat", async || {
        let answer = command(&second, &chat, "echo second >file; cat file").await;
        match answer.status.as_u16() {
            200 => Some(answer),
            _ => {
                come_again(&answer);
                None
            }
        }
    });
    assert_eq!(output(taken.await), "second");
    let interrupted = |message: &Value| {
        assert_eq!(message["content"][0]["state"], "interrupted", "{message}");
        assert_eq!(texts(message), ["Whole."], "{message}");
    };
    interrupted(&messages(&second, &chat).await[1]);
    // All of it is there when it wakes.
    gate.open();
    until("the model has said all", async || (models.answered() > 0).then_some(())).await;
    first.signal(Signal::CONT);
    knows(&first).await;
    let heard = following.rest().await;
    assert_eq!(end(&heard)["state"], "interrupted", "{heard:#?}");
    assert!(!heard.iter().any(|event| event.name == "block"), "{heard:#?}");
    are_there(&installation, 2).await;
    for server in [&first, &second] {
        interrupted(&messages(server, &chat).await[1]);
        assert_eq!(server.get(&format!("{CHATS}/{chat}/turns")).await.expect(200)["items"], json!([]));
    }
    for (server, said) in [(&second, "Again."), (&first, "And again.")] {
        models.messages(Anthropic::new().text(&[said]).ends("end_turn"));
        let events = turn(server, &chat, &json!({ "content": "And now?" })).await;
        assert_eq!(end(&events)["state"], "done", "{events:#?}");
        for server in [&first, &second] {
            assert_eq!(texts(messages(server, &chat).await.last().unwrap()), [said]);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_is_asked_for_followed_and_cancelled_at_any_node() {
    let models = StandIn::start();
    let (_installation, [first, second]) = nodes(&models).await;
    let chat = new_chat(&first).await;
    // The first holds it.
    output(command(&first, &chat, "echo here >file").await);
    for (asks, other) in [(&second, &first), (&first, &second)] {
        let gate = Gate::new();
        models.messages(half(&gate).ends("end_turn"));
        let mut following = Following::ask(asks, &chat, &json!({ "content": "Talk." })).await;
        let id = following.named("turn").await.data["turnId"].as_str().unwrap().to_owned();
        following.until(|event| event.data["delta"] == "Hal").await;
        let mut too = Following::again(other, &chat, &id, 0).await;
        too.until(|event| event.data["delta"] == "Hal").await;
        for server in [&first, &second] {
            let running = server.get(&format!("{CHATS}/{chat}/turns")).await.expect(200);
            assert_eq!(running["items"][0]["id"], *id, "{running}");
            // Nobody takes it for one that was cut off.
            assert_eq!(messages(server, &chat).await.last().unwrap()["content"][0]["state"], "running");
            let busy = server.post(&format!("{CHATS}/{chat}/stream"), &json!({ "content": "And this." })).await;
            busy.expect_error(409, "CONFLICT");
        }
        let cancel = other.request(Method::POST, &format!("{CHATS}/{chat}/turns/{id}/cancel"));
        assert_eq!(Answer::of(cancel.json(&json!({}))).await.expect(200)["cancelled"], true);
        for following in [following, too] {
            let heard: Vec<Event> = following.rest().await;
            assert_eq!(end(&heard)["state"], "cancelled", "{heard:#?}");
        }
        for server in [&first, &second] {
            let message = messages(server, &chat).await.pop().unwrap();
            assert_eq!(
                (&message["content"][0]["state"], texts(&message)),
                (&json!("cancelled"), vec!["Whole.".to_owned()])
            );
        }
    }
    // What it calls works in the one workspace.
    let arguments = json!({ "command": "cat file" }).to_string();
    models.messages(Anthropic::new().tool_call("toolu_1", "run_command", &[&arguments]).ends("tool_use"));
    models.messages(Anthropic::new().text(&["Done."]).ends("end_turn"));
    let events = turn(&second, &chat, &json!({ "content": "Look." })).await;
    assert_eq!(end(&events)["state"], "done", "{events:#?}");
    assert!(models.asked().last().unwrap().body["messages"].to_string().contains("here"));
}
