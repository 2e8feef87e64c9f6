//! `kitbag tool resolve`, and the lists that a server may be started with.

use kitbag_testkit::{Program, Server, TestDatabase};
use serde_json::{Value, json};

use crate::{BINARY, assert_failed};

fn ids(found: &Value) -> Vec<&str> {
    found["tools"].as_array().unwrap().iter().map(|tool| tool["id"].as_str().unwrap()).collect()
}

/// With a server or without.
fn use_lists(program: &Program) {
    let found =
        program.run(&["--json", "tool", "resolve", "--toolsets", "", "--enabled-tools", "Read_File,edit_*"]).json();
    assert_eq!(ids(&found), ["read_file", "edit_file"]);
    assert_eq!(found["dynamic"], false);
    let shown =
        program.run(&["tool", "resolve", "--header", "x-mcp-disabled-tools: write_file,search_files", "--dynamic"]);
    assert!(shown.stdout.starts_with("TOOL ") && !shown.stdout.contains("write_file"), "{shown:?}");
    assert!(shown.stdout.contains("4 tools, about ") && shown.stdout.contains("Dynamic: "), "{shown:?}");
    assert_eq!(shown.stderr, "");
    let explained =
        program.run(&["tool", "resolve", "--explain", "--disabled-tools", "*_file*", "--header", "X-Mcp-Toolset: a"]);
    let line = |id: &str| explained.stdout.lines().find(|line| line.starts_with(id)).unwrap().to_owned();
    assert!(line("read_file").contains("out  disabled by *_file*"), "{explained:?}");
    assert!(line("run_command").contains("in   all toolsets"), "{explained:?}");
    assert!(explained.stdout.contains("1 tool, about"), "{explained:?}");
    assert!(explained.stderr.contains("X-Mcp-Toolset says nothing") && explained.stderr.contains("X-Mcp-Toolsets, "));
    let wrong = program.run(&["tool", "resolve", "--toolsets", "nope", "--enabled-tools", "neither"]);
    assert_failed(&wrong, 2, "Unknown toolset: nope; Unknown enabled tool: neither");
    assert_failed(&program.run(&["tool", "resolve", "--toolsets", ""]), 2, "No tools left");
    assert_failed(&program.run(&["tool", "resolve", "--dynamic=maybe"]), 2, "yes, y, true, 1, no, n, false, 0");
    assert_failed(&program.run(&["tool", "resolve", "--header", "no colon"]), 2, "is not a header");
    let both = program.run(&["tool", "resolve", "--toolsets", "builtin", "--header", "X-Mcp-Toolsets: builtin"]);
    assert_failed(&both, 2, "Both query and header specify toolsets");
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_without_a_server_and_with_one() {
    let database = TestDatabase::sqlite();
    let program = Program::on(BINARY, &database);
    use_lists(&program);
    let _server = Server::start(BINARY, &database, &[]);
    use_lists(&program);
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_come_from_flags_variables_and_the_file() {
    let database = TestDatabase::sqlite();
    let program = Program::on(BINARY, &database);
    let file = database.data().join("kitbag.toml");
    std::fs::create_dir_all(database.data()).unwrap();
    std::fs::write(&file, "enabled_tools = [\"read_file\"]\ntoolsets = []\ndynamic = true\nheader_prefix = \"\"\n")
        .unwrap();
    let found = program.run(&["--json", "tool", "resolve"]).json();
    assert_eq!((ids(&found), &found["dynamic"], &found["headerPrefix"]), (vec!["read_file"], &json!(true), &json!("")));
    let program = program.env("KITBAG_ENABLED_TOOLS", "edit_file").env("KITBAG_DYNAMIC", "");
    let found = program.run(&["--json", "tool", "resolve", "--header", "X-Mcp-Toolsets: nope"]).json();
    assert_eq!((ids(&found), &found["dynamic"]), (vec!["edit_file"], &json!(false)));
}
