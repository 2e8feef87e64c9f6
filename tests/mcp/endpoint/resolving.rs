//! Which tools a client gets, in both eras, by headers and by query: the tables of the rules, over the wire.

use kitbag_testkit::{Server, TestDatabase};
use serde_json::json;

use super::Client;
use crate::kit::{bundle, import};
use crate::{BINARY, serve};

const CODE: &str =
    "def run(workspace, text: str = \"\") -> str:\n    \"\"\"Says something.\"\"\"\n    return \"said \" + text\n";

/// Two toolsets with three tools each, as the rules' own examples have them.
const SMALL: [(&str, &str); 2] =
    [("files", "create_file get_file delete_file"), ("folders", "create_folder get_folder delete_folder")];

/// Four with 23.
const LARGE: [(&str, &str); 4] = [
    (
        "files",
        "delete_file get_file_info update_file copy_batch_items move_batch_items download_file_as_text upload_file",
    ),
    ("folders", "create_folder delete_folder get_folder_content get_folder_info rename_folder get_my_folder"),
    ("people", "get_all_people"),
    (
        "rooms",
        "create_room get_room_info update_room archive_room set_room_security get_room_security_info get_rooms_folder \
         get_room_types get_room_access_levels",
    ),
];

async fn install(server: &Server, toolsets: &[(&str, &str)]) {
    for (toolset, tools) in toolsets {
        let tool = |id: &str| format!("  - id: {id}\n    entrypoint: tools.it:run\n");
        let tools: String = tools.split_whitespace().map(tool).collect();
        let more = format!("description: Things with {toolset}.\ntools:\n{tools}");
        import(server, bundle(toolset, "1.0.0", &more, &[("tools/it.py", CODE)])).await;
    }
}

async fn installed(server: &Server) {
    install(server, &SMALL).await;
}

/// The three lists, as flags or as headers. `-` is a list that is absent.
type Three<'a> = (&'a str, &'a str, &'a str);

fn flags(lists: Three<'_>) -> Vec<String> {
    let all = [("toolsets", lists.0), ("enabled-tools", lists.1), ("disabled-tools", lists.2)];
    all.iter().filter(|(_, list)| *list != "-").map(|(name, list)| format!("--{name}={list}")).collect()
}

fn asking<'a>(server: &'a Server, lists: Three<'_>) -> Client<'a> {
    let all = [("Toolsets", lists.0), ("Enabled-Tools", lists.1), ("Disabled-Tools", lists.2)];
    let given = all.iter().filter(|(_, list)| *list != "-");
    given.fold(Client::new(server, "/mcp"), |client, (name, list)| client.with(&format!("X-Mcp-{name}"), list))
}

/// A server's own lists, and for those of requests which tools are left or what is wrong.
type OfOne<'a> = (Three<'a>, &'a [(Three<'a>, Result<&'a str, &'a str>)]);

/// Requests of the servers with these flags: which tools they get in both eras, or what is wrong.
async fn check(database: &TestDatabase, rows: &[OfOne<'_>]) {
    for (global, requests) in rows {
        let given = flags(*global);
        let server = Server::start(BINARY, database, &given.iter().map(String::as_str).collect::<Vec<_>>());
        for (request, expected) in *requests {
            let mut client = asking(&server, *request);
            match expected {
                Ok(tools) => {
                    let names = client.tools().await;
                    let tools: Vec<&str> = tools.split_whitespace().collect();
                    assert_eq!(bare(&names), tools, "{global:?} then {request:?}");
                    // What is listed can be called, in both eras.
                    let call = json!({ "name": names[0], "arguments": { "text": "x" } });
                    assert_eq!(client.ask("tools/call", call.clone()).await.text(), "said x");
                    assert_eq!(client.request(2, "tools/call", call).await.text(), "said x");
                }
                Err(why) => assert_eq!(client.refused().await, *why, "{global:?} then {request:?}"),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tables_of_the_rules_over_servers_with_lists_of_their_own() {
    let database = TestDatabase::sqlite();
    installed(&serve(&database)).await;
    const FILES: &str = "create_file get_file delete_file";
    const NONE: Three<'_> = ("-", "-", "-");
    let both = format!("{FILES} create_folder get_folder delete_folder");
    let five = "create_file delete_file create_folder get_folder delete_folder";
    let rows: &[OfOne<'_>] = &[
        (
            ("files", "-", "get_file"),
            &[
                (NONE, Ok("create_file delete_file")),
                (("files", "-", "-"), Ok("create_file delete_file")),
                (("-", "get_file", "-"), Err("Unknown enabled tool: get_file")),
            ],
        ),
        (
            ("files,folders", "-", "-"),
            &[(("files", "-", "-"), Ok(FILES)), (("files", "", "-"), Ok(FILES)), (("-", "-", "get_file"), Ok(five))],
        ),
        (
            ("files", "create_folder", "-"),
            &[
                (NONE, Ok("create_file get_file delete_file create_folder")),
                (("folders", "-", "-"), Ok("create_folder")),
            ],
        ),
        (("files", "create_folder", "get_file"), &[(NONE, Ok("create_file delete_file create_folder"))]),
        (
            ("", "create_file,get_file,create_folder", "get_file,delete_folder"),
            &[(NONE, Ok("create_file create_folder"))],
        ),
        (("FILES, folders", "-", "-"), &[(("all", "-", "-"), Ok(&both))]),
        (
            ("files", "-", "-"),
            &[
                (("folders", "-", "-"), Err("Unknown toolset: folders")),
                (("-", "get_folder", "-"), Err("Unknown enabled tool: get_folder")),
                (("all", "-", "-"), Ok(FILES)),
                (("", "get_file", "-"), Ok("get_file")),
                (("", "-", "-"), Err("No tools left")),
                (("", "", "-"), Err("No tools left")),
                (
                    ("-x,folders", "get_folder", "get_file"),
                    Err("The toolsets take no entry with - in front: -x (name it in the disabled tools instead); \
                 Unknown toolset: folders; Unknown enabled tool: get_folder"),
                ),
            ],
        ),
    ];
    check(&database, rows).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tables_over_more_tools() {
    let database = TestDatabase::sqlite();
    install(&serve(&database), &LARGE).await;
    const NONE: Three<'_> = ("-", "-", "-");
    let of = |wanted: &[&str]| -> String {
        let wanted = LARGE.iter().filter(|(toolset, _)| wanted.contains(toolset));
        wanted.map(|(_, tools)| *tools).collect::<Vec<_>>().join(" ")
    };
    let (all, files) = (of(&["files", "folders", "people", "rooms"]), of(&["files"]));
    assert_eq!(all.split_whitespace().count(), 23);
    let six = files.replace("get_file_info ", "");
    let no_builtin = ("-", "-", "toolset:builtin");
    let rows: &[OfOne<'_>] = &[
        (
            no_builtin,
            &[
                (NONE, Ok(&all)),
                (("all,files", "-", "-"), Ok(&all)),
                (("ALL", "-", "-"), Ok(&all)),
                (("", "-", "-"), Err("No tools left")),
                (("people", "download_file_as_text", "download_file_as_text,get_all_people"), Err("No tools left")),
                (("", "get_all_people", "-"), Ok("get_all_people")),
                (("files", "get_file_info", "get_file_info"), Ok(&six)),
                (("people,files", "-", "get_all_people"), Ok(&files)),
            ],
        ),
        (("all,files", "-", "toolset:builtin"), &[(NONE, Ok(&all)), ((" Files ", "-", "-"), Ok(&files))]),
        (("people,files", "-", "get_all_people"), &[(NONE, Ok(&files)), (("all", "-", "-"), Ok(&files))]),
    ];
    check(&database, rows).await;
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
    assert!(toolsets.text().contains("Things with files."), "{}", toolsets.text());
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

#[tokio::test(flavor = "multi_thread")]
async fn a_setting_that_is_misspelt_is_refused() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    installed(&server).await;
    const KNOWN: &str =
        "known are X-Mcp-Toolsets, X-Mcp-Enabled-Tools, X-Mcp-Disabled-Tools, X-Mcp-Dynamic, X-Mcp-Chat";
    for (path, header, wrong) in [
        (
            "/mcp?toolset=files",
            None,
            "Unknown query name: toolset; known are toolsets, enabled_tools, disabled_tools, dynamic, chat".to_owned(),
        ),
        ("/mcp", Some("X-Mcp-Toolset"), format!("Unknown header: x-mcp-toolset; {KNOWN}")),
        ("/mcp", Some("X-MCP-Readonly"), format!("Unknown header: x-mcp-readonly; {KNOWN}")),
    ] {
        let client = Client::new(&server, path);
        let mut client = header.into_iter().fold(client, |client, name| client.with(name, "files"));
        assert_eq!(client.refused().await, wrong);
    }
    // Others' headers are others' business.
    for name in ["X-Mcp", "X-Forwarded-For", "Mcp-Param-Region", "X-Mcp-Proxy-Auth"] {
        assert_eq!(Client::new(&server, "/mcp?toolsets=files").with(name, "x").tools().await.len(), 3, "{name}");
    }
    drop(server);
    for prefix in ["X-", "Mcp-"] {
        let server = Server::start(BINARY, &database, &["--header-prefix", prefix]);
        let client = Client::new(&server, "/mcp").with(&format!("{prefix}Toolsets"), "files");
        let mut client = client.with("X-Forwarded-For", "192.0.2.1").with("X-Request-Id", "1");
        assert_eq!(client.tools().await.len(), 3, "{prefix}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_tool_returns_is_said_in_full_to_who_can_take_it() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    let code = "def numbers(workspace) -> list[int]:\n    \"\"\"Counts.\"\"\"\n    return [1, 2]\n\n\ndef words(workspace) -> str:\n    \"\"\"Says something.\"\"\"\n    return \"a\\nb\"\n";
    let code = format!(
        "from covalt_toolset import tool\n\n\n{}",
        code.replace("def ", "@tool\ndef ").replace("workspace", "")
    );
    let tools = "tools:\n  - {id: numbers, entrypoint: \"tools.it:numbers\"}\n  - {id: words, entrypoint: \"tools.it:words\"}\n";
    import(&server, bundle("app", "1.0.0", tools, &[("tools/it.py", &code)])).await;
    let mut client = Client::new(&server, "/v1/orgs/local/toolsets/app/mcp");
    client.begin().await;
    let schema = json!({ "type": "array", "items": { "type": "integer" } });
    let [newest, session] =
        [client.ask("tools/list", json!({})).await, client.request(1, "tools/list", json!({})).await];
    assert_eq!(newest.result()["tools"][0]["outputSchema"], schema, "{}", newest.result());
    assert_eq!(session.result()["tools"][0].get("outputSchema"), None, "it would cost the whole list");
    let call = json!({ "name": "numbers", "arguments": {} });
    let [newest, session] = [client.ask("tools/call", call.clone()).await, client.request(2, "tools/call", call).await];
    assert_eq!(newest.result()["structuredContent"], json!([1, 2]));
    assert_eq!(session.result().get("structuredContent"), None);
    assert_eq!(newest.text(), session.text());
    // A text is said once.
    let words = client.call("words", json!({})).await;
    assert_eq!((words.text(), words.result().get("structuredContent")), ("a\nb", None));
    let dynamic = Client::new(&server, "/v1/orgs/local/toolsets/app/mcp").with("X-Mcp-Dynamic", "yes");
    let told = dynamic.call("get_tool_output_schema", json!({ "tool": "numbers" })).await;
    assert_eq!(serde_json::from_str::<serde_json::Value>(told.text()).unwrap(), schema);
    let told = dynamic.call("get_tool_output_schema", json!({ "tool": "words" })).await;
    assert_eq!(serde_json::from_str::<serde_json::Value>(told.text()).unwrap(), json!({ "type": "string" }));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_explained_is_what_a_client_of_the_chat_gets() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    crate::kit::connect(&server, "rich", crate::kit::rich(&["--loose"])).await;
    crate::kit::connect(&server, "every", crate::kit::node("server-everything", &["stdio"])).await;
    installed(&server).await;
    let chat = crate::kit::new_chat(&server).await;
    let request = server.request(reqwest::Method::PATCH, &format!("{}/{chat}", crate::kit::CHATS));
    let selectors = json!({ "toolSelectors": ["mcp:*", "toolset:files", "-files:get_file"] });
    request.json(&selectors).send().await.unwrap().error_for_status().unwrap();
    let listed = Client::new(&server, "/mcp").with("X-Mcp-Chat", &chat).ask("tools/list", json!({})).await;
    let sizes: Vec<(String, usize)> = listed.result()["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| (tool["name"].as_str().unwrap().to_owned(), tool.to_string().len().div_ceil(4)))
        .collect();
    let explained = server.get(&format!("{}/resolve?explain=true&chat={chat}", crate::kit::TOOLS)).await.expect(200);
    let all = explained["tools"].as_array().unwrap();
    let included = all.iter().filter(|tool| tool["included"] == true);
    let measured: Vec<(String, usize)> = included
        .map(|tool| {
            (tool["modelName"].as_str().unwrap().to_owned(), usize::try_from(tool["tokens"].as_u64().unwrap()).unwrap())
        })
        .collect();
    assert_eq!(measured, sizes);
    let reason = |id: &str| all.iter().find(|tool| tool["id"] == id).unwrap()["reason"].as_str().unwrap().to_owned();
    assert_eq!(reason("files:get_file"), "taken away by the chat's selector -files:get_file");
    assert_eq!(reason("folders:get_folder"), "not admitted by the chat's selectors");
    let path = format!("{}/resolve", crate::kit::TOOLS);
    let by_header = server.request(reqwest::Method::GET, &path).header("X-Mcp-Chat", &chat).send().await.unwrap();
    let by_header: serde_json::Value = by_header.json().await.unwrap();
    assert_eq!(by_header["count"], explained["count"]);
    server.get(&format!("{path}?chat=none")).await.expect(404);
}
