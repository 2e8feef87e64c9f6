//! What leaves: placeholders as they were written, no value in their place, and nothing that looks like a secret.

use kitbag_model::OrgId;
use kitbag_testkit::database::add_token;
use kitbag_testkit::{Answer, on_both};
use reqwest::Method;
use serde_json::json;

use crate::kit::{TOOLSETS, bundle, export, import, manifest, manifest_of, unpacked, with_manifest};
use crate::serve;

const SECRET: &str = "hunter2-and-more";

fn with_server(fields: &str) -> Vec<u8> {
    with_manifest(&manifest("app", "1.0.0", &format!("mcp_servers: [{{id: srv, {fields}}}]\n")))
}

/// Whether some bytes are anywhere in an archive, packed or unpacked, the manifest that came with it included.
fn has(bytes: &[u8], text: &str) -> bool {
    let inside = |bytes: &[u8]| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    inside(bytes) || unpacked(bytes).values().any(|(_, content)| inside(content))
}

on_both! {
    async fn values_become_placeholders_and_placeholders_stay(database: TestDatabase) {
        let server = serve(&database);
        let text = manifest("app", "1.0.0", &format!("mcp_servers:
  - id: local
    command: nopx
    args: ['--dir=${{DATA}}', '$${{KEPT}}', '${{ENV:ARG}}', plain]
    cwd: ${{HOME}}/x
    env:
      LITERAL: {SECRET}
      ODD.NAME: {SECRET}
      EMPTY: ''
      PLAIN: ${{MY_VAR}}
      LONG: ${{ENV:X}}
      MIXED: Bearer ${{MY_VAR}}
      ESCAPED: $${{{SECRET}}}
      NUMBER: '12'
  - id: remote
    url: https://a.example/${{ENV:PATH_PART}}?key=${{KEY}}
    headers:
      Authorization: Bearer {SECRET}
      X-Api-Key: {SECRET}
      X-Kept: ${{ENV:KEPT}}
"));
        import(&server, "", &bundle(&[("toolset.yaml", &text)])).await.expect(201);
        let out = export(&server, "app").await;
        assert!(!has(&out, SECRET), "{}", manifest_of(&out));
        let made = manifest_of(&out);
        let elsewhere = |field: &str| made.lines().find(|line| line.trim_start().starts_with(&format!("{field}:")))
            .unwrap_or_else(|| panic!("{field} is not in\n{made}")).split_once(": ").unwrap().1.trim_matches(['"', '\'']).to_owned();
        for (field, value) in [("LITERAL", "${LITERAL}"), ("ODD.NAME", "${ODD_NAME}"), ("PLAIN", "${MY_VAR}"), ("LONG", "${ENV:X}"),
            ("MIXED", "Bearer ${MY_VAR}"), ("ESCAPED", "${ESCAPED}"), ("NUMBER", "${NUMBER}"), ("cwd", "${HOME}/x"),
            ("Authorization", "${Authorization}"), ("X-Api-Key", "${X_API_KEY}"), ("X-Kept", "${ENV:KEPT}"), ("url", "https://a.example/${ENV:PATH_PART}?key=${KEY}")] {
            assert_eq!(elsewhere(field), value, "{field}");
        }
        for kept in ["--dir=${DATA}", "$${KEPT}", "${ENV:ARG}"] {
            assert!(made.contains(kept), "{kept} is not in\n{made}");
        }
        assert!(std::fs::read_to_string(database.folder_of_toolset("local", "app").await.join("toolset.yaml")).unwrap().contains(SECRET), "here it stays");
        import(&server, "", &out).await.expect(200);
        assert_eq!(export(&server, "app").await, out);
        for path in ["toolsets", "toolsets/app", "mcp-servers", "mcp-servers/app~local"] {
            let shown = server.get(&format!("/v1/orgs/local/{path}")).await.expect(200);
            assert!(!shown.to_string().contains(SECRET), "{path} tells a value");
        }
        assert!(!server.log().contains(SECRET));
    }

    async fn what_looks_like_a_secret_stays_unless_forced(database: TestDatabase) {
        let server = serve(&database);
        for (fields, part) in [
            ("command: x, args: [--api-key, hunter2]", "argument 2"),
            ("command: x, args: [--token=hunter2]", "argument 1"),
            ("command: x, args: [a, sk-ant-api03-abcdefghijklmnop]", "argument 2"),
            ("command: x, args: ['Authorization: Bearer hunter2']", "argument 1"),
            ("command: x, args: ['--token=hunter2${TAIL}']", "argument 1"),
            ("command: x, args: ['${HEAD}sk-ant-api03-abcdefghijklmnop']", "argument 1"),
            ("command: x, args: [--password, 'hunter2${TAIL}']", "argument 2"),
            ("command: x, args: ['postgresql://app:hunter2@db.example/x']", "argument 1"),
            ("command: x, cwd: /tmp/ghp_0123456789abcdef", "cwd"),
            ("url: 'https://a.example/ghp_0123456789abcdef/mcp'", "URL"),
            ("url: 'https://a.example/ghp_0123456789abcdef/${X}'", "URL"),
        ] {
            import(&server, "", &with_server(fields)).await;
            let answer = server.get(&format!("{TOOLSETS}/app/export")).await;
            answer.expect_error(409, "CONFLICT");
            let message = answer.body["message"].as_str().unwrap();
            assert!(message.contains(part) && message.contains("srv"), "{fields}: {message}");
            assert!(["hunter2", "sk-ant", "ghp_"].iter().all(|secret| !message.contains(secret)), "{message}");
            let forced = server.request(Method::GET, &format!("{TOOLSETS}/app/export?force=true")).send().await.unwrap();
            assert_eq!(forced.status(), 200, "{fields}");
            let bytes = forced.bytes().await.unwrap();
            assert!(["hunter2", "sk-ant", "ghp_"].iter().any(|secret| has(&bytes, secret)), "{fields}: it was forced");
        }
        // In an environment or a header the whole value becomes a placeholder, and nobody is asked.
        for fields in ["command: x, env: {KEY: 'sk-ant-api03-abcdefghijklmnop${TAIL}'}", "command: x, env: {KEY: 'postgres://u:hunter2@${HOST}/x'}",
            "url: 'https://a.example', headers: {X-Key: 'Bearer hunter2${TAIL}'}"] {
            import(&server, "", &with_server(fields)).await;
            let out = export(&server, "app").await;
            assert!(["hunter2", "sk-ant"].iter().all(|secret| !has(&out, secret)), "{fields}");
            assert!(manifest_of(&out).contains("KEY}"), "{fields}");
        }
        let token = add_token(&database.open().await, &OrgId::local(), "use").await;
        import(&server, "", &with_server("command: x, args: [--api-key, hunter2]")).await;
        let ask = |path: &str| server.anonymous(Method::GET, path).bearer_auth(&token);
        Answer::of(ask(&format!("{TOOLSETS}/app/export?force=true"))).await.expect_error(403, "FORBIDDEN");
        for path in ["/v1/orgs/local/mcp-servers", "/v1/orgs/local/mcp-servers/app~srv", &format!("{TOOLSETS}/app")] {
            let shown = Answer::of(ask(path)).await.expect(200).to_string();
            assert!(!shown.contains("hunter2") && shown.contains("***"), "{path} tells a secret to somebody who only uses: {shown}");
        }
        for fields in ["command: x, args: [--api-key, '${KEY}']", "command: x, args: ['--token=${T}', -y, '@scope/pkg@1.2.3']",
            "url: 'https://a.example', headers: {Authorization: 'Bearer ${T}', X: 'token=${T}'}"] {
            import(&server, "", &with_server(fields)).await;
            export(&server, "app").await;
        }
        Answer::of(server.request(Method::GET, &format!("{TOOLSETS}/app/export?force=perhaps"))).await.expect_error(400, "BAD_REQUEST");
        Answer::of(server.request(Method::GET, &format!("{TOOLSETS}/nobody/export"))).await.expect_error(404, "TOOLSET_NOT_FOUND");
    }

    /// Somebody changed a file behind Kitbag's back: that is not what people agreed to, and it does not leave.
    async fn a_changed_file_does_not_leave(database: TestDatabase) {
        let server = serve(&database);
        import(&server, "", &with_manifest(&manifest("app", "1.0.0", ""))).await.expect(201);
        let file = database.folder_of_toolset("local", "app").await.join("tools/t.py");
        let good = std::fs::read(&file).unwrap();
        for change in [b"def f(workspace): evil\n".to_vec(), Vec::new(), [good.clone(), b"x".to_vec()].concat()] {
            std::fs::write(&file, change).unwrap();
            server.get(&format!("{TOOLSETS}/app/export")).await.expect_error(500, "BLOB_CORRUPT");
        }
        std::fs::remove_file(&file).unwrap();
        let answer = server.get(&format!("{TOOLSETS}/app/export")).await;
        answer.expect_error(500, "BLOB_CORRUPT");
        assert!(answer.body["message"].as_str().unwrap().contains("tools/t.py"));
        assert_eq!(std::fs::read_dir(database.data().join("inbox")).unwrap().count(), 0);
        import(&server, "", &with_manifest(&manifest("app", "1.0.0", ""))).await.expect(200);
        let file = database.folder_of_toolset("local", "app").await.join("tools/t.py");
        assert_eq!(std::fs::read(&file).unwrap(), good, "importing again mends it");
        export(&server, "app").await;
    }
}

/// Reading rows and files is not one act; a new version may come between.
#[tokio::test(flavor = "multi_thread")]
async fn an_export_beside_imports_is_one_version_or_the_other() {
    let database = kitbag_testkit::TestDatabase::sqlite();
    let server = serve(&database);
    let version = |version: &str| {
        let files: Vec<(String, String)> =
            (0..200).map(|number| (format!("data/{number}"), format!("{version} {number}"))).collect();
        let text = manifest("app", version, "");
        let mut all = vec![("toolset.yaml", text.as_str())];
        all.extend(files.iter().map(|(path, content)| (path.as_str(), content.as_str())));
        bundle(&all)
    };
    let versions = ["1.0.0", "1.0.1"].map(version);
    let mut exported = Vec::new();
    for bytes in &versions {
        import(&server, "", bytes).await;
        exported.push(export(&server, "app").await);
    }
    let imports = async {
        for round in 0..20 {
            let done = import(&server, "?force=true", &versions[round % 2]).await;
            assert_eq!(done.status, 200, "{done:?}");
        }
    };
    let exports = async {
        for _ in 0..40 {
            let out = export(&server, "app").await;
            assert!(exported.contains(&out), "a mixture was exported: {}", manifest_of(&out));
        }
    };
    tokio::join!(imports, exports);
    assert_eq!(server.get(&format!("{TOOLSETS}/app")).await.expect(200)["enabled"], json!(true));
}
