//! Many tools: the model gets a search in their place, and what it found from then on.

use kitbag_testkit::TestDatabase;
use kitbag_testkit::model::{Anthropic, StandIn};
use serde_json::{Value, json};

use crate::kit::{end, file, messages, new_chat, serve, turn};
use crate::services;

fn names(body: &Value) -> Vec<&str> {
    body["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_found_can_be_called() {
    let (database, models) = (TestDatabase::sqlite(), StandIn::start());
    let server = serve(&database, &models, &["--max-tool-schema-bytes", "100"]);
    let chat = new_chat(&server).await;
    models.messages(
        Anthropic::new()
            .tool_call("toolu_1", "search_tools", &[r#"{"query":"write a file","limit":1}"#])
            .ends("tool_use"),
    );
    let arguments = json!({ "path": "a.txt", "content": "A" }).to_string();
    models.messages(Anthropic::new().tool_call("toolu_2", "write_file", &[&arguments]).ends("tool_use"));
    models.messages(Anthropic::new().text(&["Written."]).ends("end_turn"));
    let events = turn(&server, &chat, &json!({ "content": "Write A." })).await;
    assert_eq!(end(&events)["state"], "done", "{events:#?}");
    let tools = &events[0].data["tools"];
    assert_eq!(tools["searched"], true);
    assert!(tools["savedTokens"].as_u64().unwrap() > 100, "{tools}");
    let asked = models.asked();
    assert_eq!(names(&asked[0].body), ["search_tools"]);
    assert_eq!(names(&asked[1].body), ["search_tools", "write_file"]);
    assert!(asked[1].body["messages"].to_string().contains("write_file"));
    assert_eq!(file(&server, &chat, "a.txt").await.unwrap(), "A");
    assert_eq!(messages(&server, &chat).await[1]["content"][1]["type"], "tool_search");
    // What was found stays found in the conversation; a search for nothing is told.
    models.messages(Anthropic::new().tool_call("toolu_3", "search_tools", &["{}"]).ends("tool_use"));
    models.messages(Anthropic::new().text(&["Ok."]).ends("end_turn"));
    assert_eq!(end(&turn(&server, &chat, &json!({ "content": "More." })).await)["state"], "done");
    let asked = models.asked();
    assert_eq!(names(&asked[3].body), ["search_tools", "write_file"]);
    assert!(asked[4].body["messages"].to_string().contains("`query` must be"));
}

/// As many as two thousand: what is sent stays small, and what is needed is found.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_thousand_tools_the_right_one_is_found() {
    let (database, models) = (TestDatabase::sqlite(), StandIn::start());
    let server = serve(&database, &models, &[]);
    services::install(&server).await;
    // One question as a conversation has it: the search, and what it found.
    let chat = new_chat(&server).await;
    models.messages(
        Anthropic::new()
            .tool_call("toolu_1", "search_tools", &[r#"{"query":"open an issue on github"}"#])
            .ends("tool_use"),
    );
    models.messages(Anthropic::new().text(&["Found."]).ends("end_turn"));
    let events = turn(&server, &chat, &json!({ "content": "Report the bug." })).await;
    assert!(events[0].data["tools"]["count"].as_u64().unwrap() >= 2000, "{:?}", events[0].data);
    for asked in models.asked() {
        let bytes = asked.body["tools"].to_string().len();
        assert!(bytes < 10_000, "{bytes} bytes of schemas");
    }
    assert_eq!(names(&models.asked()[1].body).len(), 6);
    // All questions in one breath. However much is found, no more is sent than before.
    let found = services::ask_all(&server, &models, &new_chat(&server).await).await;
    let missed: Vec<_> = found.iter().filter(|found| found.rank.is_none()).collect();
    assert!(missed.len() <= 2, "not among the first five: {missed:#?}");
    let bytes = models.asked().last().unwrap().body["tools"].to_string().len();
    assert!(bytes < 10_000, "{bytes} bytes of schemas");
}
