//! Fifty servers of which one hangs.

use std::time::Duration;

use kitbag_testkit::TestDatabase;
use serde_json::json;

use crate::kit::{SERVERS, TOOLS, add, ask, new_chat, twin, until};
use crate::serve;

#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_for_the_one_that_hangs() {
    let database = TestDatabase::sqlite();
    let mut server = serve(&database);
    for n in 0..50 {
        let flags: &[&str] = if n == 7 { &["--hang"] } else { &[] };
        let name = n.to_string();
        let flags: Vec<&str> = flags.iter().copied().chain([name.as_str()]).collect();
        let mut body = twin(&flags);
        body["enabled"] = json!(false);
        add(&server, &format!("s{n:02}"), body).await;
    }
    server.signal(rustix::process::Signal::TERM);
    assert!(server.wait().success());
    // As if all had been installed while nothing ran: none was ever seen.
    let store = database.open().await;
    let local = kitbag_model::OrgId::local();
    let mut tx = store.write(&local).await.unwrap();
    for n in 0..50 {
        tx.enable_server(&format!("s{n:02}~s{n:02}").parse().unwrap(), Some(true)).await.unwrap();
    }
    tx.commit().await.unwrap();
    store.close().await;
    let server = serve(&database);
    // The ready line is there, so is the API, and nothing was waited for.
    let listed = server.get(SERVERS).await.expect(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 50);
    let chat = new_chat(&server).await;
    let shown = until(&server, SERVERS, |listed| {
        listed["items"].as_array().unwrap().iter().filter(|one| one["toolCount"].as_u64() > Some(5)).count() == 49
    });
    let shown = shown.await;
    for one in shown["items"].as_array().unwrap() {
        let hangs = one["id"] == "s07~s07";
        assert_eq!(one["status"], if hangs { "connecting" } else { "connected" }, "{one}");
    }
    // Its calls wait for it in vain, those of others do not.
    let waits = crate::kit::asking(&server, &chat, "mcp:s07~s07:echo", &json!({ "text": "x" }));
    let waits = tokio::spawn(waits.timeout(Duration::from_secs(1)).send());
    assert_eq!(crate::kit::text(&server, &chat, "mcp:s49~s49:echo", json!({ "text": "hello" })).await, "hello");
    assert!(waits.await.unwrap().is_err());
    let listed = server.get(&format!("{TOOLS}?available=true&limit=200&q=s49")).await.expect(200);
    assert!(listed["items"].to_string().contains("mcp:s49~s49:echo"));
    ask(&server, &chat, "mcp:s48~s48:nothing", json!({})).await.expect_error(404, "TOOL_NOT_FOUND");
}
