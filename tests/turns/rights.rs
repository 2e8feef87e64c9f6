//! Turns that lose what they stand on: their chat, or the rights of whoever asked for them.

use kitbag_testkit::model::{Anthropic, Gate, StandIn};
use kitbag_testkit::{Answer, on_both};
use reqwest::Method;
use serde_json::json;

use crate::browsers::{id_of, invited, owner};
use crate::kit::{CHATS, Event, Following, end, messages, new_chat, serve};

fn error(events: &[Event]) -> &serde_json::Value {
    let error = &events[events.len() - 2];
    assert_eq!(error.name, "error", "{events:#?}");
    &error.data
}

on_both! {
    async fn a_chat_that_is_deleted_takes_its_turn_with_it(database: TestDatabase) {
        let models = StandIn::start();
        let server = serve(&database, &models, &[]);
        // While the model speaks.
        let (chat, gate) = (new_chat(&server).await, Gate::new());
        models.messages(Anthropic::new().text(&["Whole."]).hold(&gate).ends("end_turn"));
        let mut following = Following::ask(&server, &chat, &json!({ "content": "Talk." })).await;
        following.named("block").await;
        server.delete(&format!("{CHATS}/{chat}")).await.expect(204);
        models.hung_up_times(1).await;
        let rest = following.rest().await;
        assert_eq!((&end(&rest)["state"], &error(&rest)["code"]), (&json!("cancelled"), &json!("NOT_FOUND")), "{rest:#?}");
        // While a call waits for a yes: the model is not asked again.
        let chat = new_chat(&server).await;
        models.messages(Anthropic::new().tool_call("toolu_1", "run_command", &[r#"{"command":"true"}"#]).ends("tool_use"));
        let mut following = Following::ask(&server, &chat, &json!({ "content": "Do it." })).await;
        following.named("tool_call").await;
        server.delete(&format!("{CHATS}/{chat}")).await.expect(204);
        assert_eq!(end(&following.rest().await)["state"], "cancelled");
        assert_eq!(models.asked().len(), 2);
        server.get(&format!("{CHATS}/{chat}")).await.expect_error(404, "NOT_FOUND");
    }

    async fn the_turn_of_a_token_that_is_revoked_ends(database: TestDatabase) {
        let models = StandIn::start();
        let server = serve(&database, &models, &[]);
        let (chat, gate) = (new_chat(&server).await, Gate::new());
        let ask = async |secret: &str| {
            let request = server.anonymous(Method::POST, &format!("{CHATS}/{chat}/stream")).bearer_auth(secret);
            Following::of(request.json(&json!({ "content": "Go on." })).send().await.unwrap()).await
        };
        let token = async || server.post("/v1/orgs/local/tokens", &json!({ "name": "ci", "scopes": ["use"] })).await.expect(201);
        for waits in [false, true] {
            let token = token().await;
            match waits {
                false => models.messages(Anthropic::new().text(&["Whole."]).hold(&gate).ends("end_turn")),
                true => models.messages(Anthropic::new().text(&["Whole."]).tool_call("toolu_1", "run_command", &[r#"{"command":"true"}"#]).ends("tool_use")),
            }
            let mut theirs = ask(token["secret"].as_str().unwrap()).await;
            let turn = theirs.named("turn").await.data["turnId"].as_str().unwrap().to_owned();
            theirs.named(if waits { "tool_call" } else { "block" }).await;
            // Somebody whose rights go on hears why it ends.
            let following = Following::again(&server, &chat, &turn, 0).await;
            server.delete(&format!("/v1/orgs/local/tokens/{}", token["id"].as_str().unwrap())).await.expect(204);
            let heard = following.rest().await;
            assert_eq!((&end(&heard)["state"], &error(&heard)["code"]), (&json!("cancelled"), &json!("FORBIDDEN")), "{heard:#?}");
            let kept = messages(&server, &chat).await.pop().unwrap();
            assert_eq!((&kept["content"][0]["state"], &kept["content"][0]["error"]["code"]), (&json!("cancelled"), &json!("FORBIDDEN")));
            assert_eq!(kept["content"][1]["text"], "Whole.");
        }
        models.hung_up_times(1).await;
        assert_eq!(models.asked().len(), 2);
        let calls = server.get(&format!("{CHATS}/{chat}/tool-calls")).await.expect(200);
        assert_eq!(calls["items"][0]["error"]["code"], "CANCELLED");
        // The rights of one say nothing of another's.
        models.messages(Anthropic::new().text(&["Here."]).ends("end_turn"));
        let still = ask(token().await["secret"].as_str().unwrap()).await;
        assert_eq!(end(&still.rest().await)["state"], "done");
    }

    async fn the_turn_of_somebody_who_is_taken_out_or_signs_out_ends(database: TestDatabase) {
        let models = StandIn::start();
        let server = serve(&database, &models, &[]);
        let ada = owner(&server, "acme").await;
        for way in ["taken out", "signed out"] {
            let bert = invited(&ada, "acme", &format!("{}@acme.example", way.replace(' ', "-")), "member").await;
            let chat = bert.post("/v1/orgs/acme/chats", json!({})).await.expect(201)["id"].as_str().unwrap().to_owned();
            let gate = Gate::new();
            models.messages(Anthropic::new().text(&["Whole."]).hold(&gate).ends("end_turn"));
            let request = server.anonymous(Method::POST, &format!("/v1/orgs/acme/chats/{chat}/stream"));
            let request = request.header("cookie", &bert.cookie).header("sec-fetch-site", "same-origin");
            let mut theirs = Following::of(request.json(&json!({ "content": "Go on." })).send().await.unwrap()).await;
            let turn = theirs.named("turn").await.data["turnId"].as_str().unwrap().to_owned();
            theirs.named("block").await;
            let path = format!("/v1/orgs/acme/chats/{chat}/turns/{turn}/events");
            let request = server.anonymous(Method::GET, &path).header("cookie", &ada.cookie).header("sec-fetch-site", "same-origin");
            let following = Following::of(request.send().await.unwrap()).await;
            let gone = match way {
                "taken out" => ada.delete(&format!("/v1/orgs/acme/members/{}", id_of(&bert).await)).await,
                _ => Answer::of(server.anonymous(Method::POST, "/v1/sign-out").header("cookie", &bert.cookie).header("sec-fetch-site", "same-origin")).await,
            };
            assert!(gone.status.is_success(), "{way}: {gone:?}");
            let heard = following.rest().await;
            assert_eq!((&end(&heard)["state"], &error(&heard)["code"]), (&json!("cancelled"), &json!("FORBIDDEN")), "{way}: {heard:#?}");
        }
        models.hung_up_times(2).await;
    }
}
