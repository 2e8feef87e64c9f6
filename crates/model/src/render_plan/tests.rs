//! Every expression and every check, as tables; then whatever a configuration may hold.

use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::{prop_assert, prop_assert_eq, proptest};
use serde_json::json;

use super::*;
use crate::renderer::check;

fn chat() -> ChatId {
    "0192f0c1-7a3b-7c4d-8e5f-0123456789ab".parse().expect("a chat id")
}

fn plan_of(renderer: &str, config: Value, args: &Value, result: &Value) -> Result<RenderPlan, PlanError> {
    let rendering = check(Some(renderer), Some(&config)).expect("a good configuration").expect("there is one");
    let args = args.as_object().expect("arguments are an object");
    RenderPlan::new(
        &rendering,
        &Scene { args, result, chat: chat(), workspace: "/workspace", toolset: Some("/toolset") },
    )
}

fn args() -> Value {
    json!({"path": "a/b.py", "n": 3, "o": {"x": [1, 2], "file-name": "f", "0": "zero"}, "secret": "s3cret",
           "sly": "$args.secret and ${return.port} and $$", "up": "../../etc/passwd", "empty": "", "ü": "ö"})
}

fn result() -> Value {
    json!({"port": 3000, "ok": true, "none": null, "f": 1.5, "list": [{"url": "http://x"}, "b"], "text": "hi",
           "big": 18_446_744_073_709_551_615_u64})
}

/// What a text becomes where anything may stand.
fn filled(text: &str) -> Result<Value, PlanError> {
    let plan = plan_of("html", json!({"content": "", "data": text}), &args(), &result())?;
    Ok(plan.config["data"].clone())
}

#[test]
fn expressions() {
    for (text, value) in [
        // A whole value keeps its type.
        ("$args", args()),
        ("$return", result()),
        ("$args.path", json!("a/b.py")),
        ("$args.o.x", json!([1, 2])),
        ("$args.o.x.0", json!(1)),
        ("$return.port", json!(3000)),
        ("$return.ok", json!(true)),
        ("$return.none", json!(null)),
        ("$return.f", json!(1.5)),
        ("$return.big", json!(18_446_744_073_709_551_615_u64)),
        ("$return.list.0.url", json!("http://x")),
        ("$return.list.1", json!("b")),
        ("$args.o.0", json!("zero")),
        ("$args.o.file-name", json!("f")),
        ("$args.ü", json!("ö")),
        ("${args.path}", json!("a/b.py")),
        ("${args.o.x}", json!([1, 2])),
        ("$chat_id", json!(chat().to_string())),
        ("$workspace", json!("/workspace")),
        ("$toolset", json!("/toolset")),
        ("${workspace}", json!("/workspace")),
        // Within a text it is written out.
        ("http://localhost:$return.port/x", json!("http://localhost:3000/x")),
        ("flag=$return.ok", json!("flag=true")),
        ("flag=$return.none", json!("flag=null")),
        ("x=$args.o.x;", json!("x=[1,2];")),
        ("$return.list.0 ", json!("{\"url\":\"http://x\"} ")),
        ("$workspace/$args.path", json!("/workspace/a/b.py")),
        ("$toolset/artifacts/a.html", json!("/toolset/artifacts/a.html")),
        ("$args.path suffix", json!("a/b.py suffix")),
        ("$args.path$return.port", json!("a/b.py3000")),
        ("$args.path-$return.port", json!("a/b.py-3000")),
        ("See $args.path.", json!("See a/b.py.")),
        ("$args.path. Then", json!("a/b.py. Then")),
        ("$args.path..", json!("a/b.py..")),
        ("$args.path/.x", json!("a/b.py/.x")),
        ("${args.path}.txt", json!("a/b.py.txt")),
        ("x-${args.o.file-name}.txt", json!("x-f.txt")),
        ("$chat_id.foo", json!(format!("{}.foo", chat()))),
        ("$workspace.bak", json!("/workspace.bak")),
        ("[$args.empty]", json!("[]")),
        // What is no expression stays.
        ("", json!("")),
        ("plain", json!("plain")),
        ("$", json!("$")),
        ("$ $", json!("$ $")),
        ("$unknown", json!("$unknown")),
        ("$unknown.path", json!("$unknown.path")),
        ("price $5", json!("price $5")),
        ("$returnX", json!("$returnX")),
        ("$return_x", json!("$return_x")),
        ("$returné", json!("$returné")),
        ("$Return", json!("$Return")),
        ("$ args", json!("$ args")),
        ("${unknown}", json!("${unknown}")),
        ("${args.path", json!("${args.path")),
        ("${ args.path }", json!("${ args.path }")),
        ("${chat_id.x}", json!("${chat_id.x}")),
        ("${}", json!("${}")),
        // Two dollars are one.
        ("$$return", json!("$return")),
        ("$$", json!("$")),
        ("$$$return.port", json!("$3000")),
        ("$$$$", json!("$$")),
        ("$${args.path}", json!("${args.path}")),
        // A value is not read again.
        ("$args.sly", json!("$args.secret and ${return.port} and $$")),
        ("<$args.sly>", json!("<$args.secret and ${return.port} and $$>")),
        ("$$$args.sly", json!("$$args.secret and ${return.port} and $$")),
    ] {
        assert_eq!(filled(text), Ok(value), "{text}");
    }
}

#[test]
fn what_leads_to_nothing() {
    for (text, expression, reason) in [
        ("$args.missing", "$args.missing", "there is no argument \"missing\""),
        ("x $args.missing.deep", "$args.missing", "there is no argument \"missing\""),
        ("$args.o.x.2", "$args.o.x.2", "$args.o.x is a list without \"2\""),
        ("$args.o.x.00", "$args.o.x.00", "$args.o.x is a list without \"00\""),
        ("$args.o.x.key", "$args.o.x.key", "$args.o.x is a list without \"key\""),
        ("$return.a.b.0", "$return.a", "$return is an object without \"a\""),
        ("$args.path.txt", "$args.path.txt", "$args.path is a text; to end the expression there, write ${args.path}"),
        ("x-$args.path.txt", "$args.path.txt", "$args.path is a text; to end the expression there, write ${args.path}"),
        ("$return.none.x", "$return.none.x", "$return.none is null; to end the expression there, write ${return.none}"),
        ("${args.no such}", "$args.no such", "there is no argument \"no such\""),
        ("$return.file-name", "$return.file", "$return is an object without \"file\""),
    ] {
        let error = filled(text).expect_err(text);
        assert_eq!(
            error,
            PlanError::Unresolved { key: "data".into(), expression: expression.into(), reason: reason.into() },
            "{text}"
        );
    }
    let error = plan_of("code", json!({"content": "$return.code"}), &args(), &json!("a text")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "renderer_config.content: $return.code leads to nothing: $return is a text; to end the expression there, write ${return}"
    );
}

#[test]
fn every_depth_but_no_keys() {
    let config =
        json!({"artifact": "a.html", "data": {"$args.path": ["$return.port", {"x": "$args.n!"}, 1, true, null]}});
    let plan = plan_of("html", config, &args(), &result()).unwrap();
    assert_eq!(plan.config["data"], json!({"$args.path": [3000, {"x": "3!"}, 1, true, null]}));
}

#[test]
fn plans() {
    for (renderer, config, plan) in [
        (
            "code",
            json!({"file": "$args.path", "language": "auto", "editable": true}),
            json!({"file": "a/b.py", "language": "python", "editable": true}),
        ),
        ("code", json!({"file": "./x//$return.text/"}), json!({"file": "x/hi"})),
        ("code", json!({"file": "$workspace/x.rs", "language": "Auto"}), json!({"file": "x.rs", "language": "rust"})),
        ("code", json!({"content": "$return.text", "language": "auto"}), json!({"content": "hi", "language": "text"})),
        ("code", json!({"content": "$return.port"}), json!({"content": 3000})),
        ("code", json!({"content": null, "file": null}), json!({})),
        ("markdown", json!({"file": "/workspace/a.md"}), json!({"file": "a.md"})),
        ("document", json!({"content": "$return.text, $return.ok"}), json!({"content": "hi, true"})),
        (
            "html",
            json!({"artifact": "./artifacts/viz.html", "data": "$return"}),
            json!({"artifact": "artifacts/viz.html", "data": result()}),
        ),
        ("html", json!({"artifact": "$toolset/artifacts/x.html"}), json!({"artifact": "artifacts/x.html"})),
        ("html", json!({"artifact": "v/$return.text.html"}), json!("$return.text.html")),
        ("html", json!({"artifact": "v/${return.text}.html"}), json!({"artifact": "v/hi.html"})),
        ("frame", json!({"port": "$return.port"}), json!({"port": 3000})),
        ("frame", json!({"port": "8080"}), json!({"port": 8080})),
        ("frame", json!({"port": 65535}), json!({"port": 65535})),
        ("frame", json!({"url": "http://localhost:$return.port"}), json!({"url": "http://localhost:3000"})),
        ("editor", json!({"path": "$args.path", "editable": false}), json!({"path": "a/b.py", "editable": false})),
        ("terminal", json!({}), json!({})),
        ("default", json!(null), json!({})),
    ] {
        let made = plan_of(renderer, config.clone(), &args(), &result());
        if plan.is_object() {
            let made = made.unwrap_or_else(|error| panic!("{config}: {error}"));
            assert_eq!(Value::Object(made.config), plan, "{config}");
        } else {
            let Err(PlanError::Unresolved { expression, .. }) = made else { panic!("{config}: {made:?}") };
            assert_eq!(json!(expression), plan);
        }
    }
}

#[test]
fn refused() {
    let dots = "the path must not have an empty, \".\" or \"..\" part";
    let absolute = "the path must be relative to the workspace";
    for (renderer, config, message) in [
        (
            "code",
            json!({"file": "$args.up"}),
            format!(
                "renderer_config.file became \"../../etc/passwd\", which is not a path inside the workspace: {dots}"
            ),
        ),
        (
            "document",
            json!({"file": "x/$args.up"}),
            format!(
                "renderer_config.file became \"x/../../etc/passwd\", which is not a path inside the workspace: {dots}"
            ),
        ),
        (
            "editor",
            json!({"path": "$workspace/../x"}),
            format!(
                "renderer_config.path became \"/workspace/../x\", which is not a path inside the workspace: {dots}"
            ),
        ),
        (
            "code",
            json!({"file": "/etc/passwd"}),
            format!(
                "renderer_config.file became \"/etc/passwd\", which is not a path inside the workspace: {absolute}"
            ),
        ),
        (
            "code",
            json!({"file": "${workspace}2/x"}),
            format!(
                "renderer_config.file became \"/workspace2/x\", which is not a path inside the workspace: {absolute}"
            ),
        ),
        (
            "code",
            json!({"file": "$toolset/x"}),
            format!("renderer_config.file became \"/toolset/x\", which is not a path inside the workspace: {absolute}"),
        ),
        (
            "code",
            json!({"file": "$workspace"}),
            "renderer_config.file became \"/workspace\", which is not a path inside the workspace: the path is empty"
                .into(),
        ),
        (
            "code",
            json!({"file": "$args.empty"}),
            "renderer_config.file became \"\", which is not a path inside the workspace: the path is empty".into(),
        ),
        (
            "html",
            json!({"artifact": "$workspace/x.html"}),
            format!(
                "renderer_config.artifact became \"/workspace/x.html\", which is not a path inside the toolset: {absolute}"
            ),
        ),
        (
            "html",
            json!({"artifact": "$args.up"}),
            format!(
                "renderer_config.artifact became \"../../etc/passwd\", which is not a path inside the toolset: {dots}"
            ),
        ),
        ("code", json!({"file": "$return.port"}), "renderer_config.file must be a text, and it became a number".into()),
        (
            "code",
            json!({"file": "x/$return.none"}),
            "renderer_config.file: $return.none is null, and only a text, a number or a boolean can be a part of it"
                .into(),
        ),
        (
            "frame",
            json!({"url": "http://localhost/$args"}),
            "renderer_config.url: $args is an object, and only a text, a number or a boolean can be a part of it"
                .into(),
        ),
        (
            "code",
            json!({"language": "$return.list"}),
            "renderer_config.language must be a text, and it became a list".into(),
        ),
        ("frame", json!({"port": 0}), "renderer_config.port must be a number from 1 to 65535, and it became 0".into()),
        (
            "frame",
            json!({"port": 65536}),
            "renderer_config.port must be a number from 1 to 65535, and it became 65536".into(),
        ),
        (
            "frame",
            json!({"port": "+80"}),
            "renderer_config.port must be a number from 1 to 65535, and it became \"+80\"".into(),
        ),
        (
            "frame",
            json!({"port": "$return.f"}),
            "renderer_config.port must be a number from 1 to 65535, and it became 1.5".into(),
        ),
        (
            "frame",
            json!({"port": "$return.ok"}),
            "renderer_config.port must be a number from 1 to 65535, and it became a boolean".into(),
        ),
        (
            "frame",
            json!({"url": "javascript:alert(1)"}),
            "renderer_config.url became \"javascript:alert(1)\": only http and https can be shown in a frame".into(),
        ),
        (
            "frame",
            json!({"url": "file:///etc/passwd"}),
            "renderer_config.url became \"file:///etc/passwd\": only http and https can be shown in a frame".into(),
        ),
        (
            "frame",
            json!({"url": "/$return.text"}),
            "renderer_config.url became \"/hi\": relative URL without a base".into(),
        ),
        (
            "frame",
            json!({"url": "http://localhost:80@evil.example/"}),
            "renderer_config.url became \"http://localhost:80@evil.example/\": an address with a user name or a password is not shown".into(),
        ),
        ("frame", json!({}), "the renderer frame needs a url or a port".into()),
        ("html", json!({"data": "$return"}), "the renderer html needs an artifact or a content".into()),
        ("editor", json!({"editable": true}), "the renderer editor needs a path".into()),
    ] {
        let error = plan_of(renderer, config.clone(), &args(), &result()).expect_err(&config.to_string());
        assert_eq!(error.to_string(), message, "{config}");
    }
}

#[test]
fn a_tool_of_no_toolset() {
    let (args, result) = (args(), result());
    let scene = Scene {
        args: args.as_object().unwrap(),
        result: &result,
        chat: chat(),
        workspace: "/workspace",
        toolset: None,
    };
    let plan = |config| RenderPlan::new(&check(Some("html"), Some(&config)).unwrap().unwrap(), &scene);
    assert_eq!(plan(json!({"artifact": "x.html"})), Err(PlanError::NoToolset));
    let Err(PlanError::Unresolved { expression, .. }) = plan(json!({"content": "in $toolset"})) else { panic!() };
    assert_eq!(expression, "$toolset");
}

#[test]
fn too_large() {
    let most = MOST_PLAN_BYTES;
    let large = json!({"text": "x".repeat(most / 2), "quotes": "\"".repeat(most / 2 + 1)});
    for config in [
        json!({"content": "$return.text$return.text$return.text"}),
        json!({"content": "$return.text", "data": {"a": ["$return.text", "$return.text"]}}),
        json!({"content": "$return.quotes"}),
        json!({"content": "a $return.quotes, as JSON"}),
        json!({"content": "x".repeat(most)}),
        json!({"content": "", "data": "$args"}),
    ] {
        let made = plan_of("html", config, &large, &large);
        assert_eq!(made, Err(PlanError::TooLarge { most }));
    }
    assert!(plan_of("html", json!({"content": "$return.text"}), &args(), &large).is_ok());
}

#[test]
fn as_json() {
    let mut plan = plan_of("html", json!({"artifact": "./a.html", "data": "$args.n"}), &args(), &result()).unwrap();
    assert_eq!((plan.artifact(), plan.artifact_hash()), ("a.html".parse().ok(), None));
    plan.keep_artifact(ContentHash::of(b"x"));
    assert_eq!(plan.artifact_hash(), Some(ContentHash::of(b"x")));
    let json = json!({"renderer": "html", "config": {"artifact": "a.html", "data": 3, "sha256": ContentHash::of(b"x").to_string()}});
    assert_eq!(serde_json::to_value(&plan).unwrap(), json);
    assert_eq!(serde_json::from_value::<RenderPlan>(json).unwrap(), plan);
    assert!(serde_json::from_value::<RenderPlan>(json!({"renderer": "nope", "config": {}})).is_err());
}

/// Texts that are mostly dollars, words and dots.
fn config_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("$".to_owned()),
        Just(".".to_owned()),
        Just("{".to_owned()),
        Just("}".to_owned()),
        Just("args".to_owned()),
        Just("return".to_owned()),
        Just("path".to_owned()),
        Just("o.x.0".to_owned()),
        Just("workspace/".to_owned()),
        "[a-z0-9_é -]{0,3}",
    ];
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn nothing_panics(texts in [config_text(), config_text(), config_text(), config_text()], value in any::<String>()) {
        let args = json!({"path": value, "o": {"x": [value]}});
        for (renderer, keys) in [("code", ["file", "content", "language"]), ("html", ["artifact", "content", "data"])] {
            let config: Map<String, Value> =
                keys.iter().zip(&texts).map(|(key, text)| ((*key).to_owned(), json!(text))).collect();
            let config = Value::Object(config);
            let Ok(Some(rendering)) = check(Some(renderer), Some(&config)) else { continue };
            let scene = Scene { args: args.as_object().unwrap(), result: &args, chat: chat(), workspace: "/w", toolset: Some("/t") };
            if let Ok(plan) = RenderPlan::new(&rendering, &scene) {
                for key in ["file", "artifact"] {
                    if let Some(path) = plan.text(key) {
                        prop_assert!(path.parse::<WorkPath>().is_ok());
                    }
                }
            }
        }
    }

    #[test]
    fn a_value_is_never_read_again(before in "[a-z ]{0,4}", value in config_text(), after in "[/: ][a-z ]{0,4}") {
        let args = json!({"path": value, "secret": "s3cret"});
        let plan = plan_of("code", json!({"content": format!("{before}$args.path{after}")}), &args, &args).unwrap();
        prop_assert_eq!(plan.text("content").unwrap(), format!("{before}{value}{after}"));
        let plan = plan_of("code", json!({"content": "$args.path"}), &args, &args).unwrap();
        prop_assert_eq!(plan.text("content").unwrap(), value);
    }

    #[test]
    fn doubling_the_dollars_keeps_any_text(text in config_text()) {
        let plan = plan_of("code", json!({"content": text.replace('$', "$$")}), &args(), &result()).unwrap();
        prop_assert_eq!(plan.text("content").unwrap(), text);
    }
}
