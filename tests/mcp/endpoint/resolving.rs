//! Which tools a client gets, in both eras, by headers and by query: the tables of the rules, over the wire.

use kitbag_testkit::{Server, TestDatabase};
use serde_json::json;

use super::Client;
use crate::kit::{bundle, import};
use crate::{BINARY, serve};

const CODE: &str =
    "def run(workspace, text: str = \"\") -> str:\n    \"\"\"Says something.\"\"\"\n    return \"said \" + text\n";

/// Two toolsets with three tools each, as the rules' own examples have them.
async fn installed(server: &Server) {
    for (toolset, thing) in [("files", "file"), ("folders", "folder")] {
        let tool = |verb: &str| format!("  - id: {verb}_{thing}\n    entrypoint: tools.it:run\n");
        let tools: String = ["create", "get", "delete"].iter().map(|verb| tool(verb)).collect();
        import(server, bundle(toolset, "1.0.0", &format!("tools:\n{tools}"), &[("tools/it.py", CODE)])).await;
    }
}

/// The bare names, for the tables.
fn bare(names: &[String]) -> Vec<String> {
    let names = names.iter().filter_map(|name| name.split_once("__").map(|(_, bare)| bare.to_owned()));
    names.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tables_of_the_rules_over_the_wire() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    installed(&server).await;
    let files = ["create_file", "get_file", "delete_file"];
    let all = ["create_file", "get_file", "delete_file", "create_folder", "get_folder", "delete_folder"];
    type Row<'a> = (&'a [(&'a str, &'a str)], Result<&'a [&'a str], &'a str>);
    let rows: &[Row<'_>] = &[
        (&[("Toolsets", "files")], Ok(&files)),
        (&[("Toolsets", " FILES , files,, ")], Ok(&files)),
        (&[("Toolsets", "files"), ("Enabled-Tools", "create_folder")], Ok(&all[..4])),
        (
            &[("Toolsets", "files"), ("Enabled-Tools", "create_folder"), ("Disabled-Tools", "get_file")],
            Ok(&["create_file", "delete_file", "create_folder"]),
        ),
        (
            &[
                ("Toolsets", ""),
                ("Enabled-Tools", "create_file,get_file,create_folder"),
                ("Disabled-Tools", "get_file,delete_folder"),
            ],
            Ok(&["create_file", "create_folder"]),
        ),
        (&[("Toolsets", "all"), ("Disabled-Tools", "toolset:folders")], Ok(&files)),
        (
            &[("Toolsets", "files"), ("Enabled-Tools", "get_file"), ("Disabled-Tools", "get_file")],
            Ok(&["create_file", "delete_file"]),
        ),
        (&[("Toolsets", "")], Err("No tools left")),
        (&[("Toolsets", "nope")], Err("Unknown toolset: nope")),
        (&[("Toolsets", "files"), ("Enabled-Tools", "nope")], Err("Unknown enabled tool: nope")),
        (&[("Toolsets", "files"), ("Disabled-Tools", "nope")], Err("Unknown disabled tool: nope")),
        (&[("Toolsets", "files"), ("Enabled-Tools", "all")], Err("Unknown enabled tool: all")),
        (&[("Enabled-Tools", "nope_*")], Err("Unknown enabled tool: nope_*")),
        (&[("Toolsets", "x,y"), ("Enabled-Tools", "z")], Err("Unknown enabled tool: z")),
        (&[("Dynamic", "perhaps")], Err("perhaps")),
    ];
    for (settings, expected) in rows {
        let mut by_header = Client::new(&server, "/mcp");
        for (name, value) in *settings {
            by_header = by_header.with(&format!("X-Mcp-{name}"), value);
        }
        let encode = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
        let query: Vec<String> = settings
            .iter()
            .map(|(name, value)| format!("{}={}", name.to_lowercase().replace('-', "_"), encode(value)))
            .collect();
        let mut by_query = Client::new(&server, &format!("/mcp?{}", query.join("&")));
        match expected {
            Ok(tools) => {
                let names = by_header.tools().await;
                assert_eq!(bare(&names), *tools, "{settings:?}");
                assert_eq!(by_query.tools().await, names, "{settings:?}");
            }
            Err(why) => {
                for client in [&mut by_header, &mut by_query] {
                    let told = client.refused().await;
                    assert!(told.contains(why), "{settings:?}: {told}");
                }
            }
        }
    }
    let mut both = Client::new(&server, "/mcp?toolsets=files").with("X-Mcp-Toolsets", "files");
    assert!(both.refused().await.contains("Both query and header specify toolsets"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_never_widens_what_the_server_serves() {
    let database = TestDatabase::sqlite();
    {
        let server = serve(&database);
        installed(&server).await;
    }
    let flags = ["--toolsets", "files", "--enabled-tools", "create_folder", "--disabled-tools", "get_file"];
    let server = Server::start(BINARY, &database, &flags);
    let allowed = ["files__create_file", "files__delete_file", "folders__create_folder"];
    assert_eq!(Client::new(&server, "/mcp").tools().await, allowed);
    assert_eq!(Client::new(&server, "/mcp").with("X-Mcp-Toolsets", "all").tools().await, allowed);
    // A tool that was enabled alone does not bring its toolset.
    assert_eq!(Client::new(&server, "/mcp").with("X-Mcp-Toolsets", "folders").tools().await, allowed[2..]);
    for (name, value) in
        [("X-Mcp-Enabled-Tools", "get_file"), ("X-Mcp-Enabled-Tools", "get_folder"), ("X-Mcp-Toolsets", "builtin")]
    {
        assert!(Client::new(&server, "/mcp").with(name, value).refused().await.contains("Unknown"), "{name}: {value}");
    }
    // Calls obey the same set as lists, by whatever name.
    let client = Client::new(&server, "/mcp");
    for name in ["files__get_file", "files:get_file", "get_file", "folders__get_folder", "write_file"] {
        let heard = client.call(name, json!({})).await;
        assert_eq!(heard.error()["code"], -32602, "{name}");
        assert_eq!(heard.error()["message"], format!("Unknown tool: {name}"));
    }
    assert_eq!(client.call("files__create_file", json!({ "text": "x" })).await.text(), "said x");
}

#[tokio::test(flavor = "multi_thread")]
async fn in_dynamic_mode_there_are_tools_about_tools() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    installed(&server).await;
    let mut client = Client::new(&server, "/mcp").with("X-Mcp-Dynamic", "yes").with("X-Mcp-Disabled-Tools", "get_file");
    let mut names = client.tools().await;
    names.sort();
    let meta =
        ["call_tool", "get_tool_input_schema", "get_tool_output_schema", "list_tools", "list_toolsets", "search_tools"];
    assert_eq!(names, meta);
    let toolsets = client.call("list_toolsets", json!({})).await;
    assert!(toolsets.text().contains("\"files\"") && toolsets.text().contains("\"folders\""));
    let listed = client.call("list_tools", json!({ "toolset": "files" })).await;
    assert!(listed.text().contains("files__create_file") && !listed.text().contains("files__get_file"));
    let found = client.call("search_tools", json!({ "query": "delete a folder" })).await;
    let found: serde_json::Value = serde_json::from_str(found.text()).unwrap();
    assert_eq!(found[0]["name"], "folders__delete_folder");
    let schema = client.call("get_tool_input_schema", json!({ "tool": "files__create_file" })).await;
    assert!(schema.text().contains("\"text\""));
    let called = client.call("call_tool", json!({ "tool": "files__create_file", "input": { "text": "hi" } })).await;
    assert_eq!(called.text(), "said hi");
    // What is not allowed is not there, by either way.
    let hidden = client.call("call_tool", json!({ "tool": "files__get_file", "input": {} })).await;
    assert!(hidden.result()["isError"] == true && hidden.text().contains("not found"));
    assert_eq!(client.call("files__create_file", json!({})).await.error()["code"], -32602);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_toolset_has_an_address_of_its_own_with_its_own_names() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    installed(&server).await;
    let mut client = Client::new(&server, "/v1/orgs/local/toolsets/folders/mcp");
    assert_eq!(client.tools().await, ["create_folder", "get_folder", "delete_folder"]);
    assert_eq!(client.call("get_folder", json!({ "text": "x" })).await.text(), "said x");
    assert_eq!(client.call("files__get_file", json!({})).await.error()["code"], -32602);
    let mut none = Client::new(&server, "/v1/orgs/local/toolsets/nope/mcp");
    assert_eq!(none.begin().await.status, 404);
    assert_eq!(none.ask("tools/list", json!({})).await.status, 404);
}
