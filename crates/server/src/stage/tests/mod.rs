//! The stage from outside: a real server, real connections to it, and real servers behind its frames.

mod browser;
mod frames;
pub(crate) mod kit;
mod pages;

use kitbag_model::RenderPlan;
use serde_json::{Value, json};

use self::kit::Theatre;
use super::{NotShown, Ports};

fn plan(renderer: &str, config: Value) -> RenderPlan {
    serde_json::from_value(json!({"renderer": renderer, "config": config})).expect("a plan")
}

#[tokio::test]
async fn plans_get_addresses() {
    let theatre = Theatre::open(|settings| {
        settings.frame_allow = vec!["https://example.org".parse().expect("an origin")];
    })
    .await;
    let port = theatre.address.port();
    let stage = theatre.app.stage();
    let present = |plan: &RenderPlan| stage.present(&theatre.org, theatre.chat, "call", plan);

    let code = plan("code", json!({"file": "a.py"}));
    assert_eq!(present(&code), json!({"renderer": "code", "config": {"file": "a.py"}}));

    let html = plan("html", json!({"content": "x", "data": {"a": 1}}));
    let shown = present(&html);
    let url = shown["config"]["url"].as_str().expect("an address").to_owned();
    let label = url.strip_prefix("http://").and_then(|url| url.strip_suffix(&format!(".localhost:{port}/")));
    assert!(label.is_some_and(|label| label.len() == 32), "{url}");
    assert_eq!((&shown["config"]["data"], stage.check(&html, Ports::OutOfReach)), (&json!({"a": 1}), Ok(())));
    assert_eq!(present(&html), shown, "the same call read again has the same address");

    for (config, path, source) in [
        (json!({"port": 3000}), "/", "http://localhost:3000/"),
        (json!({"url": "http://localhost:3000"}), "/", "http://localhost:3000/"),
        (json!({"url": "http://127.0.0.1:3000/a?b#c"}), "/a?b#c", "http://localhost:3000/a?b#c"),
        (json!({"url": "http://[::1]/x"}), "/x", "http://localhost:80/x"),
    ] {
        let frame = plan("frame", config);
        assert_eq!(stage.check(&frame, Ports::OfChat), Ok(()));
        assert!(matches!(stage.check(&frame, Ports::OutOfReach), Err(NotShown::OutOfReach(80 | 3000))), "{frame:?}");
        let shown = present(&frame);
        let url = shown["config"]["url"].as_str().expect("an address");
        assert!(url.ends_with(&format!(".localhost:{port}{path}")), "{url}");
        assert_eq!(shown["config"]["source"], source);
    }
    let allowed = plan("frame", json!({"url": "https://example.org/x"}));
    let shown = json!({"url": "https://example.org/x", "source": "https://example.org/x"});
    assert_eq!((&present(&allowed)["config"], stage.check(&allowed, Ports::OutOfReach)), (&shown, Ok(())));

    for (plan, problem) in [
        (plan("frame", json!({"url": "https://evil.example/x"})), NotShown::NotAllowed("https://evil.example".into())),
        (plan("frame", json!({"url": "https://localhost:1/"})), NotShown::NotAllowed("https://localhost:1".into())),
        (
            plan("frame", json!({"url": "http://localhost.evil.example/"})),
            NotShown::NotAllowed("http://localhost.evil.example".into()),
        ),
        (plan("frame", json!({"port": 0.5})), NotShown::NoTarget),
        (plan("html", json!({"artifact": "a.html"})), NotShown::NoPage),
    ] {
        assert_eq!(stage.check(&plan, Ports::OfChat), Err(problem.clone()));
        let config = &present(&plan)["config"];
        assert_eq!((&config["url"], &config["problem"]), (&Value::Null, &json!(problem.to_string())), "{config}");
    }
}

#[tokio::test]
async fn a_command_has_no_addresses() {
    let theatre = Theatre::closed().await;
    let shown = theatre.app.stage().present(&theatre.org, theatre.chat, "call", &plan("html", json!({"content": "x"})));
    assert_eq!(shown, json!({"renderer": "html", "config": {"content": "x"}}));
}
