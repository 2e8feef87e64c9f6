//! Kitbag as a client of Kitbag, with a real provider between them: found by the metadata, signed in, and used.

use kitbag_testkit::{Answer, Server, TestDatabase};
use reqwest::Method;
use serde_json::{Value, json};

use crate::browsers::owner;
use crate::kit::{Provider, Walker, issuer, serve};

async fn until(server: &Server, path: &str, status: &str) -> Value {
    for _ in 0..600 {
        let shown = server.get(path).await.expect(200);
        if shown["status"] == status {
            return shown;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("{path} never was {status}: {}", server.get(path).await.expect(200));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kitbag_signs_in_to_another_and_calls_its_tools() {
    let provider = Provider::start().await;
    // The one that is served: Grace is a member of `acme` there, through the provider.
    let (there, here) = (TestDatabase::sqlite(), TestDatabase::sqlite());
    let more = "mcp = true\nallow_domains = [\"example.org\"]\ndefault_org = \"acme\"\n";
    let far = serve(&there, &issuer(&provider.url, more));
    let ada = owner(&far, "acme").await;
    let mut walker = Walker::new(&far, "grace");
    assert_eq!(walker.sign_in("").await.error(), None);

    // The one that is its client.
    let near = serve(&here, "");
    let resource = format!("{}/v1/orgs/acme/mcp", far.url);
    let servers = "/v1/orgs/local/mcp-servers";
    let body = json!({ "id": "far", "url": resource, "requiresConfirmation": false });
    near.post(servers, &body).await.expect(201);
    let at = format!("{servers}/far~far");
    until(&near, &at, "requires_auth").await;
    let started = near.post(&format!("{at}/sign-in"), &json!({})).await.expect(200);
    assert_eq!(
        (&started["issuer"], &started["scopes"]),
        (&json!(provider.url), &json!(["kitbag:use", "offline_access"])),
        "{started}"
    );
    let mut person = Walker::new(&near, "grace");
    let link = started["authorizeUrl"].as_str().unwrap().strip_prefix(&near.url).unwrap();
    let arrived = person.walk(link).await;
    assert!(arrived.page.contains("Signed in to far~far"), "{} {}", arrived.url, arrived.page);
    until(&near, &at, "connected").await;

    let chat = near.post("/v1/orgs/local/chats", &json!({})).await.expect(201);
    let calls = format!("/v1/orgs/local/chats/{}/tool-calls", chat["id"].as_str().unwrap());
    let call = async |tool: &str, args: Value| {
        let body = json!({ "toolId": format!("mcp:far~far:{tool}"), "args": args });
        near.post(&calls, &body).await.expect(200)
    };
    let wrote = call("write_file", json!({ "path": "from-near.txt", "content": "hello" })).await;
    assert_eq!(wrote["status"], "success", "{wrote}");
    // It happened there, in the chat of this client of Grace's.
    let chats = ada.get("/v1/orgs/acme/chats").await.expect(200);
    let title = chats["items"][0]["title"].as_str().unwrap();
    assert!(title.starts_with("MCP: user ") && title.ends_with("of issuer company"), "{title}");
    let files = format!("/v1/orgs/acme/chats/{}/workspace/files", chats["items"][0]["id"].as_str().unwrap());
    assert!(ada.get(&files).await.expect(200).to_string().contains("from-near.txt"));
    // Whoever asked here is not known there: its own token went no further.
    assert!(!far.log().contains(&near.token));

    // Out of the organisation there, the tools are gone here.
    let members = ada.get("/v1/orgs/acme/members").await.expect(200);
    let grace = members["items"].as_array().unwrap().iter().find(|member| member["role"] == "member").unwrap();
    ada.delete(&format!("/v1/orgs/acme/members/{}", grace["id"].as_str().unwrap())).await.expect(204);
    let body = json!({ "toolId": "mcp:far~far:list_files", "args": {} });
    let refused = Answer::of(near.request(Method::POST, &calls).json(&body)).await;
    assert!(refused.status != 200 || refused.body["status"] == "error", "{refused:?}");
}
