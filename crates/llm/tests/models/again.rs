//! Providers that are not there now are asked again, as long as nothing was given out.

use std::time::Duration;

use kitbag_guard::dial::EgressPolicy;
use kitbag_llm::{Limits, LlmError, Models, Provider, Wire};
use kitbag_testkit::model::{Anthropic, OpenAi, Reply};
use serde_json::json;

use crate::kit::{Kit, hello, limits, words};

fn answers() -> (Reply, Reply) {
    (Anthropic::new().text(&["Hello"]).ends("end_turn"), OpenAi::new().text(&["Hello"]).ends("stop"))
}

#[tokio::test]
async fn whatever_passes_is_asked_again() {
    let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let passing = [429, 500, 502, 503, 504, 529].map(Reply::new).into_iter().chain([
        Reply::hang_up(),
        Reply::events().cut(),
        Reply::events(),
        // Nothing of these was given out.
        Anthropic::new().cut(),
        Anthropic::new().event(&overloaded).as_it_is(),
    ]);
    for reply in passing {
        for wire in [Wire::Anthropic, Wire::OpenAi] {
            let kit = Kit::new();
            let (messages, completions) = answers();
            kit.stand_in.messages(reply.clone());
            kit.stand_in.messages(messages);
            kit.stand_in.completions(reply.clone());
            kit.stand_in.completions(completions);
            assert_eq!(words(&kit.hear_all(wire, &hello()).await), "Hello", "{reply:?}");
            let asked = kit.stand_in.asked();
            assert_eq!(asked.len(), 2);
            assert_eq!(asked[0].body, asked[1].body);
        }
    }
}

#[tokio::test]
async fn only_so_often() {
    let kit = Kit::new();
    for _ in 0..4 {
        kit.stand_in.messages(Reply::json(503, &json!({"error": {"message": "Later"}})));
    }
    let message = "Later".to_owned();
    let expected = LlmError::Unavailable { status: Some(503), retry_after: None, message };
    assert_eq!(kit.fail(Wire::Anthropic).await, (Vec::new(), expected));
    assert_eq!((kit.stand_in.asked().len(), kit.stand_in.unused()), (3, 1));
}

#[tokio::test]
async fn not_sooner_than_the_provider_wants() {
    let kit = Kit::new();
    kit.stand_in.messages(Reply::new(429).header("retry-after", "1"));
    kit.stand_in.messages(answers().0);
    kit.hear_all(Wire::Anthropic, &hello()).await;
    let asked = kit.stand_in.asked();
    let between = asked[1].at.duration_since(asked[0].at);
    assert!(between >= Duration::from_secs(1), "{between:?}");
}

#[tokio::test]
async fn who_wants_to_be_left_alone_for_long_is() {
    let kit = Kit::new();
    kit.stand_in.messages(Reply::json(429, &json!({"error": {"message": "Slow"}})).header("retry-after", "3600"));
    let expected =
        LlmError::TooManyRequests { retry_after: Some(Duration::from_secs(3600)), message: "Slow".to_owned() };
    assert_eq!(kit.fail(Wire::Anthropic).await.1, expected);
    assert_eq!(kit.stand_in.asked().len(), 1);
}

#[tokio::test]
async fn nobody_waits_longer_than_there_is_time() {
    let kit = Kit::within(Limits { total: Duration::from_secs(4), ..limits() });
    kit.stand_in.messages(Reply::new(429).header("retry-after", "5"));
    assert!(matches!(kit.fail(Wire::Anthropic).await.1, LlmError::TooManyRequests { .. }));
    assert_eq!(kit.stand_in.asked().len(), 1);
}

#[tokio::test]
async fn nobody_there() {
    // A port that only the system's own servers may have, and that none has.
    let nowhere = "127.0.0.1:1";
    let policy = EgressPolicy { allow: vec![nowhere.parse().unwrap()], ..EgressPolicy::default() };
    let models = Models::new(policy, limits());
    let provider = Provider { wire: Wire::OpenAi, base_url: format!("http://{nowhere}").parse().unwrap(), key: None };
    let error = models.list(&provider).await.unwrap_err();
    assert!(matches!(error, LlmError::Unavailable { status: None, .. }), "{error:?}");
    assert!(error.to_string().contains("127.0.0.1"), "{error}");
}
