//! The list of a provider's models.

use kitbag_llm::{LlmError, Wire};
use kitbag_testkit::model::Reply;
use serde_json::json;

use crate::kit::{KEY, Kit};

#[tokio::test]
async fn names_in_their_order() {
    let kit = Kit::new();
    for wire in [Wire::Anthropic, Wire::OpenAi] {
        let list = json!({"data": [{"id": "b", "type": "model"}, {"id": "a", "object": "model"}], "has_more": false});
        kit.stand_in.models(Reply::new(503));
        kit.stand_in.models(Reply::json(200, &list));
        assert_eq!(kit.models.list(&kit.provider(wire)).await.unwrap(), ["b", "a"]);
    }
    let asked = kit.stand_in.asked();
    assert_eq!(asked.len(), 4);
    assert!(asked.iter().all(|asked| asked.method == "GET"));
    assert_eq!((asked[1].query.as_str(), asked[3].query.as_str()), ("limit=1000", ""));
    assert_eq!(asked[1].headers["x-api-key"], KEY);
    assert_eq!(asked[3].headers["authorization"], format!("Bearer {KEY}"));
}

#[tokio::test]
async fn no_list() {
    let kit = Kit::new();
    for reply in [Reply::json(200, &json!({"models": 7})), Reply::new(200).then("<html>")] {
        kit.stand_in.models(reply);
        let error = kit.models.list(&kit.provider(Wire::OpenAi)).await.unwrap_err();
        assert!(matches!(error, LlmError::Malformed(_)), "{error:?}");
    }
    kit.stand_in.models(Reply::json(401, &json!({"error": {"message": "No"}})));
    let error = kit.models.list(&kit.provider(Wire::OpenAi)).await.unwrap_err();
    assert_eq!(error, LlmError::KeyRefused { message: "No".to_owned() });
}
