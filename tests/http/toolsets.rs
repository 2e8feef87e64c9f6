//! Toolsets from their installation to their end: what came in is shown, found, exported and removed as a whole.

use kitbag_testkit::{Program, TestDatabase, on_both};
use reqwest::Method;
use serde_json::{Value, json};

use crate::kit::{
    Picture, SERVERS, TOOLS, TOOLSETS, assert_files_agree, bundle, example, export, import, manifest, manifest_of,
    on_disk, override_path, pack, put, tool, unpacked, with_manifest,
};
use crate::{BINARY, serve, whole_list};

#[track_caller]
fn assert_fields(object: &Value, fields: &str) {
    for field in fields.split(", ") {
        assert!(object.get(field).is_some(), "{field} is missing in {object}");
    }
}

fn ids(items: &[Value]) -> Vec<&str> {
    items.iter().map(|item| item["id"].as_str().unwrap()).collect()
}

/// Everything that a toolset can have.
const FULL: &str = "description: All of it
tools:
  - {id: b_tool, entrypoint: 't:f', name: Bee, description: Buzzing around}
  - {id: a_tool, entrypoint: 'tools.t:f', requires_confirmation: true, input_schema: {type: object, properties: {x: {type: integer}}}}
tool_overrides:
  - {tool_id: a_tool, name_override: Renamed}
mcp_servers:
  - {id: files, command: nopx, args: [-y, pkg], cwd: '${HOME}', env: {KEY: '${MY_KEY}'}}
  - {id: web, url: 'https://mcp.example.org/mcp', headers: {X-Key: '${ENV:WEB}'}, requires_confirmation: false, enabled: false}
skills:
  - {id: listed, enabled: false}
python: {version: '>=3.11', dependencies: [requests>=2]}
permissions: {network: true}
";

fn skill(name: &str) -> String {
    format!("---\nname: {name}\ndescription: When it is needed.\n---\nDo it.\n")
}

fn full(version: &str) -> Vec<u8> {
    bundle(&[
        ("toolset.yaml", &manifest("full", version, FULL)),
        ("tools/t.py", "def f(workspace): pass\n"),
        ("*bin/run.sh", "#!/bin/sh\n"),
        ("B-upper.txt", "upper"),
        ("a.b", "dot"),
        ("a-b", "dash"),
        ("a/b", "slash"),
        ("ü.txt", "umlaut"),
        ("empty", ""),
        (".hidden/x", "dot file"),
        ("skills/listed/SKILL.md", &skill("listed")),
        ("skills/found/SKILL.md", &skill("found")),
        ("skills/found/more/notes.md", "notes"),
    ])
}

on_both! {
    async fn the_example_is_installed_shown_and_removed(database: TestDatabase) {
        let server = serve(&database);
        let nothing = Picture::take(&server, &database).await;
        let other = import(&server, "", &full("1.0.0")).await.expect(201);
        assert_eq!((&other["id"], &other["change"], &other["fromVersion"]), (&json!("full"), &json!("install"), &Value::Null));
        let before = Picture::take(&server, &database).await;

        let report = import(&server, "?sourceRef=/home/me/app&sourceType=local", &pack(&example())).await.expect(201);
        assert_fields(&report, "dryRun, id, name, change, fromVersion, version, toolCount, fileCount, tools, mcpServers, agentSkills, launches, warnings, toolset");
        assert_eq!((&report["id"], &report["version"], &report["toolCount"], &report["fileCount"]),
            (&json!("app-builder"), &json!("1.0.0"), &json!(3), &json!(3)));
        assert_eq!(report["tools"], json!({ "added": ["write_file", "read_file", "run_command"], "removed": [], "changed": [] }));
        let shown = server.get(&format!("{TOOLSETS}/app-builder")).await.expect(200);
        assert_eq!(report["toolset"], shown);
        assert_eq!((&shown["sourceType"], &shown["sourceRef"], &shown["enabled"], &shown["userMcp"]),
            (&json!("local"), &json!("/home/me/app"), &json!(true), &json!(false)));
        assert_eq!(ids(&whole_list(&server, TOOLSETS, 1).await), ["app-builder", "full"]);
        assert_eq!(database.files_of_toolset("local", "app-builder").await, on_disk(&example()));
        assert_files_agree(&server, &database, "app-builder").await;
        let write = tool(&server, "app-builder:write_file").await;
        assert_eq!((&write["renderer"], &write["rendererConfig"]["file"], &write["requiresConfirmation"], &write["modelName"]),
            (&json!("code"), &json!("$args.path"), &json!(false), &json!("app-builder__write_file")));
        assert_eq!(tool(&server, "app-builder:run_command").await["requiresConfirmation"], true);

        server.delete(&format!("{TOOLSETS}/app-builder")).await.expect(204);
        assert_eq!(Picture::take(&server, &database).await, before, "the other toolset is untouched");
        assert!(database.files_of_toolset("local", "app-builder").await.is_empty());
        for (method, rest) in [(Method::GET, ""), (Method::DELETE, ""), (Method::GET, "/export"), (Method::GET, "/files"),
            (Method::GET, "/overrides"), (Method::DELETE, "/overrides/x")] {
            let answer = kitbag_testkit::Answer::of(server.request(method, &format!("{TOOLSETS}/app-builder{rest}"))).await;
            answer.expect_error(404, "TOOLSET_NOT_FOUND");
        }
        server.get(&format!("{TOOLS}/app-builder:write_file")).await.expect_error(404, "TOOL_NOT_FOUND");
        server.delete(&format!("{TOOLSETS}/full")).await.expect(204);
        let end = Picture::take(&server, &database).await;
        assert_eq!(end.lists, nothing.lists);
        end.assert_tidy();
        assert!(end.files.keys().all(|path| !path.starts_with("toolsets/")), "{:?}", end.files);
        import(&server, "", &pack(&example())).await.expect(201);
        assert_files_agree(&server, &database, "app-builder").await;
    }

    async fn a_scaffold_can_be_installed_as_it_is(database: TestDatabase) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("made");
        let program = Program::on(BINARY, &database);
        let made = program.run(&["--json", "toolset", "new", "My: \"Tools\"", "--folder", path.to_str().unwrap()]).json();
        let id = made["id"].as_str().unwrap();
        let server = serve(&database);
        let report = import(&server, "", &pack(&path)).await.expect(201);
        assert_eq!((&report["warnings"], &report["name"]), (&json!([]), &json!("My: \"Tools\"")), "{report}");
        let shown = server.get(&format!("{TOOLSETS}/{id}")).await.expect(200);
        assert_eq!(shown["agentSkills"].as_array().unwrap().len(), 1, "{shown}");
        let html = tool(&server, &format!("{id}:word_count")).await;
        assert_eq!((&html["renderer"], &html["origins"]["renderer"]["from"]), (&json!("html"), &json!("bundle")));
        assert_files_agree(&server, &database, id).await;
        let first = export(&server, id).await;
        server.delete(&format!("{TOOLSETS}/{id}")).await.expect(204);
        import(&server, "", &first).await.expect(201);
        assert_eq!(export(&server, id).await, first);
    }

    async fn every_object_has_the_fields_that_callers_rely_on(database: TestDatabase) {
        let server = serve(&database);
        import(&server, "", &full("1.0.0")).await.expect(201);
        const TOOLSET: &str = "id, name, version, description, enabled, userMcp, installedAt, sourceType, sourceRef, manifestVersion, visibility, publicSlug, adoptedFrom";
        const TOOL: &str = "id, toolsetId, provider, name, description, modelName, inputSchema, outputSchema, requiresConfirmation, enabled, renderer, rendererConfig";
        const SERVER: &str = "id, serverId, toolsetId, serverType, enabled, status, error, toolCount, tools, command, args, cwd, url, envNames, headerNames, requiresConfirmation, trusted, createdAt";
        assert_fields(&whole_list(&server, TOOLSETS, 50).await[0], TOOLSET);
        let shown = server.get(&format!("{TOOLSETS}/full")).await.expect(200);
        assert_fields(&shown, &format!("{TOOLSET}, tools, mcpServers, agentSkills, files"));
        for list in ["/v1/orgs/local/tools?limit=200", "/v1/orgs/local/available-tools"] {
            let items = server.get(list).await.expect(200)["items"].clone();
            items.as_array().unwrap().iter().for_each(|tool| assert_fields(tool, TOOL));
            assert!(ids(items.as_array().unwrap()).ends_with(&["full:b_tool", "full:a_tool"]), "the author's order: {items}");
        }
        let a = tool(&server, "full:a_tool").await;
        assert_fields(&a, &format!("{TOOL}, origins"));
        assert_eq!(a["origins"], json!({ "name": { "from": "bundle", "key": "full:a_tool" }, "description": { "from": "default" },
            "renderer": { "from": "default" }, "requiresConfirmation": { "from": "tool" }, "enabled": { "from": "default" } }));
        assert_eq!((&a["name"], &a["provider"], &a["inputSchema"]["properties"]["x"]["type"]), (&json!("Renamed"), &json!("python"), &json!("integer")));
        let servers = server.get(SERVERS).await.expect(200)["items"].clone();
        servers.as_array().unwrap().iter().for_each(|one| assert_fields(one, SERVER));
        assert_eq!(ids(servers.as_array().unwrap()), ["full~files", "full~web"]);
        assert_eq!(servers, shown["mcpServers"]);
        let (files, web) = (&servers[0], &servers[1]);
        assert_eq!((&files["serverType"], &files["args"], &files["cwd"], &files["envNames"], &files["requiresConfirmation"], &files["enabled"], &files["status"]),
            (&json!("stdio"), &json!(["-y", "pkg"]), &json!("${HOME}"), &json!(["KEY"]), &json!(true), &json!(true), &json!("needs_trust")));
        assert_eq!((&web["serverType"], &web["headerNames"], &web["requiresConfirmation"], &web["enabled"]),
            (&json!("streamable-http"), &json!(["X-Key"]), &json!(false), &json!(false)));
        let skills: Vec<_> = shown["agentSkills"].as_array().unwrap().iter().map(|skill| (skill["id"].as_str().unwrap(), skill["enabled"].as_bool().unwrap())).collect();
        assert_eq!(skills, [("listed", false), ("found", true)]);
        assert_eq!((&shown["python"]["version"], &shown["permissions"]["network"]), (&json!(">=3.11"), &json!(true)));
        let run = shown["files"].as_array().unwrap().iter().find(|file| file["path"] == "bin/run.sh").unwrap();
        assert_eq!((&run["executable"], &run["size"], &run["kind"]), (&json!(true), &json!(10), &json!("asset")), "{run}");
        assert_files_agree(&server, &database, "full").await;
    }

    async fn tools_are_found_page_by_page_in_one_order(database: TestDatabase) {
        let server = serve(&database);
        import(&server, "", &full("1.0.0")).await.expect(201);
        import(&server, "", &pack(&example())).await.expect(201);
        let all = whole_list(&server, TOOLS, 200).await;
        assert_eq!(whole_list(&server, TOOLS, 1).await, all);
        assert_eq!(whole_list(&server, TOOLS, 3).await, all);
        let own: Vec<&str> = ids(&all).into_iter().filter(|id| id.contains(':')).collect();
        assert_eq!(own, ["full:b_tool", "full:a_tool", "app-builder:write_file", "app-builder:read_file", "app-builder:run_command"]);
        let builtin = all.iter().take_while(|tool| tool["provider"] == "builtin").count();
        assert!(builtin > 0 && all[builtin..].iter().all(|tool| tool["provider"] == "python"));
        let search = async |words: &str| {
            let found = server.get(&format!("{TOOLS}?limit=200&q={words}")).await.expect(200);
            ids(found["items"].as_array().unwrap()).iter().map(|id| (*id).to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(search("BUZZING").await, ["full:b_tool"]);
        assert_eq!(search("renamed").await, ["full:a_tool"]);
        assert_eq!(search("app%20builder%20shell").await, ["app-builder:run_command"]);
        assert_eq!(search("nobody-has-this").await, Vec::<String>::new());
        let first = server.get(&format!("{TOOLS}?limit=1&q=app-builder")).await.expect(200);
        let cursor = first["nextCursor"].as_str().unwrap();
        let next = server.get(&format!("{TOOLS}?limit=1&q=app-builder&cursor={cursor}")).await.expect(200);
        assert_eq!(next["items"][0]["id"], "app-builder:read_file");
        for query in ["?limit=0", "?limit=201", "?cursor=x", "?what=1", "?available=maybe"] {
            server.get(&format!("{TOOLS}{query}")).await.expect_error(400, "BAD_REQUEST");
        }
        // A new version of the first does not move it behind the second.
        import(&server, "", &full("2.0.0")).await.expect(200);
        assert_eq!(ids(&whole_list(&server, TOOLS, 2).await), ids(&all));
        for unknown in ["full:nothing", "nothing:a_tool", "mcp:full~files:x", "nothing", "a:b:c", "%00"] {
            server.get(&format!("{TOOLS}/{unknown}")).await.expect_error(404, "TOOL_NOT_FOUND");
        }
    }

    async fn a_toolset_that_is_off_has_no_tools_to_call(database: TestDatabase) {
        let server = serve(&database);
        import(&server, "", &full("1.0.0")).await.expect(201);
        let available = async || {
            let one = server.get("/v1/orgs/local/available-tools").await.expect(200)["items"].clone();
            let two = server.get(&format!("{TOOLS}?available=true&limit=200")).await.expect(200)["items"].clone();
            assert_eq!(one, two, "both ways to ask");
            one.as_array().unwrap().iter().filter(|tool| tool["toolsetId"] == "full").count()
        };
        assert_eq!(available().await, 2);
        let enable = async |body: Value| server.post(&format!("{TOOLSETS}/full/enable"), &body).await;
        assert_eq!(enable(json!({ "enabled": false })).await.expect(200)["enabled"], false);
        assert_eq!(available().await, 0);
        let a = tool(&server, "full:a_tool").await;
        assert_eq!((&a["enabled"], &a["available"]), (&json!(true), &json!(false)));
        assert_eq!(import(&server, "", &full("2.0.0")).await.expect(200)["toolset"]["enabled"], false, "a new version stays off");
        enable(json!({ "enabled": true })).await.expect(200);
        put(&server, &override_path("full", "full:a_tool"), &json!({ "enabled": false })).await.expect(200);
        assert_eq!(available().await, 1);
        for body in [json!({}), json!({ "enabled": "yes" }), json!({ "enabled": true, "x": 1 })] {
            enable(body).await.expect_error(400, "BAD_REQUEST");
        }
        server.post(&format!("{TOOLSETS}/nobody/enable"), &json!({ "enabled": true })).await.expect_error(404, "TOOLSET_NOT_FOUND");
    }

    async fn what_is_exported_can_be_imported_and_exported_the_same(database: TestDatabase) {
        let server = serve(&database);
        let sent = full("1.0.0");
        import(&server, "", &sent).await.expect(201);
        let answer = server.request(Method::GET, &format!("{TOOLSETS}/full/export")).send().await.unwrap();
        assert_eq!(answer.headers()["content-disposition"], "attachment; filename=\"full-v1.0.0.zip\"");
        let first = export(&server, "full").await;
        let (mut came, mut went) = (unpacked(&sent), unpacked(&first));
        came.remove("toolset.yaml");
        went.remove("toolset.yaml");
        assert_eq!(came, went, "every file but the manifest, with its executable bit");
        import(&server, "", &first).await.expect(200);
        assert_eq!(export(&server, "full").await, first);
        for (key, body) in [
            ("full:a_tool", json!({ "renderer": "code", "rendererConfig": { "content": "$return", "language": "yes" }, "nameOverride": "Mine: \"quoted\"" })),
            ("full:new_tool", json!({ "enabled": false, "descriptionOverride": "two\nlines #1" })),
            ("files:*", json!({ "requiresConfirmation": false })),
            ("web:get:it", json!({ "renderer": "markdown" })),
        ] {
            put(&server, &override_path("full", key), &body).await.expect(200);
        }
        let changed = export(&server, "full").await;
        assert_ne!(changed, first);
        assert!(manifest_of(&changed).contains("Mine"), "{}", manifest_of(&changed));
        let mine = tool(&server, "full:a_tool").await;
        server.delete(&format!("{TOOLSETS}/full")).await.expect(204);
        import(&server, "", &changed).await.expect(201);
        assert_eq!(export(&server, "full").await, changed);
        let elsewhere = TestDatabase::sqlite();
        let other = serve(&elsewhere);
        import(&other, "", &changed).await.expect(201);
        assert_eq!(export(&other, "full").await, changed, "another machine, another database");
        assert_files_agree(&other, &elsewhere, "full").await;
        let theirs = tool(&other, "full:a_tool").await;
        for field in ["name", "description", "renderer", "rendererConfig", "enabled"] {
            assert_eq!(mine[field], theirs[field], "{field}");
        }
    }

    async fn a_dry_run_changes_nothing(database: TestDatabase) {
        let server = serve(&database);
        let nothing = Picture::take(&server, &database).await;
        let report = import(&server, "?dryRun=true&trust=true", &full("1.0.0")).await.expect(200);
        assert_eq!((&report["dryRun"], &report["change"], &report["toolset"], &report["fileCount"]), (&json!(true), &json!("install"), &Value::Null, &json!(13)));
        assert_eq!(report["launches"], json!([
            { "id": "full~files", "commandLine": "nopx -y pkg", "cwd": "${HOME}", "env": ["KEY=${MY_KEY}"], "headers": [], "trusted": false },
            { "id": "full~web", "commandLine": "https://mcp.example.org/mcp", "cwd": null, "env": [], "headers": ["X-Key: ${ENV:WEB}"], "trusted": false },
        ]));
        assert_eq!(Picture::take(&server, &database).await, nothing);
        import(&server, "", &full("1.0.0")).await.expect(201);
        let before = Picture::take(&server, &database).await;
        before.assert_tidy();
        let less = with_manifest(&manifest("full", "0.9.0", "tools: [{id: b_tool, entrypoint: 't:f'}, {id: c_tool, entrypoint: 't:f'}]"));
        let report = import(&server, "?dryRun=true&trust=true&force=true", &less).await.expect(200);
        assert_eq!((&report["change"], &report["fromVersion"]), (&json!("downgrade"), &json!("1.0.0")));
        assert_eq!(report["tools"], json!({ "added": ["c_tool"], "removed": ["a_tool"], "changed": ["b_tool"] }));
        assert_eq!((&report["mcpServers"]["removed"], &report["agentSkills"]["removed"]), (&json!(["files", "web"]), &json!(["listed", "found"])));
        assert_eq!(Picture::take(&server, &database).await, before);
    }

    async fn versions_go_up_and_what_a_person_said_stays(database: TestDatabase) {
        let server = serve(&database);
        let version = |version: &str| with_manifest(&manifest("app", version, "tools: [{id: x, entrypoint: 't:f'}]\ntool_overrides: [{tool_id: x, name_override: Theirs, description_override: Theirs}]"));
        import(&server, "", &version("1.0.0")).await.expect(201);
        put(&server, &override_path("app", "app:x"), &json!({ "nameOverride": "Mine" })).await.expect(200);
        put(&server, &override_path("app", "app:later"), &json!({ "enabled": false })).await.expect(200);
        server.post(&format!("{TOOLSETS}/app/enable"), &json!({ "enabled": false })).await.expect(200);
        let installed = server.get(&format!("{TOOLSETS}/app")).await.expect(200)["installedAt"].clone();
        for (offered, change, from) in [("1.0.0", "reinstall", "1.0.0"), ("1.0.1-rc.1", "upgrade", "1.0.0"), ("1.0.1", "upgrade", "1.0.1-rc.1"), ("1.10.0", "upgrade", "1.0.1")] {
            let report = import(&server, "", &version(offered)).await.expect(200);
            assert_eq!((&report["change"], &report["fromVersion"], &report["version"]), (&json!(change), &json!(from), &json!(offered)));
        }
        let before = Picture::take(&server, &database).await;
        let refused = import(&server, "", &version("1.9.0")).await;
        refused.expect_error(409, "CONFLICT");
        assert_eq!(refused.body["details"], json!({ "installed": "1.10.0", "offered": "1.9.0" }));
        assert_eq!(Picture::take(&server, &database).await, before);
        assert_eq!(import(&server, "?force=true", &version("1.9.0")).await.expect(200)["change"], "downgrade");
        let shown = server.get(&format!("{TOOLSETS}/app")).await.expect(200);
        assert_eq!((&shown["version"], &shown["enabled"], &shown["installedAt"]), (&json!("1.9.0"), &json!(false), &installed));
        let x = tool(&server, "app:x").await;
        assert_eq!((&x["name"], &x["description"]), (&json!("Mine"), &json!("Theirs")));
        let said = server.get(&format!("{TOOLSETS}/app/overrides")).await.expect(200);
        let keys: Vec<_> = said["items"].as_array().unwrap().iter().map(|one| (one["origin"].as_str().unwrap(), one["key"].as_str().unwrap())).collect();
        assert_eq!(keys, [("bundle", "app:x"), ("user", "app:later"), ("user", "app:x")]);
        // A tool that a version adds is met by what was said about it before.
        let more = with_manifest(&manifest("app", "2.0.0", "tools: [{id: later, entrypoint: 't:f'}]"));
        import(&server, "", &more).await.expect(200);
        assert_eq!(tool(&server, "app:later").await["enabled"], false);
        assert_eq!(whole_list(&server, &format!("{TOOLSETS}/app/files"), 1).await.len(), 2);
        assert_files_agree(&server, &database, "app").await;
        // Uninstalling takes all of it along.
        server.delete(&format!("{TOOLSETS}/app")).await.expect(204);
        import(&server, "", &more).await.expect(201);
        assert_eq!(tool(&server, "app:later").await["enabled"], true);
    }
}

on_both! {
    /// Whoever reads a list to its end gets nothing twice, also if the last tool of a part is removed meanwhile.
    async fn a_list_goes_on_behind_a_tool_that_has_gone(database: TestDatabase) {
        let server = serve(&database);
        for id in ["first", "second"] {
            import(&server, "", &with_manifest(&manifest(id, "1.0.0", "tools: [{id: t, entrypoint: 't:f'}]"))).await.expect(201);
        }
        let ids = |list: &Value| -> Vec<String> {
            list["items"].as_array().unwrap().iter().map(|tool| tool["id"].as_str().unwrap().to_owned()).collect()
        };
        let part = server.get(&format!("{TOOLS}?limit=7")).await.expect(200);
        assert_eq!(ids(&part).last().unwrap(), "first:t");
        server.delete(&format!("{TOOLSETS}/first")).await.expect(204);
        let rest = server.get(&format!("{TOOLS}?limit=7&cursor={}", part["nextCursor"].as_str().unwrap())).await.expect(200);
        assert_eq!(ids(&rest), ["second:t"]);
    }
}
