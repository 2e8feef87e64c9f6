//! Bundles that are odd and well: they are installed, with a warning where somebody should know.

use kitbag_testkit::{Answer, TestDatabase, on_both};
use reqwest::{Method, header};
use serde_json::{Value, json};

use crate::kit::{Picture, TOOLSETS, assert_files_agree, bundle, import, manifest, manifest_of, tool, with_manifest};
use crate::serve;

const MODULE: (&str, &str) = ("tools/t.py", "def f(workspace): pass\n");

fn signed(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.extend(b"MCPB_SIG_V1");
    bytes.extend(4_u32.to_le_bytes());
    bytes.extend(b"\x30\x02\x05\x00MCPB_SIG_END");
    bytes
}

on_both! {
    async fn odd_bundles(database: TestDatabase) {
        let server = serve(&database);
        let text = manifest("app", "1.0.0", "tools: [{id: x, entrypoint: 't:f'}]\n");
        let marked = format!("\u{feff}{text}");
        let windows = text.replace('\n', "\r\n");
        let below = |folder: &str, name: &str| bundle(&[(&format!("{folder}/{name}"), &text), (&format!("{folder}/tools/t.py"), MODULE.1)]);
        let disagree = manifest("app", "1.0.0", "tools: [{id: x, entrypoint: 't:f', renderer: {type: code, file: a}}]\ntool_overrides: [{tool_id: x, renderer: frame}]\n");
        let later = manifest("app", "1.0.0", "tool_overrides: [{tool_id: later, enabled: false}, {tool_id: 'nobody:x', enabled: false}]\n");
        let skill = |text: &str| bundle(&[("toolset.yaml", &manifest("app", "1.0.0", "")), ("skills/guide/SKILL.md", text)]);
        let cases: Vec<(&str, Vec<u8>, &str)> = vec![
            ("plain", with_manifest(&text), ""),
            ("a byte order mark", with_manifest(&marked), ""),
            ("lines of Windows", with_manifest(&windows), ""),
            ("the other spelling", bundle(&[("toolset.yml", &text), MODULE]), ""),
            ("one folder", below("app-1.0.0", "toolset.yaml"), ""),
            ("one folder, the other spelling", below("x", "toolset.yml"), ""),
            ("litter", bundle(&[("toolset.yaml", &text), MODULE, ("__MACOSX/._x", "x"), ("a/.DS_Store", "x")]), "left out"),
            ("one folder and litter", bundle(&[("x/toolset.yaml", &text), ("x/tools/t.py", MODULE.1), ("__MACOSX/x/._t", "x")]), "left out"),
            ("signed", signed(with_manifest(&text)), "not verified"),
            ("two renderers", with_manifest(&disagree), "the override counts"),
            ("overrides of nothing", with_manifest(&later), "does not have"),
            ("a format that is a number", with_manifest(&format!("manifest_version: 1\n{text}")), ""),
            ("a skill that cannot be read", skill("no front matter"), "left out"),
            ("a skill of another name", skill("---\nname: other\ndescription: x\n---\n"), "guide"),
            ("a skill that wants more", skill("---\nname: guide\ndescription: x\nallowed-tools: Bash(*)\n---\n"), "grants nothing"),
            ("a skill with fields of its own", skill("---\nname: guide\ndescription: x\nversion: 2\n---\n"), "version"),
            ("a manifest that nobody means", bundle(&[("toolset.yaml", &text), MODULE, ("examples/toolset.yaml", "id: other")]), ""),
        ];
        for (what, bytes, word) in cases {
            let answer = import(&server, "", &bytes).await;
            assert!(answer.status.is_success(), "{what}: {answer:?}");
            let warnings = answer.body["warnings"].to_string();
            assert!(warnings.contains(word) && (!word.is_empty() || warnings == "[]"), "{what}: {warnings}");
            assert_files_agree(&server, &database, "app").await;
            assert!(database.files_of_toolset("local", "app").await.contains_key("toolset.yaml"), "{what}");
            let out = crate::kit::export(&server, "app").await;
            assert!(manifest_of(&out).contains("id: app"), "{what}");
        }
        import(&server, "", &with_manifest(&disagree)).await.expect(200);
        assert_eq!(tool(&server, "app:x").await["renderer"], "frame");
        let files = database.files_of_toolset("local", "app").await;
        assert!(files.keys().all(|path| !path.starts_with("skills/")), "files of the version before are gone: {files:?}");
    }
}

#[tokio::test]
async fn a_bundle_may_come_in_a_form() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    let zip = with_manifest(&manifest("app", "1.0.0", ""));
    let part = |name: &str, bytes: &[u8]| {
        let head = format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"my app.zip\"\r\n\r\n");
        [head.as_bytes(), bytes, b"\r\n"].concat()
    };
    let send = async |kind: &str, body: Vec<u8>| {
        let request = server.request(Method::POST, &format!("{TOOLSETS}/import"));
        Answer::of(request.header(header::CONTENT_TYPE, kind).body(body)).await
    };
    const FORM: &str = "multipart/form-data; boundary=b";
    let nothing = Picture::take(&server, &database).await;
    for (what, kind, body, status, code) in [
        ("no field", FORM, b"--b--\r\n".to_vec(), 400, "BAD_REQUEST"),
        ("another field", FORM, [part("bundle", &zip), b"--b--\r\n".to_vec()].concat(), 400, "BAD_REQUEST"),
        ("twice", FORM, [part("file", &zip), part("file", &zip), b"--b--\r\n".to_vec()].concat(), 400, "BAD_REQUEST"),
        ("no end", FORM, part("file", &zip), 400, "BAD_REQUEST"),
        ("no boundary", "multipart/form-data", zip.clone(), 400, "BAD_REQUEST"),
        ("no kind", "text/plain", zip.clone(), 415, "UNSUPPORTED_MEDIA_TYPE"),
        ("no JSON", "application/json", zip.clone(), 400, "BAD_REQUEST"),
        ("not a bundle", FORM, [part("file", b"x"), b"--b--\r\n".to_vec()].concat(), 400, "INVALID_BUNDLE"),
        ("too large", "application/zip", vec![0; (100 << 20) + 1], 413, "PAYLOAD_TOO_LARGE"),
    ] {
        let answer = send(kind, body).await;
        assert_eq!((answer.status.as_u16(), answer.body["code"].as_str()), (status, Some(code)), "{what}: {answer:?}");
        assert_eq!(Picture::take(&server, &database).await, nothing, "{what}");
    }
    for query in ["?what=1", "?dryRun=maybe", "?sourceType=url", "?sourceRef=a%0Ab"] {
        import(&server, query, &zip).await.expect_error(400, "BAD_REQUEST");
    }
    let report = send(FORM, [part("file", &zip), b"--b--\r\n".to_vec()].concat()).await.expect(201);
    assert_eq!(
        (&report["toolset"]["sourceType"], &report["toolset"]["sourceRef"]),
        (&json!("zip"), &json!("my app.zip"))
    );
    assert_eq!(report["toolset"]["publicSlug"], Value::Null);
}
