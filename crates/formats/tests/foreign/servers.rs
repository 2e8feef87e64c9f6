//! Lists of MCP servers.

use kitbag_formats::import::{Kind, Options};

use super::{REPLACE, has, import, refused, servers, warnings};

fn read(text: &str, name: &str) -> (String, String) {
    let imported = import(text.as_bytes(), name, Options::default());
    assert_eq!(imported.kind, Kind::McpServersJson);
    (servers(&imported), warnings(&imported))
}

#[test]
fn claude_desktop() {
    let text = r#"{
      "globalShortcut": "Ctrl+Space",
      "mcpServers": {
        "filesystem": {
          "command": "npx",
          "args": ["-y", "@modelcontextprotocol/server-filesystem", "/Users/me/Desktop"]
        },
        "Brave Search": {
          "command": "npx",
          "args": ["-y", "@modelcontextprotocol/server-brave-search"],
          "env": { "BRAVE_API_KEY": "${BRAVE_API_KEY}", "EMPTY": "", "NONE": null }
        }
      }
    }"#;
    let imported = import(text.as_bytes(), "claude_desktop_config.json", Options::default());
    let definition = &imported.bundle.definition;
    assert_eq!(definition.id.as_str(), "claude_desktop_config");
    assert_eq!((definition.name.as_str(), definition.version.to_string().as_str()), ("claude_desktop_config", "0.0.0"));
    assert_eq!(imported.bundle.files.len(), 1);
    assert_eq!(
        servers(&imported),
        r#"  - id: filesystem
    type: stdio
    command: npx
    args:
      - "-y"
      - "@modelcontextprotocol/server-filesystem"
      - "/Users/me/Desktop"
  - id: brave-search
    type: stdio
    command: npx
    args:
      - "-y"
      - "@modelcontextprotocol/server-brave-search"
    env:
      BRAVE_API_KEY: "${ENV:BRAVE_API_KEY}"
"#
    );
    assert_eq!(
        warnings(&imported),
        "claude_desktop_config.json: not taken: globalShortcut\n\
         claude_desktop_config.json: mcpServers.Brave Search.env.EMPTY is empty and is left out\n\
         claude_desktop_config.json: mcpServers.Brave Search: the server is called brave-search here\n\
         claude_desktop_config.json: it has no version; it becomes 0.0.0"
    );
}

#[test]
fn claude_code_as_a_bare_map() {
    let text = r#"{
      "github": {
        "type": "http",
        "url": "https://api.githubcopilot.com/mcp/",
        "headers": { "Authorization": "Bearer ${GITHUB_PERSONAL_ACCESS_TOKEN}" }
      },
      "local": { "command": "${CLAUDE_PLUGIN_ROOT}/server.sh", "args": ["--port", 3000], "cwd": "${userHome}/x" },
      "default": { "type": "sse", "url": "${API_BASE:-https://api.example.com}/mcp", "headersHelper": "/opt/x.sh",
                   "oauth": {"clientId": "abc"} }
    }"#;
    let (servers, warnings) = read(text, ".mcp.json");
    assert_eq!(
        servers,
        r#"  - id: github
    type: streamable-http
    url: "https://api.githubcopilot.com/mcp/"
    headers:
      Authorization: "Bearer ${ENV:GITHUB_PERSONAL_ACCESS_TOKEN}"
  - id: local
    type: stdio
    command: env
    args:
      - "${KITBAG_TOOLSET_DIR}/server.sh"
      - "--port"
      - "3000"
    cwd: "${ENV:HOME}/x"
  - id: default
    type: sse
    url: "${ENV:API_BASE}/mcp"
"#
    );
    has(
        &warnings,
        &[
            "default.url: the default of API_BASE is not taken; set the variable API_BASE",
            "default.headersHelper is a command and is not run",
            "default.oauth is not taken",
        ],
    );
    assert!(!warnings.contains("api.example.com"), "{warnings}");
    let imported = import(text.as_bytes(), ".mcp.json", Options::default());
    assert_eq!(imported.bundle.definition.id.as_str(), "imported");
}

#[test]
fn cursor() {
    let text = r#"{
      // Project servers
      "mcpServers": {
        "linear": { "url": "https://mcp.linear.app/sse", "auth": {"CLIENT_ID": "x", "CLIENT_SECRET": "y"} },
        "db": {
          "type": "stdio", "command": "python", "args": ["${workspaceFolder}${/}tools${pathSeparator}db.py",],
          "env": { "DATABASE_URL": "${env:DATABASE_URL}" }, "envFile": ".env", /* off */ "disabled": true,
          "autoApprove": ["query"], "alwaysAllow": ["*"], "trust": true, "timeout": 60,
        },
      },
    }"#;
    let (servers, warnings) = read(text, "cursor.json");
    assert_eq!(
        servers,
        r#"  - id: linear
    type: streamable-http
    url: "https://mcp.linear.app/sse"
  - id: db
    type: stdio
    command: python
    args:
      - "${ENV:WORKSPACE_FOLDER}/tools/db.py"
    env:
      DATABASE_URL: "${ENV:DATABASE_URL}"
    enabled: false
"#
    );
    has(
        &warnings,
        &[
            "mcpServers.linear.auth is not taken",
            "mcpServers.db.args[0]: there is no open project here; set the variable WORKSPACE_FOLDER",
            "mcpServers.db.envFile is not read",
            "mcpServers.db.autoApprove asks to use tools without asking; that grants nothing",
            "mcpServers.db.alwaysAllow asks to use tools",
            "mcpServers.db.trust asks to use tools",
            "mcpServers.db.timeout is not taken",
        ],
    );
}

#[test]
fn vs_code() {
    let text = r#"{
      "inputs": [
        { "type": "promptString", "id": "perplexity-key", "description": "Perplexity API Key", "password": true },
        { "type": "pickString", "id": "region", "options": ["eu", "us"], "default": "eu" },
        { "type": "command", "id": "pick", "command": "x.y" }
      ],
      "servers": {
        "perplexity": {
          "type": "stdio", "command": "npx", "args": ["-y", "server-perplexity-ask", "--region=${input:region}"],
          "env": { "PERPLEXITY_API_KEY": "${input:perplexity-key}" },
          "sandboxEnabled": true, "dev": { "watch": "src/**" }
        },
        "fetch": { "type": "streamableHttp", "url": "https://fetch.example/mcp" }
      }
    }"#;
    let (servers, warnings) = read(text, "mcp.json");
    assert_eq!(
        servers,
        r#"  - id: perplexity
    type: stdio
    command: npx
    args:
      - "-y"
      - server-perplexity-ask
      - "--region=${ENV:REGION}"
    env:
      PERPLEXITY_API_KEY: "${ENV:PERPLEXITY_KEY}"
  - id: fetch
    type: streamable-http
    url: "https://fetch.example/mcp"
"#
    );
    has(
        &warnings,
        &[
            "inputs[2] is a command of the editor and is not run",
            "servers.perplexity.args[2]: the default of the input region is not taken; set the variable REGION",
            "servers.perplexity.sandboxEnabled is not taken",
            "servers.perplexity.dev is not taken",
        ],
    );
}

#[test]
fn names_that_clash() {
    let text = r#"{"mcpServers": {"a b": {"command": "x"}, "a-b": {"command": "y"}, "con": {"command": "z"}, "世": {"url": "https://a.example"}}}"#;
    let (servers, warnings) = read(text, "x.json");
    has(&servers, &["id: a-b\n", "id: a-b-server\n", "id: con-server\n", "id: server\n"]);
    has(
        &warnings,
        &["mcpServers.a-b: the server is called a-b-server here", "mcpServers.con: the server is called con-server"],
    );
}

#[test]
fn values_that_are_written_out() {
    let text = r#"{"mcpServers": {
      "one": {"command": "x", "env": {"API_KEY": "hunter2-one", "PORT": 12345678, "FLAG": true, "MIXED": "pre-${A}", "TWO": "${A}${B}"}},
      "two": {"command": "x", "env": {"API_KEY": "hunter2-two"}},
      "same": {"command": "x", "env": {"API_KEY": "hunter2-one"}},
      "web": {"url": "https://a.example", "headers": {"Authorization": "Bearer hunter2-web", "X-Api-Key": "hunter2-key"}}
    }}"#;
    let message = refused(text.as_bytes(), "x.json");
    for place in
        ["one.env.API_KEY", "one.env.PORT", "one.env.FLAG", "one.env.MIXED", "one.env.TWO", "web.headers.Authorization"]
    {
        has(&message, &[&format!("x.json: mcpServers.{place} has its value written out")]);
    }
    has(&message, &["write a reference such as ${AUTHORIZATION} instead"]);
    let imported = import(text.as_bytes(), "x.json", REPLACE);
    let found = servers(&imported);
    has(
        &found,
        &[
            "API_KEY: \"${ENV:API_KEY}\"\n      FLAG: \"${ENV:FLAG}\"\n      MIXED: \"${ENV:MIXED}\"\n      PORT: \"${ENV:PORT}\"",
            "API_KEY: \"${ENV:TWO_API_KEY}\"",
            "Authorization: \"${ENV:AUTHORIZATION}\"\n      X-Api-Key: \"${ENV:X_API_KEY}\"",
        ],
    );
    assert_eq!(
        found.matches("API_KEY: \"${ENV:API_KEY}\"").count(),
        2,
        "the same value is the same variable:\n{found}"
    );
    has(&warnings(&imported), &["mcpServers.two.env.API_KEY: the value is not taken; set the variable TWO_API_KEY"]);
    for text in [message, format!("{imported:?}"), found] {
        assert!(!text.contains("hunter2") && !text.contains("12345678") && !text.contains("pre-"), "{text}");
    }
}

#[test]
fn secrets_among_arguments_are_told_by_their_place() {
    let text = r#"{"mcpServers": {"a": {"command": "x", "args": ["--api-key", "hunter2", "--token=hunter2", "--header",
        "Authorization: Bearer hunter2", "--token", "${T}", "--token=${T}", "--verbose", "plain", "Authorization: ${T}"]}}}"#;
    let (_, warnings) = read(text, "x.json");
    for (index, told) in [(0, false), (1, true), (2, true), (4, true), (6, false), (7, false), (9, false), (10, false)]
    {
        assert_eq!(warnings.contains(&format!("args[{index}] looks like a secret")), told, "{index}: {warnings}");
    }
    assert!(!warnings.contains("hunter2"), "{warnings}");
}

#[test]
fn what_is_refused() {
    for (text, wanted) in [
        (r#"{"mcpServers": {}}"#, "there is no server in it"),
        (r#"{"mcpServers": []}"#, "mcpServers must be an object"),
        (r#"{"mcpServers": {"a": "x"}}"#, "mcpServers.a must be an object"),
        (r#"{"mcpServers": {"a": {}}}"#, "mcpServers.a needs a command (to start) or a url"),
        (r#"{"mcpServers": {"a": {"command": "x", "url": "https://a.example"}}}"#, "has both a command and a url"),
        (
            r#"{"mcpServers": {"a": {"type": "ws", "url": "wss://a.example"}}}"#,
            "servers over WebSockets are not supported",
        ),
        (r#"{"mcpServers": {"a": {"type": "grpc", "url": "x"}}}"#, "\"grpc\" is no type of server"),
        (
            r#"{"mcpServers": {"a": {"type": "sse", "transport": "stdio", "url": "https://a.example"}}}"#,
            "different things",
        ),
        (r#"{"mcpServers": {"a": {"command": ["x"]}}}"#, "mcpServers.a.command must be a text"),
        (r#"{"mcpServers": {"a": {"command": "x", "args": "y"}}}"#, "mcpServers.a.args must be a list"),
        (r#"{"mcpServers": {"a": {"command": "x", "args": [{}]}}}"#, "mcpServers.a.args[0] must be a text"),
        (r#"{"mcpServers": {"a": {"command": "x", "env": {"A": []}}}}"#, "A must be a text"),
        (r#"{"mcpServers": {"a": {"command": "x", "disabled": "yes"}}}"#, "disabled must be true or false"),
        (r#"{"mcpServers": {"a": {"command": "x", "args": ["$${A}"]}}}"#, "args[0] has \"$${\""),
        (r#"{"mcpServers": {"a": {"command": "x", "args": ["${config:a.b}"]}}}"#, "no reference to a variable"),
        (r#"{"mcpServers": {"a": {"command": "x", "env": {"A": "${KITBAG_TOKEN}"}}}}"#, "those are Kitbag's own"),
        (r#"{"mcpServers": {"a": {"url": "unix:///tmp/x.sock"}}}"#, "mcpServers.a.url is not a URL"),
        (r#"{"mcpServers": {"a": {"url": "https://a.example/?api_key=hunter2"}}}"#, "query parameter \"api_key\""),
        (r#"{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}"#, "the key \"a\" is there twice"),
        (
            "{\"mcpServers\": {\n  \"a\": {\"command\": \"hunter2\" \"x\"}}}",
            "x.json:2:30: this is not JSON: expected `,` or `}`",
        ),
    ] {
        let message = refused(text.as_bytes(), "x.json");
        has(&message, &[wanted]);
        assert!(!message.contains("hunter2"), "{message}");
    }
}
