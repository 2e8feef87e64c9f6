//! Providers that say no: told apart, not asked again, and never with the key in their words.

use kitbag_guard::dial::EgressPolicy;
use kitbag_llm::{LlmError, Wire};
use kitbag_testkit::model::{Anthropic, Reply};
use serde_json::json;

use crate::kit::{KEY, Kit};

#[tokio::test]
async fn each_no_is_told_apart_and_without_the_key() {
    let kit = Kit::new();
    let words = format!("no to {KEY}\nat all");
    let message = "no to … at all".to_owned();
    let said = json!({"error": {"message": words}});
    for (status, expected) in [
        (400, LlmError::BadRequest { status: 400, message: message.clone() }),
        (401, LlmError::KeyRefused { message: message.clone() }),
        (403, LlmError::KeyRefused { message: message.clone() }),
        (404, LlmError::ModelUnknown { message: message.clone() }),
        (413, LlmError::BadRequest { status: 413, message: message.clone() }),
        (501, LlmError::Unavailable { status: Some(501), retry_after: None, message: message.clone() }),
    ] {
        for reply in [Reply::json(status, &said), Reply::new(status).then(&words)] {
            kit.stand_in.messages(reply.clone());
            kit.stand_in.completions(reply);
            for wire in [Wire::Anthropic, Wire::OpenAi] {
                assert_eq!(kit.fail(wire).await, (Vec::new(), expected.clone()));
            }
        }
    }
    // In the middle of a stream, and behind a yes.
    kit.stand_in.messages(
        Anthropic::new()
            .event(&json!({"type": "error", "error": {"type": "invalid_request_error", "message": words}}))
            .as_it_is(),
    );
    assert_eq!(kit.fail(Wire::Anthropic).await.1, LlmError::BadRequest { status: 400, message: message.clone() });
    kit.stand_in.completions(Reply::json(200, &json!({"error": {"code": 401, "message": words}})));
    assert_eq!(kit.fail(Wire::OpenAi).await.1, LlmError::KeyRefused { message });
    assert_eq!((kit.stand_in.asked().len(), kit.stand_in.unused()), (26, 0));
}

#[tokio::test]
async fn a_no_without_a_word_or_with_far_too_many() {
    let kit = Kit::new();
    kit.stand_in.messages(Reply::new(400));
    kit.stand_in.messages(Reply::new(400).then("x".repeat(100_000)));
    kit.stand_in.messages(Reply::new(400).then("x".repeat(10_000)));
    let without = LlmError::BadRequest { status: 400, message: "it answered 400 without a word".to_owned() };
    assert_eq!(kit.fail(Wire::Anthropic).await.1, without);
    assert_eq!(kit.fail(Wire::Anthropic).await.1, without);
    assert!(kit.fail(Wire::Anthropic).await.1.to_string().len() < 700);
}

#[tokio::test]
async fn the_rules_for_egress_hold_for_models_too() {
    let kit = Kit::new();
    let nobody = kit.models.under(EgressPolicy::default());
    let error = nobody.list(&kit.provider(Wire::OpenAi)).await.unwrap_err();
    assert!(matches!(error, LlmError::NotAllowed(_)), "{error:?}");
    // A client that was made for one policy is not for another.
    kit.stand_in.models(Reply::json(200, &json!({"data": []})));
    kit.models.list(&kit.provider(Wire::OpenAi)).await.unwrap();
    nobody.list(&kit.provider(Wire::OpenAi)).await.unwrap_err();
    assert_eq!(kit.stand_in.asked().len(), 1);
}
