//! What is written can be read by the reader of the same program's files, and nothing else changes.

use serde_json::{Value, json};

use super::super::Reader;
use super::{Client, NotWritten, Way};

fn http(token: &str) -> Way {
    Way::Http {
        url: "http://127.0.0.1:8700/mcp".to_owned(),
        headers: vec![
            ("Authorization".to_owned(), format!("Bearer {token}")),
            ("X-Mcp-Toolsets".to_owned(), "a,b".to_owned()),
        ],
    }
}

fn stdio() -> Way {
    Way::Stdio {
        command: "/opt/kit bag".to_owned(),
        args: vec!["mcp".to_owned(), "stdio".to_owned(), "a\"b".to_owned()],
    }
}

fn file(client: Client) -> &'static str {
    if client == Client::Codex { "config.toml" } else { "config.json" }
}

#[test]
fn what_is_written_is_read_as_the_same_server() {
    for client in Client::WRITABLE {
        for way in [http("kb_x"), stdio()] {
            let text = client.configuration("kitbag", &way);
            let found = Reader::default().read(Some(client), text.as_bytes(), file(client)).unwrap();
            let [one] = found.as_slice() else { panic!("{client:?}: {found:?}") };
            let raw = kitbag_model::RawLaunch::from(&one.server.as_ref().unwrap().with_values().launch);
            assert_eq!(one.name, "kitbag");
            match &way {
                Way::Http { url, headers } => {
                    assert_eq!(raw.url.as_ref(), Some(url), "{client:?}");
                    assert_eq!(raw.headers.into_iter().collect::<Vec<_>>(), *headers, "{client:?}");
                }
                Way::Stdio { command, args } => {
                    assert_eq!((raw.command.as_ref(), &raw.args), (Some(command), args), "{client:?}");
                }
            }
        }
    }
}

#[test]
fn an_entry_is_set_once_and_nothing_beside_it_moves() {
    let files = [
        "{}",
        "{ }\n",
        "{\n}\n",
        "{\"a\":1.10,\"mcpServers\":{}}",
        "{\"mcpServers\":{\"x\":{\"command\":\"}\"}}}",
        "{\n\t\"a\": [1, {\"mcpServers\": 2}],\n\t\"mcpServers\": {\n\t\t\"x\": {\"command\": \"a\\\"{\"}\n\t},\n\t\"z\": 1e2\n}\n",
        "{\r\n    \"b\": null\r\n}",
        "",
    ];
    for text in files {
        let once = Client::Cursor.with_server(text, "kitbag", &http("first")).unwrap();
        let again = Client::Cursor.with_server(&once, "kitbag", &http("first")).unwrap();
        assert_eq!(once, again, "{text:?}");
        let other = Client::Cursor.with_server(&once, "kitbag", &http("second")).unwrap();
        assert_eq!(other, once.replace("first", "second"), "{text:?}");
        let mut read: Value = serde_json::from_str(&once).unwrap();
        assert_eq!(read["mcpServers"]["kitbag"]["headers"]["X-Mcp-Toolsets"], "a,b");
        // Without it the file is what it was.
        read["mcpServers"].as_object_mut().unwrap().remove("kitbag");
        let mut before: Value = serde_json::from_str(if text.is_empty() { "{}" } else { text }).unwrap();
        if before.get("mcpServers").is_none() {
            before["mcpServers"] = json!({});
        }
        assert_eq!(read, before, "{text:?}");
        // Every byte that was there is there still, in its order.
        let mut rest = once.chars();
        assert!(text.trim().chars().filter(|c| !c.is_whitespace()).all(|c| rest.any(|other| other == c)), "{once}");
    }
}

#[test]
fn layout_is_the_files_own() {
    let text = "{\n\t\"mcpServers\": {\n\t\t\"x\": {}\n\t}\n}\n";
    let way = Way::Http { url: "u".to_owned(), headers: vec![] };
    let set = Client::Cursor.with_server(text, "kitbag", &way).unwrap();
    assert_eq!(set, "{\n\t\"mcpServers\": {\n\t\t\"x\": {},\n\t\t\"kitbag\": {\n\t\t\t\"url\": \"u\"\n\t\t}\n\t}\n}\n");
    let flat = Client::Cursor.with_server("{\"a\":1}", "kitbag", &way).unwrap();
    assert_eq!(flat, "{\"a\":1,\"mcpServers\":{\"kitbag\":{\"url\":\"u\"}}}");
    let lines = Client::Cursor.with_server("{\r\n  \"a\": 1\r\n}\r\n", "kitbag", &way).unwrap();
    assert!(!lines.replace("\r\n", "").contains('\n'), "{lines:?}");
}

#[test]
fn files_that_are_left_alone() {
    let refused = |client: Client, text: &str| client.with_server(text, "kitbag", &http("t")).unwrap_err();
    assert_eq!(refused(Client::VsCode, "{\n  // mine\n  \"servers\": {}\n}"), NotWritten::Comments);
    assert_eq!(refused(Client::OpenCode, "{\"mcp\": {},}"), NotWritten::Comments);
    assert_eq!(refused(Client::Cursor, "{\n\"a\": hunter2}"), NotWritten::Unreadable { kind: "JSON", line: 2 });
    assert_eq!(refused(Client::Cursor, "[]"), NotWritten::NotAnObject("the whole".to_owned()));
    assert_eq!(refused(Client::Cursor, "{\"mcpServers\": []}"), NotWritten::NotAnObject("mcpServers".to_owned()));
    let twice = "{\"mcpServers\": {\"a\": {}}, \"mcpServers\": {\"b\": {}}, \"c\": {\"mcpServers\": {}}}";
    // The last one counts, for the reader as for the edit.
    let set = Client::Cursor.with_server(twice, "kitbag", &http("t")).unwrap();
    assert!(set.starts_with("{\"mcpServers\": {\"a\": {}}, \"mcpServers\": {\"b\": {},"), "{set}");
    assert_eq!(refused(Client::Codex, "a = 1\nb = \n"), NotWritten::Unreadable { kind: "TOML", line: 2 });
    for text in [
        "mcp_servers = { kitbag = { url = \"x\" } }\n",
        "[mcp_servers]\nkitbag = { url = \"x\" }\n",
        "mcp_servers.kitbag.url = \"x\"\n",
    ] {
        assert_eq!(refused(Client::Codex, text), NotWritten::Entangled("mcp_servers.kitbag".to_owned()), "{text}");
    }
    assert_eq!(refused(Client::Codex, "mcp_servers = 1\n"), NotWritten::NotAnObject("mcp_servers".to_owned()));
}

#[test]
fn sections_of_toml_are_replaced_where_they_were() {
    let text = "# mine\nmodel = \"m\" # best\n\n[mcp_servers.x]\ncommand = \"x\"\n\n\
        # about y\n[mcp_servers.y]\nargs = [\n  \"[mcp_servers.kitbag]\",\n]\n";
    let once = Client::Codex.with_server(text, "kitbag", &http("first")).unwrap();
    assert!(once.starts_with(text), "{once}");
    let again = Client::Codex.with_server(&once, "kitbag", &http("first")).unwrap();
    assert_eq!(again, once);
    // What stands behind it stays behind it, with its comment.
    let more = format!("{once}\n# about z\n[z]\na = 1\n[[list]]\nb = 2\n");
    let other = Client::Codex.with_server(&more, "kitbag", &http("second")).unwrap();
    assert_eq!(other, more.replace("first", "second"));
    let process = Client::Codex.with_server(&more, "kitbag", &stdio()).unwrap();
    assert!(process.contains("# about z\n[z]") && !process.contains("http_headers"), "{process}");
    assert_eq!(Client::Codex.server_in(&process, "kitbag").unwrap()["args"][2], "a\"b");
    // A text that looks like a section is none.
    for hidden in
        ["a = '''\n[mcp_servers.kitbag]\nx = 1\n'''\n", "a = '''\n[mcp_servers.kitbag]\n'''\nb = '''\n[x]\n'''\n"]
    {
        let set = Client::Codex.with_server(hidden, "kitbag", &http("t"));
        assert_eq!(set, Err(NotWritten::Entangled("mcp_servers.kitbag".to_owned())));
    }
}
