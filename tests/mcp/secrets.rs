//! Values of variables and headers reach the server that they are for, and nothing else.

use kitbag_testkit::{Program, Server, TestDatabase, on_both};
use serde_json::json;

use crate::BINARY;
use crate::kit::{
    SERVERS, TOOLS, TOOLSETS, add, at, connect, done, failed, new_chat, put, text, twin, until, until_status, with,
};

const LITERAL: &str = "hunter2-literal-9f3c";
const RESOLVED: &str = "hunter2-resolved-77ab";
const HEADER: &str = "hunter2-header-51de";

fn serve(database: &TestDatabase) -> Server {
    let program = Program::on(BINARY, database).env("KB_TEST_SECRET", RESOLVED).env("KITBAG_LOG", "debug");
    Server::start_program(&program, database.data(), &["serve", "--listen", "127.0.0.1:0"])
}

#[track_caller]
fn assert_clean(what: &str, text: &str) {
    for secret in [LITERAL, RESOLVED, HEADER] {
        assert!(!text.contains(secret), "{secret} is in {what}: {text}");
    }
}

on_both! {
    async fn a_secret_is_in_no_answer_log_error_or_export(database: TestDatabase) {
        let server = serve(&database);
        let chat = new_chat(&server).await;
        let env = json!({ "API_KEY": LITERAL, "RESOLVED": "${KB_TEST_SECRET}", "BOTH": "Bearer ${ENV:KB_TEST_SECRET}" });
        let shown = connect(&server, "twin", with(twin(&[]), json!({ "env": env }))).await;
        assert_clean("the server", &shown.to_string());
        // It got them, and what it says of them is masked.
        let pid = crate::kit::pid(&server, &chat, "twin").await;
        let environ = String::from_utf8(std::fs::read(format!("/proc/{pid}/environ")).unwrap()).unwrap();
        for variable in [format!("API_KEY={LITERAL}"), format!("RESOLVED={RESOLVED}"), format!("BOTH=Bearer {RESOLVED}")] {
            assert!(environ.split('\0').any(|found| found == variable), "{environ}");
        }
        let environment = done(&server, &chat, "mcp:twin~twin:environment", json!({})).await;
        assert_clean("a result", &environment.to_string());
        assert!(environment.to_string().contains("RESOLVED"), "{environment}");
        // A server that talks about them is not repeated: not in what it writes beside, nor in its errors.
        for secret in [LITERAL, RESOLVED] {
            text(&server, &chat, "mcp:twin~twin:say", json!({ "text": format!("my token is {secret}") })).await;
            text(&server, &chat, "mcp:twin~twin:log", json!({ "text": format!("my token is {secret}") })).await;
        }
        let shown = until(&server, &at("twin"), |shown| shown["stderr"].as_array().unwrap().len() >= 2).await;
        assert!(shown["stderr"].to_string().contains("my token is"), "{shown}");
        assert_clean("what it wrote", &shown.to_string());
        let error = failed(&server, &chat, "mcp:twin~twin:refuse", json!({ "text": "no" })).await;
        assert_clean("an error", &error.to_string());
        // One that cannot start, with the value in what it says last.
        let dying = with(twin(&["--fail", "cannot use ${KB_TEST_SECRET}"]), json!({}));
        add(&server, "dying", dying).await;
        let shown = until_status(&server, "dying", "error").await;
        assert_clean("a server that failed", &shown.to_string());
        // One on the web that is not there.
        let web = json!({ "url": "http://127.0.0.1:9/mcp?key=${KB_TEST_SECRET}", "headers": { "Authorization": format!("Bearer {HEADER}") } });
        add(&server, "web", web).await;
        until_status(&server, "web", "error").await;
        for path in [SERVERS, TOOLS, TOOLSETS, "/v1/orgs/local/mcp-servers/twin", "/v1/orgs/local/toolsets/twin", "/v1/orgs/local/mcp-servers/web/pins"] {
            assert_clean(path, &server.get(path).await.expect(200).to_string());
        }
        for id in ["twin", "web"] {
            let export = server.request(reqwest::Method::GET, &format!("{TOOLSETS}/{id}/export")).send().await.unwrap();
            let bytes = export.bytes().await.unwrap();
            let archive = kitbag_formats::archive::Archive::open(bytes.as_ref(), &kitbag_formats::archive::Limits::BUNDLE).unwrap();
            for entry in archive.entries() {
                assert_clean("an export", &String::from_utf8_lossy(&archive.read(entry).unwrap()));
            }
        }
        let answer = put(&server, &at("twin"), json!({ "env": { "API_KEY": null, "OTHER": "${KB_TEST_SECRET" } })).await;
        assert_clean("a refusal", &answer.body.to_string());
        assert_clean("the log", &server.log());
    }
}
