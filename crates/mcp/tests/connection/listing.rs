//! Lists of tools that are too long, too odd, or never end.

use kitbag_mcp::connection::{CallError, Options};
use serde_json::json;

use crate::support::{WebTwin, open, options, try_open, twin};

#[tokio::test]
async fn all_pages_are_read_up_to_the_limit() {
    let options = Options { most_tools: 10_050, ..options() };
    let opened = try_open(&twin("many_tools", &[]), &options).await.unwrap();
    let list = opened.connection.tools().await.unwrap();
    assert_eq!(
        (list.tools.len(), list.tools[0].name.as_str(), list.tools[10_049].name.as_str()),
        (10_050, "t0", "t10049")
    );
    assert_eq!(list.warnings, ["the server has more than 10050 tools; the rest is left out"]);
}

#[tokio::test]
async fn a_cursor_that_comes_again_ends_the_list() {
    let list = open(&twin("same_cursor", &[])).await.connection.tools().await.unwrap();
    assert_eq!(list.tools.len(), 1);
    assert!(list.warnings.iter().any(|warning| warning.contains("same page again")), "{:?}", list.warnings);
}

#[tokio::test]
async fn pages_without_end_are_cut() {
    let list = open(&twin("new_cursors", &[])).await.connection.tools().await.unwrap();
    assert_eq!((list.tools.len(), list.warnings.len()), (0, 1));
    assert!(list.warnings[0].contains("more than 1000 pages"), "{:?}", list.warnings);
}

#[tokio::test]
async fn what_is_no_tool_is_left_out_and_the_rest_is_kept_whole() {
    let web = WebTwin::start("honest", &[]).await;
    let opened = open(&twin("odd_tools", &[format!("url={}", web.url("/schema.json"))])).await;
    let list = opened.connection.tools().await.unwrap();
    let names: Vec<&str> = list.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["echo", &"n".repeat(1024), "big", "bare", "refs"]);
    assert_eq!(list.tools[0].raw()["x-ours"], json!({"kept": [1, null]}));
    assert_eq!(list.tools[0].raw()["description"], "Says it again.");
    assert_eq!(list.tools[2].raw()["description"].as_str().unwrap().len(), 1_000_000);
    let expected = [
        "`echo` is there twice",
        "empty name",
        "more than 1024 bytes",
        "without a name",
        "no object",
        "without a name",
    ];
    assert_eq!(list.warnings.len(), expected.len(), "{:?}", list.warnings);
    for (warning, expected) in list.warnings.iter().zip(expected) {
        assert!(warning.contains(expected), "{warning}");
    }
    // A reference is the schema's text, and nobody went there.
    assert!(list.tools[4].raw()["inputSchema"]["$ref"].as_str().unwrap().starts_with("http://127.0.0.1"));
    assert_eq!(web.seen.all().len(), 0);
}

#[tokio::test]
async fn definitions_that_are_too_large_together_are_cut() {
    let options = Options { longest_message: 1_100_000, ..options() };
    let list = try_open(&twin("odd_tools", &[]), &options).await.unwrap().connection.tools().await.unwrap();
    assert!(list.tools.iter().any(|tool| tool.name == "big"));
    let options = Options { longest_message: 700_000, ..options };
    let opened = try_open(&twin("many_tools", &[]), &options).await.unwrap();
    let list = opened.connection.tools().await.unwrap();
    assert!(list.tools.len() == 2000, "{}", list.tools.len());
    let options = Options { longest_message: 20_000, ..options };
    let opened = try_open(&twin("many_tools", &[]), &options).await.unwrap();
    let list = opened.connection.tools().await.unwrap();
    assert!((100..2000).contains(&list.tools.len()), "{}", list.tools.len());
    assert_eq!(list.warnings, ["the definitions have more than 20000 bytes; the rest is left out"]);
}

#[tokio::test]
async fn a_list_that_is_none_is_an_error() {
    let error = open(&twin("no_list", &[])).await.connection.tools().await.unwrap_err();
    assert!(matches!(error, CallError::Nonsense(_)), "{error}");
}
