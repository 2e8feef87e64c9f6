//! Another organisation's token is, for every route, the same as an organisation that does not exist.

use kitbag_testkit::database::{add_organization, add_token};
use kitbag_testkit::{Answer, on_both};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{CHATS, new_chat, serve};

on_both! {
    /// Generated from the document, so a new route is covered the day it is made.
    async fn every_route_hides_other_organisations(database: TestDatabase) {
        let server = serve(&database);
        let chat = new_chat(&server).await;
        let store = database.open().await;
        let other = add_organization(&store, "other").await;
        let token = add_token(&store, &other, "use manage").await;
        let document = server.get("/openapi.json").await.expect(200);
        let mut checked = 0;
        for (path, item) in document["paths"].as_object().unwrap() {
            if !path.contains("{org}") {
                continue;
            }
            for method in item.as_object().unwrap().keys() {
                let method: Method = method.to_uppercase().parse().unwrap();
                let ask = |org: &str| {
                    let path = path.replace("{org}", org).replace("{chat}", &chat).replace("{token}", &chat).replace("{path}", "f")
                        .replace("{id}", "app").replace("{skill}", "s").replace("{key}", "k").replace("{toolId}", "t").replace("{serverKey}", "a~b")
                        .replace("{callId}", &chat).replace("{user}", &chat).replace("{invitation}", &chat);
                    assert!(!path.contains('{'), "teach this test the parameters of {path}");
                    Answer::of(server.anonymous(method.clone(), &path).bearer_auth(&token).json(&json!({})))
                };
                let (foreign, missing) = (ask("local").await, ask("nobody").await);
                foreign.expect_error(404, "NOT_FOUND");
                let text = |answer: &Answer, org: &str| answer.body.to_string().replace(org, "ORG");
                assert_eq!(text(&foreign, "local"), text(&missing, "nobody"), "{method} {path}");
                checked += 1;
            }
        }
        assert!(checked >= 10, "only {checked} routes were found");
        assert_eq!(server.get(&format!("{CHATS}/{chat}")).await.expect(200)["id"], chat.as_str());
    }

    async fn each_organisation_lists_its_own(database: TestDatabase) {
        let server = serve(&database);
        let mine = new_chat(&server).await;
        let store = database.open().await;
        let other = add_organization(&store, "other").await;
        let token = add_token(&store, &other, "use").await;
        let theirs = |method, path: &str| server.anonymous(method, path).bearer_auth(&token);
        let path = "/v1/orgs/other/chats";
        let made = Answer::of(theirs(Method::POST, path).json(&json!({}))).await.expect(201);
        let listed = Answer::of(theirs(Method::GET, path)).await.expect(200);
        assert_eq!((listed["items"][0]["id"].clone(), listed["nextCursor"].clone()), (made["id"].clone(), Value::Null));
        assert_eq!(listed["items"].as_array().unwrap().len(), 1);
        // The id of a chat that is ours, in the path of theirs, names nothing.
        Answer::of(theirs(Method::GET, &format!("{path}/{mine}"))).await.expect_error(404, "NOT_FOUND");
        let cursor = server.get(&format!("{CHATS}?limit=1")).await.expect(200);
        assert_eq!(cursor["items"].as_array().unwrap().len(), 1);
    }
}
