//! What an organisation says about itself, within what the operator lets it have.

use std::fs;

use kitbag_testkit::{Answer, Program, Server, TestDatabase, on_both};
use reqwest::{Method, header};
use serde_json::{Value, json};

use crate::browsers::{Browser, invited, owner};
use crate::from_urls::Host;
use crate::kit::{manifest, with_manifest};
use crate::{BINARY, serve};

const SETTINGS: &str = "/v1/orgs/acme/settings";

/// Has the operator say this.
pub(crate) fn configure(database: &TestDatabase, text: &str) {
    fs::write(database.data().join("kitbag.toml"), text).unwrap();
}

/// Installs a bundle in an organisation.
pub(crate) async fn install(by: &Browser<'_>, org: &str, bytes: Vec<u8>) -> Answer {
    let request = by.server.anonymous(Method::POST, &format!("/v1/orgs/{org}/toolsets/import"));
    let request = request.header(header::COOKIE, &by.cookie).header("sec-fetch-site", "same-origin");
    Answer::of(request.header(header::CONTENT_TYPE, "application/zip").body(bytes)).await
}

async fn put_if(by: &Browser<'_>, etag: &str, body: &Value) -> Answer {
    let request = by.server.anonymous(Method::PUT, SETTINGS).header(header::COOKIE, &by.cookie);
    Answer::of(request.header("sec-fetch-site", "same-origin").header(header::IF_MATCH, etag).json(body)).await
}

/// The actions of the audit, newest first, as far as somebody may see it.
async fn audit(database: &TestDatabase, org: &str) -> Vec<(String, Value)> {
    let store = database.open().await;
    let lines = store.read(&org.parse().unwrap()).await.unwrap().audit_trail(100).await.unwrap();
    lines.into_iter().map(|line| (line.action, line.details)).collect()
}

on_both! {
    async fn settings_are_replaced_as_a_whole(database: TestDatabase) {
        let server = serve(&database);
        let ada = owner(&server, "acme").await;
        let member = invited(&ada, "acme", "member@acme.example", "member").await;
        let first = ada.get(SETTINGS).await;
        let etag = first.headers[header::ETAG].to_str().unwrap().to_owned();
        let first = first.expect(200);
        assert_eq!(first["quotas"], json!({
            "callsPerMinute": null, "concurrentCalls": null, "workspaceBytes": null, "executorsInFlight": null, "queuedRuns": null,
        }));
        assert_eq!(first["network"], json!({ "allow": null }));
        assert_eq!(first["limits"], json!({ "callsPerMinute": null, "concurrentCalls": null, "workspaceBytes": null, "executorsInFlight": null, "queuedRuns": 1000, "variables": [] }));

        let body = json!({ "quotas": { "callsPerMinute": 7, "executorsInFlight": 3 }, "retention": { "chatDays": 30 } });
        let put = ada.put(SETTINGS, body.clone()).await.expect(200);
        assert_eq!((&put["quotas"]["callsPerMinute"], &put["retention"]["chatDays"]), (&json!(7), &json!(30)));
        assert_eq!(member.get(SETTINGS).await.expect(200)["quotas"], put["quotas"], "members read");
        member.put(SETTINGS, json!({})).await.expect_error(403, "FORBIDDEN");
        let token = ada.post("/v1/orgs/acme/tokens", json!({ "name": "agent", "scopes": ["use"] })).await.expect(201);
        let agent = |method| server.anonymous(method, SETTINGS).bearer_auth(token["secret"].as_str().unwrap());
        Answer::of(agent(Method::GET)).await.expect(200);
        Answer::of(agent(Method::PUT).json(&json!({}))).await.expect_error(403, "FORBIDDEN");
        server.get(SETTINGS).await.expect_error(404, "NOT_FOUND");

        // Whoever read an older version is told, and changes nothing.
        put_if(&ada, &etag, &json!({})).await.expect_error(412, "PRECONDITION_FAILED");
        let now = ada.get(SETTINGS).await;
        let etag = now.headers[header::ETAG].to_str().unwrap().to_owned();
        assert_eq!(now.expect(200)["quotas"]["callsPerMinute"], 7);
        put_if(&ada, &etag, &json!({ "quotas": { "callsPerMinute": 8 } })).await.expect(200);
        let cleared = ada.get(SETTINGS).await.expect(200);
        assert_eq!((&cleared["quotas"]["callsPerMinute"], &cleared["retention"]["chatDays"]), (&json!(8), &Value::Null));
        ada.put(SETTINGS, json!({ "quotas": { "callsPerMinute": 8 } })).await.expect(200);

        let lines = audit(&database, "acme").await;
        let changed: Vec<_> = lines.iter().filter(|(action, _)| action == "settings.updated").map(|(_, details)| details).collect();
        assert_eq!(changed.len(), 2, "what changes nothing is not told: {lines:?}");
        let keys = |details: &Value| {
            let mut keys: Vec<String> = serde_json::from_value(details["changed"].clone()).unwrap();
            keys.sort();
            keys
        };
        assert_eq!(keys(changed[1]), ["quotas.callsPerMinute", "quotas.executorsInFlight", "retention.chatDays"]);
    }

    async fn what_is_wrong_is_named_by_its_path(database: TestDatabase) {
        let server = serve(&database);
        let ada = owner(&server, "acme").await;
        for (body, told) in [
            (json!({ "quota": {} }), "unknown field `quota`"),
            (json!({ "limits": {} }), "unknown field `limits`"),
            (json!({ "quotas": { "callsPerMinute": 0 } }), "quotas.callsPerMinute: must be a whole number from 1 to 1000000, not 0"),
            (json!({ "quotas": { "workspaceBytes": "1 GB" } }), "quotas.workspaceBytes: must be a whole number"),
            (json!({ "retention": { "auditDays": -1 } }), "retention.auditDays: must be a whole number from 1 to 36500"),
            (json!({ "network": { "allow": ["example.org", "https://example.org/"] } }), "network.allow[1]: \"https://example.org/\" is no host"),
            (json!({ "toolsets": { "defaultToolsetId": "../x" } }), "toolsets.defaultToolsetId"),
            (json!({ "resolution": { "dynamic": "yes" } }), "resolution.dynamic"),
        ] {
            let refused = ada.put(SETTINGS, body).await;
            refused.expect_error(400, "BAD_REQUEST");
            assert!(refused.body["message"].as_str().unwrap().contains(told), "{told}: {refused:?}");
        }
        let after = ada.get(SETTINGS).await.expect(200);
        assert_eq!(after["network"]["allow"], Value::Null);
    }

    async fn a_default_toolset_is_one_of_the_organisations_own(database: TestDatabase) {
        let server = serve(&database);
        let (ada, bob) = (owner(&server, "acme").await, owner(&server, "bolt").await);
        let tools = "tools:\n  - {id: f, entrypoint: \"tools.t:f\"}\n";
        install(&ada, "acme", with_manifest(&manifest("files", "1.0.0", tools))).await.expect(201);
        install(&bob, "bolt", with_manifest(&manifest("theirs", "1.0.0", tools))).await.expect(201);
        let default = |id: &str| json!({ "toolsets": { "defaultToolsetId": id } });
        let foreign = ada.put(SETTINGS, default("theirs")).await;
        foreign.expect_error(404, "TOOLSET_NOT_FOUND");
        let unknown = ada.put(SETTINGS, default("nobody")).await;
        let shown = |answer: &Answer, id: &str| answer.body.to_string().replace(id, "ID");
        assert_eq!(shown(&foreign, "theirs"), shown(&unknown, "nobody"), "another's is as unknown as nobody's");

        // The default is everybody's, so it is nobody's private one, now or later.
        let made = json!({ "id": "mine", "name": "Mine", "visibility": "private", "mcpServers": [], "agentSkills": [] });
        ada.post("/v1/orgs/acme/toolsets", made).await.expect(201);
        let private = ada.put(SETTINGS, default("mine")).await;
        private.expect_error(400, "BAD_REQUEST");
        assert_eq!(private.body["details"]["field"], "toolsets.defaultToolsetId");
        ada.put("/v1/orgs/acme/toolsets/mine", json!({ "name": "Mine", "visibility": "org" })).await.expect(200);
        ada.put(SETTINGS, default("mine")).await.expect(200);
        let hidden = ada.put("/v1/orgs/acme/toolsets/mine", json!({ "name": "Mine", "visibility": "private" })).await;
        hidden.expect_error(400, "BAD_REQUEST");
        assert!(hidden.body["message"].as_str().unwrap().contains("default"), "{}", hidden.body);

        ada.put(SETTINGS, default("files")).await.expect(200);
        assert_eq!(ada.get(SETTINGS).await.expect(200)["toolsets"]["defaultToolsetId"], "files");
        install(&ada, "acme", with_manifest(&manifest("files", "1.0.1", tools))).await.expect(200);
        assert_eq!(ada.get(SETTINGS).await.expect(200)["toolsets"]["defaultToolsetId"], "files", "a new version is the same toolset");
        ada.delete("/v1/orgs/acme/toolsets/files").await.expect(204);
        assert_eq!(ada.get(SETTINGS).await.expect(200)["toolsets"]["defaultToolsetId"], Value::Null);
    }

    async fn an_organisation_has_its_own_lists(database: TestDatabase) {
        let server = Server::start(BINARY, &database, &["--disabled-tools", "read_file"]);
        let ada = owner(&server, "acme").await;
        let tools = "tools:\n  - {id: f, entrypoint: \"tools.t:f\"}\n  - {id: g, entrypoint: \"tools.t:f\"}\n";
        install(&ada, "acme", with_manifest(&manifest("files", "1.0.0", tools))).await.expect(201);
        let available = async || {
            let listed = ada.get("/v1/orgs/acme/available-tools").await.expect(200);
            let ids = listed["items"].as_array().unwrap().iter().map(|tool| tool["id"].as_str().unwrap().to_owned());
            ids.collect::<Vec<_>>()
        };
        assert!(available().await.contains(&"read_file".to_owned()), "the server's lists are `local`'s");

        let lists = |toolsets: Value, enabled: Value, disabled: Value| json!({
            "resolution": { "toolsets": toolsets, "enabledTools": enabled, "disabledTools": disabled },
        });
        let refused = ada.put(SETTINGS, lists(json!(["none", "files"]), json!(["x"]), json!(["y", "files:f"]))).await;
        refused.expect_error(400, "BAD_REQUEST");
        assert_eq!(refused.body["details"]["problems"], json!(["Unknown toolset: none", "Unknown enabled tool: x", "Unknown disabled tool: y"]));
        ada.put(SETTINGS, lists(json!(["-files"]), json!(null), json!(null))).await.expect_error(400, "BAD_REQUEST");

        ada.put(SETTINGS, lists(json!(["files"]), json!(["read_file"]), json!(["files:g"]))).await.expect(200);
        assert_eq!(available().await, ["read_file", "files:f"]);
        let resolved = ada.get("/v1/orgs/acme/tools/resolve?toolsets=all").await.expect(200);
        assert!(!resolved.to_string().contains("\"files:g\",\"included\":true"), "{resolved}");
        // An agent is bound by them, whoever may change them is not; a member is no more than their agent.
        let member = invited(&ada, "acme", "member@acme.example", "member").await;
        let chat = ada.post("/v1/orgs/acme/chats", json!({})).await.expect(201)["id"].as_str().unwrap().to_owned();
        let calls = format!("/v1/orgs/acme/chats/{chat}/tool-calls");
        let write = json!({ "toolId": "write_file", "args": { "path": "a", "content": "a" } });
        member.post(&calls, write.clone()).await.expect_error(404, "TOOL_NOT_FOUND");
        ada.post(&calls, write.clone()).await.expect(200);
        member.post(&calls, json!({ "toolId": "read_file", "args": { "path": "a" } })).await.expect(200);
        // An empty list is none; what the catalogue becomes later is no error.
        ada.put(SETTINGS, lists(json!([]), json!(["files:f"]), json!(null))).await.expect(200);
        ada.delete("/v1/orgs/acme/toolsets/files").await.expect(204);
        assert_eq!(available().await, Vec::<String>::new());

        let local = Answer::of(server.request(Method::PUT, "/v1/orgs/local/settings").json(&json!({ "resolution": { "dynamic": true } }))).await;
        local.expect_error(400, "BAD_REQUEST");
        assert!(local.body["message"].as_str().unwrap().contains("--toolsets"), "{local:?}");
    }

    async fn settings_only_lower_what_the_operator_allows(database: TestDatabase) {
        configure(&database, "[organizations.default]\ncalls_per_minute = 100\nworkspace_bytes = 5000\n\
            [organizations.acme]\nconcurrent_calls = 4\nexecutors_in_flight = 2\nqueued_runs = 5\nworkspace_bytes = 9000\nvariables = [\"TOKEN\"]\n");
        let server = serve(&database);
        let (ada, bob) = (owner(&server, "acme").await, owner(&server, "bolt").await);
        let limits = ada.get(SETTINGS).await.expect(200)["limits"].clone();
        assert_eq!(limits, json!({ "callsPerMinute": 100, "concurrentCalls": 4, "workspaceBytes": 9000, "executorsInFlight": 2, "queuedRuns": 5, "variables": ["TOKEN"] }));
        let limits = bob.get("/v1/orgs/bolt/settings").await.expect(200)["limits"].clone();
        assert_eq!(limits, json!({ "callsPerMinute": 100, "concurrentCalls": null, "workspaceBytes": 5000, "executorsInFlight": null, "queuedRuns": 1000, "variables": [] }));
        let local = server.get("/v1/orgs/local/settings").await.expect(200)["limits"].clone();
        assert_eq!(local, json!({ "callsPerMinute": null, "concurrentCalls": null, "workspaceBytes": null, "executorsInFlight": null, "queuedRuns": 1000, "variables": null }));
        let refused = ada.put(SETTINGS, json!({ "quotas": { "callsPerMinute": 101 } })).await;
        refused.expect_error(400, "BAD_REQUEST");
        let message = refused.body["message"].as_str().unwrap();
        assert!(message.contains("quotas.callsPerMinute") && message.contains("at most 100"), "{message}");
        ada.put(SETTINGS, json!({ "quotas": { "callsPerMinute": 100, "concurrentCalls": 1 } })).await.expect(200);
    }

    async fn imports_go_only_where_the_organisation_may(database: TestDatabase) {
        let bytes = with_manifest(&manifest("files", "1.0.0", "tools:\n  - {id: f, entrypoint: \"tools.t:f\"}\n"));
        let host = Host::start(bytes).await;
        configure(&database, "[organizations.acme]\negress_allow = [\"127.0.0.0/8\"]\n");
        let server = serve(&database);
        let (ada, bob) = (owner(&server, "acme").await, owner(&server, "bolt").await);
        let import = async |by: &Browser<'_>, org: &str, path: &str| {
            by.post(&format!("/v1/orgs/{org}/toolsets/import"), json!({ "url": host.url(path) })).await
        };
        let allow = |hosts: Value| json!({ "network": { "allow": hosts } });
        import(&bob, "bolt", "/app.zip").await.expect_error(400, "BAD_REQUEST");
        assert!(host.asked().is_empty(), "what the operator allows one is not for the other");
        import(&ada, "acme", "/app.zip").await.expect(201);
        ada.put(SETTINGS, allow(json!(["*.example.org"]))).await.expect(200);
        host.asked();
        let refused = import(&ada, "acme", "/app.zip").await;
        refused.expect_error(400, "BAD_REQUEST");
        assert!(refused.body["message"].as_str().unwrap().contains("network.allow"), "{refused:?}");
        assert!(host.asked().is_empty(), "nobody knocked");
        // Each hop is judged.
        ada.put(SETTINGS, allow(json!(["127.0.0.1"]))).await.expect(200);
        import(&ada, "acme", "/moved").await.expect(200);
        host.asked();
        let refused = import(&ada, "acme", "/elsewhere").await;
        refused.expect_error(400, "BAD_REQUEST");
        assert_eq!(host.asked().len(), 1, "the second hop was not dialled");
        assert!(refused.body["message"].as_str().unwrap().contains("127.0.0.2"), "{refused:?}");
        // It allows nothing that the operator does not.
        bob.put("/v1/orgs/bolt/settings", allow(json!(["127.0.0.1"]))).await.expect(200);
        import(&bob, "bolt", "/app.zip").await.expect_error(400, "BAD_REQUEST");
        assert!(host.asked().is_empty());
    }
}

#[test]
fn a_table_that_means_nothing_stops_the_start() {
    let database = TestDatabase::sqlite();
    for (text, told) in [
        ("[organizations.acme]\ncalls_per_hour = 1\n", "unknown field `calls_per_hour`"),
        ("[organizations.\"A B\"]\ncalls_per_minute = 1\n", "organizations.A B"),
        ("[organizations.local]\ncalls_per_minute = 1\n", "organizations.local: `local` is the operator's own"),
        ("[organizations.acme]\ncalls_per_minute = 0\n", "organizations.acme.calls_per_minute: must be at least 1"),
        (
            "[organizations.acme]\nvariables = [\"KITBAG_MASTER_KEY\"]\n",
            "organizations.acme.variables: \"KITBAG_MASTER_KEY\"",
        ),
        (
            "[organizations.acme]\nvariables = [\"MASTER_KEY\"]\nvariables_prefix = \"Kitbag_\"\n",
            "a variable of Kitbag's own",
        ),
        ("[organizations.default]\nvariables = [\"A B\"]\n", "is no name of a variable"),
        ("[organizations.default]\negress_allow = [\"https://x\"]\n", "egress-allow"),
    ] {
        configure(&database, text);
        let ended = Program::on(BINARY, &database).run(&["serve", "--listen", "127.0.0.1:0"]);
        assert_eq!(ended.code, Some(2), "{text}: {}", ended.stderr);
        assert!(ended.stderr.contains(told), "{told}: {}", ended.stderr);
    }
}
