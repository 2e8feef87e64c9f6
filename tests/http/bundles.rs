//! Bundles that lie, break a rule, or want out: each is refused with its reason, and nothing has changed by then.

mod archives;
mod manifests;
mod odd;

use kitbag_testkit::{Server, TestDatabase, on_both};
use serde_json::Value;

use crate::kit::{Picture, bundle, import, manifest, override_path, put};
use crate::serve;

/// A bundle that must be refused: what it is, its bytes, the error's code, and words that its message must have.
pub(crate) struct Case(&'static str, Vec<u8>, &'static str, &'static str);

/// What is installed when the bundle comes, under the id that most of them use.
async fn installed(server: &Server) {
    let text = manifest("app", "1.0.0", "tools: [{id: kept, entrypoint: 't:f'}]\nmcp_servers: [{id: srv, command: x}]");
    let files =
        [("toolset.yaml", text.as_str()), ("tools/t.py", "def f(workspace): pass\n"), ("*run.sh", "#!/bin/sh\n")];
    import(server, "?trust=true", &bundle(&files)).await.expect(201);
    put(server, &override_path("app", "kept"), &serde_json::json!({ "nameOverride": "Mine" })).await.expect(200);
}

async fn all_refused(database: &TestDatabase, cases: Vec<Case>) {
    let server = serve(database);
    installed(&server).await;
    let before = Picture::take(&server, database).await;
    before.assert_tidy();
    for Case(what, bytes, code, words) in cases {
        let answer = import(&server, "?trust=true&force=true", &bytes).await;
        assert_eq!((answer.status.as_u16(), answer.body["code"].as_str()), (400, Some(code)), "{what}: {answer:?}");
        let message = answer.body["message"].as_str().unwrap();
        assert!(message.contains(words), "{what}: {words:?} is not in {message:?}");
        let problems = answer.body["details"]["problems"].as_array().unwrap();
        assert!(!problems.is_empty() && problems.iter().all(|one| one["message"].is_string()), "{what}: {answer:?}");
        assert!(!answer.body.to_string().contains("hunter2"), "{what} tells a secret: {answer:?}");
        assert_eq!(Picture::take(&server, database).await, before, "{what}");
    }
    assert!(!server.log().contains("hunter2"), "the log tells a secret");
    let outside = std::fs::read_dir(database.data().parent().unwrap()).unwrap();
    assert!(outside.map(|entry| entry.unwrap().file_name()).all(|name| name != "evil"), "something got out");
}

on_both! {
    async fn archives_that_lie(database: TestDatabase) {
        let cases = archives::cases();
        assert!(cases.len() >= 40, "{}", cases.len());
        all_refused(&database, cases).await;
    }

    async fn manifests_that_break_a_rule(database: TestDatabase) {
        let cases = manifests::cases();
        assert!(cases.len() >= 60, "{}", cases.len());
        all_refused(&database, cases).await;
    }
}

/// Everything that is wrong is told at once, each at its place.
#[tokio::test]
async fn all_problems_are_told_with_their_places() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    let text = "id: App
name: A
version: 1.0
tools:
  - id: a
    entrypoint: nowhere:f
    entry_point: x
  - id: A
    entrypoint: t:f
mcp_servers:
  - {id: srv, command: x, url: 'https://a.example'}
";
    let answer = import(&server, "", &crate::kit::with_manifest(text)).await;
    answer.expect_error(400, "INVALID_MANIFEST");
    let place = |problem: &Value| {
        assert_eq!((&problem["code"], &problem["file"]), (&"INVALID_MANIFEST".into(), &"toolset.yaml".into()));
        (problem["line"].as_u64().unwrap(), problem["column"].as_u64().unwrap())
    };
    let problems = answer.body["details"]["problems"].as_array().unwrap();
    let places: Vec<_> = problems.iter().map(place).collect();
    assert_eq!(places, [(1, 5), (3, 10), (7, 5), (8, 9), (11, 5)], "{problems:#?}");
    let excerpt = problems[2]["excerpt"].as_str().unwrap();
    assert!(excerpt.contains("entry_point: x") && excerpt.contains('^'), "{excerpt}");
    assert!(answer.body["message"].as_str().unwrap().contains("toolset.yaml:7:5: "), "{answer:?}");
    // Files that are not there are told together with what is wrong with the skills.
    let text = manifest(
        "app",
        "1.0.0",
        "tools:\n  - {id: a, entrypoint: 'no:f'}\n  - {id: b, entrypoint: 'nope:f'}\nskills: [{id: bad}]\n",
    );
    let answer = import(&server, "", &bundle(&[("toolset.yaml", &text), ("skills/bad/SKILL.md", "no front")])).await;
    answer.expect_error(400, "INVALID_MANIFEST");
    let codes: Vec<_> = answer.body["details"]["problems"].as_array().unwrap().iter().map(|one| &one["code"]).collect();
    assert_eq!(codes, ["INVALID_MANIFEST", "INVALID_MANIFEST", "INVALID_SKILL_BUNDLE"], "{answer:?}");
}
