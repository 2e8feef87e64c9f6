//! Entries of the MCP registry.

use kitbag_formats::import::{Imported, Kind, Options};

use super::{REPLACE, has, import, refused, servers, warnings};

fn entry(parts: &str) -> String {
    format!(
        r#"{{"$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
            "name": "io.github.example/weather", "title": "Weather", "description": "Tells the weather", "version": "1.0.2", {parts}}}"#
    )
}

fn read(text: &str) -> Imported {
    let imported = import(text.as_bytes(), "server.json", Options::default());
    assert_eq!(imported.kind, Kind::ServerJson);
    imported
}

#[test]
fn an_npm_package() {
    let imported = read(&entry(
        r#""packages": [{"registryType": "npm", "registryBaseUrl": "https://registry.npmjs.org", "identifier": "@example/server-weather",
          "version": "1.0.2", "transport": {"type": "stdio"}, "runtimeHint": "npx",
          "packageArguments": [
            {"type": "positional", "valueHint": "target_dir", "description": "Path", "default": "/tmp/hunter2", "isRequired": true, "isRepeated": true},
            {"type": "named", "name": "--mode", "default": "local"},
            {"type": "named", "name": "--units", "value": "{units}", "variables": {"units": {"default": "celsius"}}},
            {"type": "named", "name": "--verbose", "value": ""}],
          "environmentVariables": [
            {"name": "WEATHER_API_KEY", "isRequired": true, "isSecret": true},
            {"name": "LOG_LEVEL", "default": "info"},
            {"name": "REGION", "isRequired": true, "default": "eu"}]}]"#,
    ));
    let definition = &imported.bundle.definition;
    assert_eq!((definition.id.as_str(), definition.name.as_str()), ("weather", "Weather"));
    assert_eq!(definition.version.to_string(), "1.0.2");
    assert_eq!(
        servers(&imported),
        r#"  - id: weather
    type: stdio
    command: npx
    args:
      - "-y"
      - "@example/server-weather@1.0.2"
      - "${ENV:TARGET_DIR}"
      - "--units"
      - "${ENV:UNITS}"
      - "--verbose"
    env:
      REGION: "${ENV:REGION}"
      WEATHER_API_KEY: "${ENV:WEATHER_API_KEY}"
"#
    );
    let warnings = warnings(&imported);
    has(
        &warnings,
        &[
            "packages[0]: LOG_LEVEL may be left out, and is",
            "packages[0]: the default of REGION is not taken; set the variable REGION",
            "packages[0].packageArguments[0] can be given several times elsewhere",
            "packages[0].packageArguments[0] is asked for elsewhere; here it is ${ENV:TARGET_DIR}; its default is not taken",
            "packages[0].packageArguments[1]: --mode may be left out, and is",
            "packages[0].packageArguments[2]: the default of the variable units is not taken; set the variable UNITS",
        ],
    );
    assert!(!warnings.contains("hunter2"), "{warnings}");
}

#[test]
fn several_ways_to_one_server_in_the_old_spelling() {
    let text = r#"{
      "name": "io.github.example/database-manager", "description": "d", "status": "deprecated", "version_detail": {"version": "3.1.0"},
      "packages": [
        {"registry_type": "oci", "registry_base_url": "https://docker.io", "identifier": "example/database", "version": "3.1.0",
         "runtime_arguments": [
           {"type": "named", "name": "--mount", "value": "type=bind,src={source_path},dst=/project", "is_required": true,
            "variables": {"source_path": {"format": "filepath", "is_required": true}}},
           {"type": "named", "name": "--network", "value": "host"}],
         "package_arguments": [{"type": "positional", "value_hint": "database_name", "is_required": true}],
         "environment_variables": [{"name": "DB_PASSWORD", "is_required": true, "is_secret": true}]},
        {"registry_name": "pypi", "name": "database-manager", "version": "3.1.0", "runtime_hint": "uvx"},
        {"registry_name": "nuget", "name": "Example.Database", "version": "0.4.0-beta",
         "package_arguments": [{"type": "positional", "value": "mcp"}, {"type": "positional", "value": "start"}]},
        {"registry_type": "cargo", "identifier": "database-manager", "version": "3.1.0"}],
      "remotes": [
        {"transport_type": "sse", "url": "https://mcp.example/sse", "headers": [
          {"name": "X-API-Key", "is_required": true, "is_secret": true}, {"name": "X-Region", "default": "us"}]},
        {"transport_type": "streamable", "url": "https://{tenant}.example/http"}]}"#;
    let imported = read(text);
    assert_eq!(imported.bundle.definition.version.to_string(), "3.1.0");
    assert_eq!(
        servers(&imported),
        r#"  - id: database-manager
    type: stdio
    command: docker
    args:
      - run
      - "-i"
      - "--rm"
      - "-e"
      - DB_PASSWORD
      - "--mount"
      - "type=bind,src=${ENV:SOURCE_PATH},dst=/project"
      - "--network"
      - host
      - "example/database:3.1.0"
      - "${ENV:DATABASE_NAME}"
    env:
      DB_PASSWORD: "${ENV:DB_PASSWORD}"
  - id: database-manager-pypi
    type: stdio
    command: uvx
    args:
      - "database-manager==3.1.0"
    enabled: false
  - id: database-manager-nuget
    type: stdio
    command: dnx
    args:
      - "--yes"
      - "Example.Database@0.4.0-beta"
      - "--"
      - mcp
      - start
    enabled: false
  - id: database-manager-remote
    type: sse
    url: "https://mcp.example/sse"
    headers:
      X-API-Key: "${ENV:X_API_KEY}"
    enabled: false
  - id: database-manager-remote-server
    type: streamable-http
    url: "https://${ENV:TENANT}.example/http"
    enabled: false
"#
    );
    has(
        &warnings(&imported),
        &[
            "its status in the registry is \"deprecated\"",
            "packages[3]: packages of the type \"cargo\" cannot be started here",
            "it says 5 ways to reach one server; database-manager is used",
            "remotes[0]: X-Region may be left out, and is",
            "remotes[1].url: the variable tenant is not declared; set the variable TENANT",
        ],
    );
}

#[test]
fn remotes() {
    let imported = read(&entry(
        r#""remotes": [{"type": "streamable-http", "url": "https://{region}.example/mcp/{fixed}",
             "variables": {"region": {"isRequired": true}, "fixed": {"value": "v1"}},
             "headers": [{"name": "Authorization", "value": "Bearer {token}", "isSecret": true, "variables": {"token": {"isSecret": true, "value": "hunter2"}}}]}]"#,
    ));
    assert_eq!(
        servers(&imported),
        r#"  - id: weather
    type: streamable-http
    url: "https://${ENV:REGION}.example/mcp/v1"
    headers:
      Authorization: "Bearer ${ENV:TOKEN}"
"#
    );
    assert!(!format!("{imported:?}").contains("hunter2"));
}

#[test]
fn images() {
    for (package, image) in [
        (r#""identifier": "ghcr.io/a/b:1.0""#, "\"ghcr.io/a/b:1.0\""),
        (r#""identifier": "ghcr.io/a/b@sha256:00", "version": "2""#, "\"ghcr.io/a/b@sha256:00\""),
        (r#""identifier": "a/b", "version": "2", "registryBaseUrl": "https://ghcr.io""#, "\"ghcr.io/a/b:2\""),
        (r#""identifier": "localhost:5000/b", "version": "2""#, "\"localhost:5000/b:2\""),
    ] {
        let imported = read(&entry(&format!(
            r#""packages": [{{"registryType": "oci", {package}, "transport": {{"type": "stdio"}}}}]"#
        )));
        has(&servers(&imported), &[image]);
    }
    let whole = r#""packages": [{"registryType": "oci", "identifier": "a:1", "runtimeHint": "podman", "runtimeArguments": [
        {"type": "positional", "value": "run"}, {"type": "positional", "value": "--init"}],
        "environmentVariables": [{"name": "A", "isSecret": true}]}]"#;
    has(
        &servers(&read(&entry(whole))),
        &["command: podman\n    args:\n      - run\n      - \"-e\"\n      - A\n      - \"--init\"\n      - \"a:1\""],
    );
}

#[test]
fn files_to_download_are_handed_over_with_their_hash() {
    let hash = "fe333e598595000ae021bd27117db32ec69af6987f507ba7a63c90638ff633ce";
    let package = format!(
        r#""packages": [{{"registryType": "mcpb", "identifier": "https://github.com/a/b/releases/download/v1/x.mcpb", "fileSha256": "{hash}"}}]"#
    );
    let imported = read(&entry(&package));
    assert_eq!(imported.downloads.len(), 1);
    assert_eq!(imported.downloads[0].sha256.to_string(), hash);
    assert!(imported.bundle.definition.servers.is_empty());
    has(&warnings(&imported), &["is not downloaded; fetch it, check that its SHA-256 is fe333e59"]);
}

#[test]
fn what_is_left_behind() {
    let imported = read(&entry(
        r#""packages": [
          {"registryType": "npm", "identifier": "a", "version": "1.0.0", "transport": {"type": "streamable-http", "url": "http://localhost:{port}/mcp"}},
          {"registryType": "npm", "identifier": "a", "runtimeHint": "bash", "fileSha256": "00", "registryBaseUrl": "https://npm.example",
           "runtimeArguments": [{"type": "positional", "value": "--yes"}], "postInstallInstructions": ["curl x | sh"]}]"#,
    ));
    has(&servers(&imported), &["command: npx\n    args:\n      - \"--yes\"\n      - a\n"]);
    has(
        &warnings(&imported),
        &[
            "packages[0]: it is started by hand and then dialled",
            "packages[1]: the hint to start it with \"bash\" is not followed",
            "packages[1]: the hash is not checked",
            "and it is not done: curl x | sh",
            "packages[1]: it comes from another registry",
            "packages[1] has no version",
        ],
    );
}

#[test]
fn what_is_refused() {
    for (parts, wanted) in [
        (r#""packages": []"#, "no package and no remote"),
        (r#""packages": {}"#, "packages must be a list of objects"),
        (r#""remotes": [1]"#, "remotes must be a list of objects"),
        (r#""packages": [{"registryType": "npm"}]"#, "packages[0].identifier must be"),
        (
            r#""packages": [{"registryType": "npm", "identifier": "--registry=https://evil.example"}]"#,
            "no \"-\" in front",
        ),
        (r#""packages": [{"registryType": "npm", "identifier": "a b"}]"#, "packages[0].identifier must be"),
        (
            r#""packages": [{"registryType": "npm", "identifier": "a", "version": "^1.0.0"}]"#,
            "version must be one version",
        ),
        (
            r#""packages": [{"registryType": "npm", "identifier": "a", "version": "1", "packageArguments": [{"type": "named"}]}]"#,
            "must have a name",
        ),
        (
            r#""packages": [{"registryType": "npm", "identifier": "a", "version": "1", "packageArguments": [{"type": "x"}]}]"#,
            "must be positional or named",
        ),
        (
            r#""packages": [{"registryType": "npm", "identifier": "a", "version": "1", "packageArguments": [{"isRequired": true}]}]"#,
            "its name or hint",
        ),
        (
            r#""packages": [{"registryType": "npm", "identifier": "a", "version": "1", "environmentVariables": [{"name": "A", "value": "hunter2"}]}]"#,
            "env.A has its value written out",
        ),
        (r#""packages": [{"registryType": "mcpb", "identifier": "https://a.example/x.mcpb"}]"#, "fileSha256 must be"),
        (
            r#""packages": [{"registryType": "mcpb", "identifier": "http://a.example/x", "fileSha256": "fe333e598595000ae021bd27117db32ec69af6987f507ba7a63c90638ff633ce"}]"#,
            "begins with https://",
        ),
        (r#""remotes": [{"type": "stdio", "url": "https://a.example"}]"#, "remotes[0].url is not for stdio"),
        (r#""remotes": [{"type": "sse"}]"#, "remotes[0].url must be a text"),
        (r#""remotes": [{"url": "https://a.example"}]"#, "remotes[0].type must be"),
        (
            r#""remotes": [{"type": "sse", "url": "https://a.example", "headers": [{"name": "A", "value": "hunter2"}]}]"#,
            "headers.A has its value written out",
        ),
    ] {
        let message = refused(entry(parts).as_bytes(), "server.json");
        has(&message, &[wanted]);
        assert!(!message.contains("hunter2"), "{message}");
    }
    let text = entry(
        r#""remotes": [{"type": "sse", "url": "https://a.example", "headers": [{"name": "A", "value": "hunter2"}]}]"#,
    );
    let imported = import(text.as_bytes(), "server.json", REPLACE);
    has(&servers(&imported), &["A: \"${ENV:A}\""]);
}
