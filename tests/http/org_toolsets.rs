//! Toolsets of organisations: made of servers and skills, changed, seen by some, and without a secret in them.

mod editing;
mod making;
mod secrets;
mod seeing;

use kitbag_testkit::{Answer, Server};
use reqwest::Method;
use serde_json::{Value, json};

use crate::browsers::{Browser, invited, owner};

pub(crate) const ACME: &str = "/v1/orgs/acme/toolsets";

/// The people of an organisation, by role.
pub(crate) struct People<'s> {
    pub(crate) owner: Browser<'s>,
    pub(crate) admin: Browser<'s>,
    pub(crate) member: Browser<'s>,
}

impl<'s> People<'s> {
    pub(crate) async fn of(server: &'s Server, org: &str) -> Self {
        let owner = owner(server, org).await;
        let admin = invited(&owner, org, &format!("admin@{org}.example"), "admin").await;
        let member = invited(&owner, org, &format!("member@{org}.example"), "member").await;
        Self { owner, admin, member }
    }
}

/// A skill that nothing is wrong with.
pub(crate) fn skill(id: &str) -> Value {
    let text = format!("---\nname: {id}\ndescription: What {id} is for.\n---\n\n# How\n");
    json!({
        "format": "agentskills-v1", "id": id, "name": "A skill", "entry": "SKILL.md",
        "files": [
            { "path": "SKILL.md", "content": text },
            { "path": "scripts/a.sh", "content": "echo a\n", "encoding": "utf8" },
            { "path": "assets/logo.bin", "content": "iVD/", "encoding": "base64" },
        ],
    })
}

/// A server that nothing is wrong with.
pub(crate) fn stdio(id: &str) -> Value {
    json!({
        "id": id, "serverType": "stdio", "command": "npx", "args": ["-y", "pkg"], "enabled": false,
        "env": { "TOKEN": "${ENV:TEST_TOKEN}" },
    })
}

/// A toolset of the two.
pub(crate) fn toolset(name: &str) -> Value {
    json!({ "name": name, "visibility": "org", "mcpServers": [stdio("github")], "agentSkills": [skill("pdf-tools")] })
}

/// The same with something else in one place.
pub(crate) fn with(mut value: Value, pointer: &str, part: Value) -> Value {
    match value.pointer_mut(pointer) {
        Some(place) => *place = part,
        None => {
            let (above, name) = pointer.rsplit_once('/').unwrap();
            value.pointer_mut(above).unwrap()[name] = part;
        }
    }
    value
}

/// The problems that an answer tells, each as `CODE field`.
pub(crate) fn problems(answer: &Answer) -> Vec<String> {
    let told = answer.body["details"]["problems"].as_array().unwrap();
    told.iter()
        .map(|one| {
            assert!(!one["message"].as_str().unwrap().is_empty());
            format!("{} {}", one["code"].as_str().unwrap(), one["field"].as_str().unwrap())
        })
        .collect()
}

/// Asks with a token.
pub(crate) async fn with_token(
    server: &Server,
    token: &str,
    method: Method,
    path: &str,
    body: Option<Value>,
) -> Answer {
    let request = server.anonymous(method, path).bearer_auth(token);
    Answer::of(body.iter().fold(request, |request, body| request.json(body))).await
}

/// A token of somebody.
pub(crate) async fn token_of(browser: &Browser<'_>, org: &str, scopes: &[&str]) -> String {
    let body = json!({ "name": "agent", "scopes": scopes });
    let made = browser.post(&format!("/v1/orgs/{org}/tokens"), body).await.expect(201);
    made["secret"].as_str().unwrap().to_owned()
}
