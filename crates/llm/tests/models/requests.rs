//! What providers are sent.

use kitbag_llm::{Ask, Effort, Message, Part, Provider, Thinking, ToolResult, ToolSpec, Wire};
use kitbag_testkit::model::{Anthropic, OpenAi};
use serde_json::{Value, json};

use crate::kit::{KEY, Kit, ask, call, hello, text};

fn picture() -> Part {
    Part::Image { mime: "image/png".to_owned(), base64: "iVBORw0=".to_owned() }
}

/// Everything that a conversation can have in it.
fn everything() -> Ask {
    let schema = json!({"type": "object", "properties": {"b": {}, "a": {}}});
    let tool = ToolSpec { name: "look".to_owned(), description: "Looks.".to_owned(), schema };
    let result = |id: &str, content, is_error| ToolResult { id: id.to_owned(), content, is_error };
    let elsewhere = Part::Thinking { text: "of somebody else".to_owned(), proof: Some(json!({"type": "x"})) };
    Ask {
        system: Some("Be kind.".to_owned()),
        tools: vec![tool],
        ..ask(vec![
            Message::User(vec![text("What is this?"), picture()]),
            Message::Assistant(vec![elsewhere, call("1", "look", json!({"a": 1})), call("2", "look", json!({}))]),
            Message::Results(vec![
                result("1", vec![text("seen"), picture()], false),
                result("2", vec![text("broken")], true),
            ]),
        ])
    }
}

async fn sent(wire: Wire, ask: &Ask) -> Value {
    let kit = Kit::new();
    kit.stand_in.messages(Anthropic::new().text(&["x"]).ends("end_turn"));
    kit.stand_in.completions(OpenAi::new().text(&["x"]).ends("stop"));
    kit.hear_all(wire, ask).await;
    kit.stand_in.asked()[0].body.clone()
}

#[tokio::test]
async fn to_anthropic() {
    let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0="}});
    let kept = json!({"type": "ephemeral"});
    assert_eq!(
        sent(Wire::Anthropic, &everything()).await,
        json!({
            "model": "m",
            "max_tokens": 100,
            "stream": true,
            "system": [{"type": "text", "text": "Be kind.", "cache_control": kept}],
            "tools": [{
                "name": "look", "description": "Looks.",
                "input_schema": {"type": "object", "properties": {"b": {}, "a": {}}},
            }],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "What is this?"}, image]},
                {"role": "assistant", "content": [
                    {"type": "tool_use", "id": "1", "name": "look", "input": {"a": 1}},
                    {"type": "tool_use", "id": "2", "name": "look", "input": {}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "seen"}, image]},
                    {
                        "type": "tool_result", "tool_use_id": "2", "content": [{"type": "text", "text": "broken"}],
                        "is_error": true, "cache_control": kept,
                    },
                ]},
            ],
        })
    );
}

#[tokio::test]
async fn to_openai_and_images_of_results_after_all_of_them() {
    let image = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0="}});
    let call = |id: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": "look", "arguments": arguments}});
    assert_eq!(
        sent(Wire::OpenAi, &everything()).await,
        json!({
            "model": "m",
            "max_tokens": 100,
            "stream": true,
            "stream_options": {"include_usage": true},
            "tools": [{"type": "function", "function": {
                "name": "look", "description": "Looks.",
                "parameters": {"type": "object", "properties": {"b": {}, "a": {}}},
            }}],
            "messages": [
                {"role": "system", "content": "Be kind."},
                {"role": "user", "content": [{"type": "text", "text": "What is this?"}, image]},
                {"role": "assistant", "content": null, "tool_calls": [call("1", "{\"a\":1}"), call("2", "{}")]},
                {"role": "tool", "tool_call_id": "1", "content": "seen\n(The images of this result follow.)"},
                {"role": "tool", "tool_call_id": "2", "content": "Error: broken"},
                {"role": "user", "content": [{"type": "text", "text": "Images of the result of 1:"}, image]},
            ],
        })
    );
}

#[tokio::test]
async fn how_much_to_think() {
    let thinking = |thinking| Ask { max_output_tokens: 4000, thinking: Some(thinking), ..hello() };
    let anthropic = async |how| sent(Wire::Anthropic, &thinking(how)).await;
    let openai = async |how| sent(Wire::OpenAi, &thinking(how)).await["reasoning_effort"].clone();
    let budget = |tokens: u32| json!({"type": "enabled", "budget_tokens": tokens});
    assert_eq!(anthropic(Thinking::Budget(2000)).await["thinking"], budget(2000));
    // It has to fit, and too little is refused.
    assert_eq!(anthropic(Thinking::Budget(9000)).await["thinking"], budget(3999));
    assert_eq!(anthropic(Thinking::Budget(1000)).await.get("thinking"), None);
    let adaptive = anthropic(Thinking::Effort(Effort::High)).await;
    assert_eq!(
        (&adaptive["thinking"], &adaptive["output_config"]),
        (&json!({"type": "adaptive"}), &json!({"effort": "high"}))
    );
    assert_eq!(openai(Thinking::Effort(Effort::Low)).await, "low");
    assert_eq!(openai(Thinking::Budget(4000)).await, "medium");
    assert_eq!(openai(Thinking::Budget(64_000)).await, "high");
}

#[tokio::test]
async fn empty_parts_and_messages_are_left_out() {
    let empty = ask(vec![
        Message::User(vec![text(""), text("Hello")]),
        Message::Assistant(vec![Part::Thinking { text: "Hm".to_owned(), proof: None }, text("")]),
        Message::User(vec![text("Well?")]),
    ]);
    let only = |content: &[Value]| content.iter().map(|m| m["role"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    let body = sent(Wire::Anthropic, &empty).await;
    assert_eq!(only(body["messages"].as_array().unwrap()), ["user", "user"]);
    assert_eq!(body["messages"][0]["content"], json!([{"type": "text", "text": "Hello"}]));
    let body = sent(Wire::OpenAi, &empty).await;
    assert_eq!(only(body["messages"].as_array().unwrap()), ["user", "user"]);
    assert_eq!(body["messages"][0]["content"], json!("Hello"));
}

#[tokio::test]
async fn the_key_where_it_belongs_and_none_where_there_is_none() {
    let kit = Kit::new();
    for wire in [Wire::Anthropic, Wire::OpenAi] {
        for key in [true, false] {
            kit.stand_in.messages(Anthropic::new().ends("end_turn"));
            kit.stand_in.completions(OpenAi::new().ends("stop"));
            let with = kit.provider(wire);
            let provider = if key { with } else { Provider { key: None, ..with } };
            let limits = kitbag_llm::AnswerLimits { time: std::time::Duration::from_secs(60), output_chars: 10 };
            kit.models.answer(&provider, &hello(), limits).await.unwrap();
        }
    }
    let asked = kit.stand_in.asked();
    let header = |at: usize, name: &str| asked[at].headers.get(name).map(String::as_str);
    assert_eq!((header(0, "x-api-key"), header(0, "anthropic-version")), (Some(KEY), Some("2023-06-01")));
    assert_eq!((header(1, "x-api-key"), header(1, "authorization")), (None, None));
    assert_eq!(header(2, "authorization"), Some(format!("Bearer {KEY}").as_str()));
    assert_eq!((header(3, "x-api-key"), header(3, "authorization")), (None, None));
    assert!((0..4).all(|at| header(at, "accept-encoding") == Some("identity")));
}
