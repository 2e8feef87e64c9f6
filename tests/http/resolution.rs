//! Which tools a client gets: the server's own lists, a client's, and a chat's selectors.

use kitbag_testkit::database::{add_organization, add_token};
use kitbag_testkit::{Answer, Server, TestDatabase, on_both};
use reqwest::Method;
use serde_json::{Value, json};

use crate::calls::{ask, asking, calls};
use crate::kit::{TOOLS, TOOLSETS, import, manifest, override_path, put, with_manifest};
use crate::{BINARY, CHATS, new_chat, serve, whole_list};

const AVAILABLE: &str = "/v1/orgs/local/available-tools";

/// Two toolsets with three tools each.
async fn install(database: &TestDatabase) {
    let server = serve(database);
    for (id, noun) in [("files", "file"), ("folders", "folder")] {
        let tools: String = ["create", "get", "delete"]
            .iter()
            .map(|verb| format!("  - {{id: {verb}_{noun}, entrypoint: \"tools.t:f\"}}\n"))
            .collect();
        import(&server, "", &with_manifest(&manifest(id, "1.0.0", &format!("tools:\n{tools}")))).await.expect(201);
    }
}

fn serve_with(database: &TestDatabase, flags: &[&str]) -> Server {
    Server::start(BINARY, database, flags)
}

fn ids(tools: &Value, only: impl Fn(&Value) -> bool) -> String {
    let ids = tools.as_array().unwrap().iter().filter(|tool| only(tool)).map(|tool| tool["id"].as_str().unwrap());
    ids.collect::<Vec<_>>().join(" ")
}

async fn resolved(server: &Server, query: &str) -> Value {
    server.get(&format!("{TOOLS}/resolve{query}")).await.expect(200)
}

async fn available(server: &Server, query: &str) -> String {
    ids(&server.get(&format!("{AVAILABLE}{query}")).await.expect(200)["items"], |_| true)
}

const FILES: &str = "files:create_file files:get_file files:delete_file";

on_both! {
    async fn a_request_narrows_what_the_server_allows(database: TestDatabase) {
        install(&database).await;
        let server = serve_with(&database, &["--toolsets", "Files", "--enabled-tools", "create_folder", "--disabled-tools", "get_file"]);
        let allowed = "files:create_file files:delete_file folders:create_folder";
        assert_eq!(available(&server, "").await, allowed);
        assert_eq!(whole_list(&server, TOOLS, 200).await.len(), 12, "all tools are listed all the same");
        for (query, expected) in [
            ("", allowed),
            ("?toolsets=all", allowed),
            ("?toolsets=folders", "folders:create_folder"),
            ("?toolsets=folders,FILES", allowed),
            ("?toolsets=&enabled_tools=delete_file", "files:delete_file"),
            ("?toolsets=&enabled_tools=files__delete_file,folders:create_folder", "files:delete_file folders:create_folder"),
            ("?disabled_tools=*_file", "folders:create_folder"),
            ("?enabled_tools=create_folder", allowed),
        ] {
            let found = resolved(&server, query).await;
            assert_eq!(ids(&found["tools"], |_| true), expected, "{query}");
            assert_eq!(found["count"], expected.split(' ').count());
            let tokens: u64 = found["tools"].as_array().unwrap().iter().map(|tool| tool["tokens"].as_u64().unwrap()).sum();
            assert!(tokens > 0 && found["totalTokens"] == tokens, "{found}");
        }
        for (query, problems) in [
            ("?toolsets=builtin", vec!["Unknown toolset: builtin"]),
            ("?enabled_tools=get_file", vec!["Unknown enabled tool: get_file"]),
            ("?toolsets=", vec!["No tools left"]),
            ("?toolsets=nope,files&enabled_tools=get_folder,-x&disabled_tools=read_file", vec![
                "Unknown toolset: nope", "Unknown enabled tool: get_folder",
                "The enabled tools take no entry with - in front: -x (name it in the disabled tools instead)",
                "Unknown disabled tool: read_file",
            ]),
            ("?toolsets=nope,files&enabled_tools=get_folder&disabled_tools=read_file", vec![
                "Unknown toolset: nope", "Unknown enabled tool: get_folder", "Unknown disabled tool: read_file",
            ]),
            ("?dynamic=maybe", vec!["dynamic: Expected one of: yes, y, true, 1, no, n, false, 0, but got maybe"]),
        ] {
            let refused = server.get(&format!("{TOOLS}/resolve{query}")).await;
            refused.expect_error(400, "BAD_REQUEST");
            assert_eq!(refused.body["details"]["problems"], json!(problems), "{query}");
            assert_eq!(refused.body["message"], problems.join("; "));
        }
        for query in ["?tools=a", "?toolsets=files&toolsets=folders", "?explain=maybe"] {
            server.get(&format!("{TOOLS}/resolve{query}")).await.expect_error(400, "BAD_REQUEST");
        }
    }

    async fn every_tool_is_in_or_out_for_a_reason(database: TestDatabase) {
        install(&database).await;
        let server = serve_with(&database, &["--disabled-tools", "get_f*"]);
        put(&server, &override_path("files", "delete_file"), &json!({ "enabled": false })).await.expect(200);
        let found = resolved(&server, "?explain=true&toolsets=files,builtin&enabled_tools=create_folder&disabled_tools=read_file&dynamic=yes").await;
        assert_eq!(found["dynamic"], true);
        let reason = |id: &str| {
            let tool = found["tools"].as_array().unwrap().iter().find(|tool| tool["id"] == id).unwrap();
            (tool["included"].as_bool().unwrap(), tool["reason"].as_str().unwrap().to_owned())
        };
        for (id, included, why) in [
            ("write_file", true, "toolset builtin"),
            ("read_file", false, "disabled by read_file"),
            ("files:create_file", true, "toolset files"),
            ("files:get_file", false, "server's own lists: disabled by get_f*"),
            ("files:delete_file", false, "off"),
            ("folders:create_folder", true, "enabled by create_folder"),
            ("folders:delete_folder", false, "not in any list"),
        ] {
            assert_eq!(reason(id), (included, why.to_owned()), "{id}");
        }
        let included = ids(&found["tools"], |tool| tool["included"] == true);
        let short = resolved(&server, "?toolsets=files,builtin&enabled_tools=create_folder&disabled_tools=read_file").await;
        assert_eq!((included, &short["dynamic"]), (ids(&short["tools"], |_| true), &json!(false)));
        assert_eq!(found["totalTokens"], short["totalTokens"]);
        assert!(short["tools"][0].get("reason").is_none());
    }

    async fn a_clients_lists_come_by_header_or_by_query(database: TestDatabase) {
        install(&database).await;
        let server = serve_with(&database, &["--header-prefix", "X-Kit-"]);
        let with = async |query: &str, headers: &[(&str, &str)]| {
            let request = server.request(Method::GET, &format!("{TOOLS}/resolve{query}"));
            Answer::of(headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))).await
        };
        let found = with("?disabled_tools=get_file", &[("x-kit-toolsets", "files"), ("X-Mcp-Toolsets", "nope")]).await.expect(200);
        assert_eq!(ids(&found["tools"], |_| true), "files:create_file files:delete_file");
        assert_eq!(found["headerPrefix"], "X-Kit-");
        for (query, headers, message) in [
            ("?toolsets=files", vec![("X-Kit-Toolsets", "files")], "Both query and header specify toolsets"),
            ("", vec![("X-Kit-Toolsets", "files"), ("X-Kit-Toolsets", "files")], "The header specifies toolsets more than once"),
        ] {
            let refused = with(query, &headers).await;
            refused.expect_error(400, "BAD_REQUEST");
            assert_eq!(refused.body["message"], message);
        }
    }

    async fn an_agents_token_is_bound_by_the_servers_lists(database: TestDatabase) {
        install(&database).await;
        let server = serve_with(&database, &["--disabled-tools", "run_command"]);
        let chat = new_chat(&server).await;
        let token = add_token(&database.open().await, &kitbag_model::OrgId::local(), "use").await;
        let agent = async |tool: &str, args: Value| {
            let request = server.anonymous(Method::POST, &calls(&chat)).bearer_auth(&token);
            Answer::of(request.json(&json!({ "toolId": tool, "args": args }))).await
        };
        let refused = agent("run_command", json!({ "command": "true" })).await;
        refused.expect_error(404, "TOOL_NOT_FOUND");
        let unknown = agent("no_command", json!({})).await;
        let text = |answer: &Answer| answer.body.to_string().replace("no_command", "run_command");
        assert_eq!(text(&unknown), text(&refused), "it looks as if there were none");
        // What is not taken away is refused for its arguments alone.
        agent("read_file", json!({})).await.expect_error(400, "INVALID_ARGUMENTS");
        let call = ask(&server, &chat, "run_command", json!({ "command": "true" })).await.expect(202);
        assert_eq!(call["status"], "pending", "who manages is not bound");
        // Another organisation has lists of its own.
        let store = database.open().await;
        let other = add_organization(&store, "other").await;
        let theirs = add_token(&store, &other, "use").await;
        let listed = Answer::of(server.anonymous(Method::GET, "/v1/orgs/other/available-tools").bearer_auth(&theirs)).await.expect(200);
        assert!(ids(&listed["items"], |_| true).contains("run_command"), "{listed}");
    }

    async fn a_chat_keeps_to_its_selectors(database: TestDatabase) {
        install(&database).await;
        let server = serve(&database);
        let chat = new_chat(&server).await;
        let all = available(&server, "").await;
        let select = async |selectors: Value| {
            let request = server.request(Method::PATCH, &format!("{CHATS}/{chat}"));
            Answer::of(request.json(&json!({ "toolSelectors": selectors }))).await.expect(200);
            available(&server, &format!("?chat={chat}")).await
        };
        for nothing in [Value::Null, json!([])] {
            assert_eq!(select(nothing).await, all, "no restriction");
        }
        assert_eq!(select(json!(["toolset:files"])).await, FILES);
        assert_eq!(select(json!(["toolset:files", "-files:get_file"])).await, "files:create_file files:delete_file");
        assert_eq!(select(json!(["*:create_*"])).await, "files:create_file folders:create_folder");
        assert_eq!(select(json!(["not:there"])).await, "");
        assert_eq!(select(json!(["-toolset:folders", "-toolset:builtin"])).await, FILES);
        select(json!(["read_file", "-run_command"])).await;
        let keyed = || asking(&server, &chat, "read_file", &json!({ "path": "none" })).header("Idempotency-Key", "k").header("Prefer", "respond-async");
        ask(&server, &chat, "read_file", json!({})).await.expect_error(400, "INVALID_ARGUMENTS");
        let first = Answer::of(keyed()).await.expect(202);
        for (tool, why) in [("run_command", "-run_command takes it away"), ("write_file", "none of its selectors admits it")] {
            let refused = ask(&server, &chat, tool, json!({ "command": "x" })).await;
            refused.expect_error(403, "FORBIDDEN");
            let message = refused.body["message"].as_str().unwrap();
            assert!(message.contains(why) && message.contains("read_file, -run_command"), "{message}");
        }
        select(json!(["-read_file"])).await;
        assert_eq!(Answer::of(keyed()).await.expect(202)["id"], first["id"], "what was asked for before is answered as before");
        for bad in ["nope", "00000000-0000-0000-0000-000000000000"] {
            server.get(&format!("{AVAILABLE}?chat={bad}")).await.expect_error(404, "NOT_FOUND");
        }
    }

    async fn the_servers_lists_hold_when_what_they_name_goes(database: TestDatabase) {
        install(&database).await;
        let server = serve_with(&database, &["--toolsets", "files,folders", "--disabled-tools", "get_folder"]);
        server.delete(&format!("{TOOLSETS}/folders")).await.expect(204);
        let found = resolved(&server, "").await;
        assert_eq!(ids(&found["tools"], |_| true), FILES);
        assert_eq!(found["stale"], json!(["Unknown toolset: folders", "Unknown disabled tool: get_folder"]));
    }
}
