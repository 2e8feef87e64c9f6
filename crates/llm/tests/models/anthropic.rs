//! Anthropic's streams.

use kitbag_llm::{Ask, Heard, Message, Part, Stop, ToolResult, Usage, Wire};
use kitbag_testkit::model::{Anthropic, Reply};
use serde_json::json;

use crate::kit::{Kit, call, hello, parts, text, words};

#[tokio::test]
async fn words_as_they_come() {
    let kit = Kit::new();
    let usage = json!({"input_tokens": 7, "output_tokens": 9, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 3});
    kit.stand_in.messages(Anthropic::with_usage(&usage).text(&["Hel", "lo"]).ends("end_turn"));
    let usage = Usage { input_tokens: 7, output_tokens: 9, cache_read_tokens: 100, cache_write_tokens: 3 };
    assert_eq!(
        kit.hear_all(Wire::Anthropic, &hello()).await,
        [
            Heard::Text("Hel".to_owned()),
            Heard::Text("lo".to_owned()),
            Heard::Part(text("Hello")),
            Heard::Usage(usage),
            Heard::Done(Stop::End),
        ]
    );
}

#[tokio::test]
async fn several_calls_in_one_answer() {
    let kit = Kit::new();
    let answer = Anthropic::new()
        .text(&["Two."])
        .tool_call("toolu_1", "weather", &["", "{\"city\": \"Zür", "ich\"}"])
        .tool_call("toolu_2", "time", &[])
        .ends("tool_use");
    kit.stand_in.messages(answer);
    let heard = kit.hear_all(Wire::Anthropic, &hello()).await;
    let began = |index, id: &str, name: &str| Heard::ToolCallBegan { index, id: id.to_owned(), name: name.to_owned() };
    assert_eq!(
        heard,
        [
            Heard::Text("Two.".to_owned()),
            Heard::Part(text("Two.")),
            began(0, "toolu_1", "weather"),
            Heard::Part(call("toolu_1", "weather", json!({"city": "Zürich"}))),
            began(1, "toolu_2", "time"),
            Heard::Part(call("toolu_2", "time", json!({}))),
            Heard::Usage(Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() }),
            Heard::Done(Stop::ToolCalls),
        ]
    );
}

#[tokio::test]
async fn what_was_thought_goes_back_unchanged_even_when_it_was_stored() {
    let kit = Kit::new();
    let answer = Anthropic::new()
        .thinking(&["Hm", "m."], "c2lnbmF0dXJl==")
        .redacted("b3BhcXVl")
        .tool_call("toolu_1", "time", &["{}"])
        .ends("tool_use");
    kit.stand_in.messages(answer);
    let heard = kit.hear_all(Wire::Anthropic, &hello()).await;
    assert_eq!(heard[..2], [Heard::Thinking("Hm".to_owned()), Heard::Thinking("m.".to_owned())]);
    let said = Message::Assistant(parts(&heard));
    let stored = serde_json::to_string(&said).unwrap();
    let said: Message = serde_json::from_str(&stored).unwrap();

    kit.stand_in.messages(Anthropic::new().text(&["Noon."]).ends("end_turn"));
    let result = ToolResult { id: "toolu_1".to_owned(), content: vec![text("12:00")], is_error: false };
    let again = Ask { messages: vec![hello().messages.remove(0), said, Message::Results(vec![result])], ..hello() };
    assert_eq!(words(&kit.hear_all(Wire::Anthropic, &again).await), "Noon.");
    assert_eq!(
        kit.stand_in.asked()[1].body["messages"],
        json!([
            {"role": "user", "content": [{"type": "text", "text": "Hello"}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "Hmm.", "signature": "c2lnbmF0dXJl=="},
                {"type": "redacted_thinking", "data": "b3BhcXVl"},
                {"type": "tool_use", "id": "toolu_1", "name": "time", "input": {}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "12:00"}]},
            ]},
        ])
    );
    // One turn, one connection.
    assert_eq!(kit.stand_in.asked()[1].connection, 0);
}

#[tokio::test]
async fn arguments_that_cannot_be_read_are_a_part_that_the_model_can_be_told_of() {
    let kit = Kit::new();
    kit.stand_in.messages(Anthropic::new().tool_call("toolu_1", "t", &["{\"a\": "]).ends("max_tokens"));
    let heard = kit.hear_all(Wire::Anthropic, &hello()).await;
    assert_eq!(heard.last(), Some(&Heard::Done(Stop::Length)));
    let [Part::BadToolCall { id, name, raw, .. }] = &parts(&heard)[..] else { panic!("{heard:?}") };
    assert_eq!((id.as_str(), name.as_str(), raw.as_str()), ("toolu_1", "t", "{\"a\": "));

    kit.stand_in.messages(Anthropic::new().text(&["Sorry."]).ends("end_turn"));
    let again = Ask { messages: vec![Message::Assistant(parts(&heard))], ..hello() };
    kit.hear_all(Wire::Anthropic, &again).await;
    let sent = &kit.stand_in.asked()[1].body["messages"][0]["content"][0]["input"];
    assert_eq!(*sent, json!({"unreadable_arguments": "{\"a\": "}));
}

/// Servers that speak this wire without being Anthropic write what they do not have.
#[tokio::test]
async fn null_is_nothing() {
    let kit = Kit::new();
    let answer = Reply::events()
        .event(&json!({"type": "message_start", "message": {"usage": null}}))
        .event(&json!({"type": "message_start", "message": null}))
        .event(&json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": null}}))
        .event(&json!({"type": "content_block_delta", "index": 0, "delta": null}))
        .event(&json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi."}}))
        .event(&json!({"type": "content_block_stop", "index": 0}))
        .event(&json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": null}))
        .event(&json!({"type": "message_delta", "delta": null}))
        .event(&json!({"type": "message_stop"}));
    kit.stand_in.messages(answer);
    let heard = kit.hear_all(Wire::Anthropic, &hello()).await;
    assert_eq!((parts(&heard), heard.last()), (vec![text("Hi.")], Some(&Heard::Done(Stop::End))));
}

#[tokio::test]
async fn why_it_stopped() {
    let kit = Kit::new();
    for (reason, stop) in [
        ("stop_sequence", Stop::End),
        ("max_tokens", Stop::Length),
        ("refusal", Stop::Refused),
        ("pause_turn", Stop::Other),
    ] {
        kit.stand_in.messages(Anthropic::new().text(&["x"]).ends(reason));
        assert_eq!(kit.hear_all(Wire::Anthropic, &hello()).await.last(), Some(&Heard::Done(stop)));
    }
}

#[tokio::test]
async fn any_cut_comments_and_what_is_not_known_yet() {
    let kit = Kit::new();
    let answer = Anthropic::new()
        .raw(": a comment\n\n")
        .event(&json!({"type": "something_new", "x": 1}))
        .text(&["é€😀 ", "Grüße"])
        .event(&json!({"type": "content_block_start", "index": 9, "content_block": {"type": "server_tool_use", "id": "x"}}))
        .event(&json!({"type": "content_block_delta", "index": 9, "delta": {"type": "new_delta"}}))
        .event(&json!({"type": "content_block_stop", "index": 9}))
        .ends("end_turn");
    for size in [1, 2, 3, 7, 1000] {
        kit.stand_in.messages(answer.clone().in_pieces_of(size));
        let heard = kit.hear_all(Wire::Anthropic, &hello()).await;
        assert_eq!(
            (words(&heard).as_str(), parts(&heard)),
            ("é€😀 Grüße", vec![text("é€😀 Grüße")]),
            "pieces of {size}"
        );
    }
}
