//! OpenAI's streams, and those of servers that nearly speak them.

use kitbag_llm::{Ask, Heard, Message, Part, Stop, ToolResult, Usage, Wire};
use kitbag_testkit::model::{OpenAi, Reply};
use serde_json::json;

use crate::kit::{Kit, call, hello, parts, text, words};

/// Many servers write what they do not have.
#[tokio::test]
async fn null_is_nothing() {
    let kit = Kit::new();
    let call = json!({"index": 0, "id": "1", "function": {"name": "t", "arguments": "{}"}});
    kit.stand_in.completions(
        OpenAi::new()
            .event(&json!({"choices": null, "usage": null, "error": null}))
            .event(&json!({"choices": [{"index": 0, "delta": null, "finish_reason": null}]}))
            .text(&["Hi."])
            .delta(&json!({"content": null, "tool_calls": null}))
            .delta(&json!({"tool_calls": [call, {"index": 0, "function": null}]}))
            .event(&json!({"choices": [], "usage": {"prompt_tokens": null, "completion_tokens": 3, "prompt_tokens_details": null}}))
            .stops("tool_calls")
            .as_it_is(),
    );
    let heard = kit.hear_all(Wire::OpenAi, &hello()).await;
    assert_eq!(parts(&heard), [text("Hi."), crate::kit::call("1", "t", json!({}))]);
    assert!(heard.contains(&Heard::Usage(Usage { output_tokens: 3, ..Usage::default() })), "{heard:?}");
}

#[tokio::test]
async fn words_as_they_come_and_what_they_cost_after_them() {
    let kit = Kit::new();
    let usage = json!({"prompt_tokens": 30, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 20}});
    kit.stand_in.completions(OpenAi::with_usage(&usage).text(&["Hel", "lo"]).ends("stop"));
    let usage = Usage { input_tokens: 10, output_tokens: 9, cache_read_tokens: 20, cache_write_tokens: 0 };
    assert_eq!(
        kit.hear_all(Wire::OpenAi, &hello()).await,
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
async fn calls_whose_arguments_come_in_turns() {
    let kit = Kit::new();
    let more = |index: u64, bit: &str| json!({"tool_calls": [{"index": index, "function": {"arguments": bit}}]});
    let answer = OpenAi::new()
        .text(&["Two."])
        .tool_call("call_a", "weather", &["{\"city\""])
        .tool_call("call_b", "time", &["{\"at"])
        .delta(&more(0, ": \"Zürich\"}"))
        .delta(&more(1, "\": 1}"))
        .ends("tool_calls");
    kit.stand_in.completions(answer.in_pieces_of(5));
    let heard = kit.hear_all(Wire::OpenAi, &hello()).await;
    let began = |index, id: &str, name: &str| Heard::ToolCallBegan { index, id: id.to_owned(), name: name.to_owned() };
    assert_eq!(
        heard,
        [
            Heard::Text("Two.".to_owned()),
            Heard::Part(text("Two.")),
            began(0, "call_a", "weather"),
            began(1, "call_b", "time"),
            Heard::Part(call("call_a", "weather", json!({"city": "Zürich"}))),
            Heard::Part(call("call_b", "time", json!({"at": 1}))),
            Heard::Usage(Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() }),
            Heard::Done(Stop::ToolCalls),
        ]
    );
}

/// A small server: whole calls at once, no ids, no numbers, `stop` after calls, no `[DONE]`, no usage, no kind of content.
#[tokio::test]
async fn a_server_that_nearly_speaks_it() {
    let kit = Kit::new();
    let whole = |name: &str, arguments: &str| json!({"function": {"name": name, "arguments": arguments}});
    let calls = json!([whole("a", "{\"x\": 1}"), whole("b", "{}")]);
    let reply = Reply::new(200)
        .event(&json!({"choices": [{"delta": {"role": "assistant", "tool_calls": calls}}]}))
        .event(&json!({"choices": [{"delta": {}, "finish_reason": "stop"}]}));
    kit.stand_in.completions(reply);
    let heard = kit.hear_all(Wire::OpenAi, &hello()).await;
    assert_eq!(heard.last(), Some(&Heard::Done(Stop::ToolCalls)));
    let [Part::ToolCall { id: first, .. }, Part::ToolCall { id: second, name, arguments }] = &parts(&heard)[..] else {
        panic!("{heard:?}")
    };
    assert!(first != second && !first.is_empty(), "{first} {second}");
    assert_eq!((name.as_str(), arguments), ("b", &json!({})));
    assert!(heard.contains(&Heard::ToolCallBegan { index: 1, id: second.clone(), name: "b".to_owned() }));
}

#[tokio::test]
async fn an_answer_that_is_whole_is_taken_though_the_connection_breaks_after_it() {
    let kit = Kit::new();
    kit.stand_in.completions(OpenAi::new().text(&["x"]).stops("length").cut());
    assert_eq!(kit.hear_all(Wire::OpenAi, &hello()).await.last(), Some(&Heard::Done(Stop::Length)));
}

#[tokio::test]
async fn done_without_a_reason_is_an_end() {
    let kit = Kit::new();
    kit.stand_in.completions(OpenAi::new().text(&["x"]).raw("data: [DONE]\n\n").as_it_is());
    let heard = kit.hear_all(Wire::OpenAi, &hello()).await;
    assert_eq!(heard[1..], [Heard::Part(text("x")), Heard::Done(Stop::End)]);
}

#[tokio::test]
async fn what_was_thought_goes_back_under_its_name_while_the_turn_lasts() {
    let kit = Kit::new();
    let answer =
        OpenAi::new().thinking(&["Hm", "m."]).text(&["So."]).tool_call("c", "time", &["{}"]).ends("tool_calls");
    kit.stand_in.completions(answer);
    let heard = kit.hear_all(Wire::OpenAi, &hello()).await;
    assert_eq!(heard[..2], [Heard::Thinking("Hm".to_owned()), Heard::Thinking("m.".to_owned())]);
    let said = Message::Assistant(parts(&heard));
    assert!(matches!(&parts(&heard)[0], Part::Thinking { text, proof: Some(_) } if text == "Hmm."));

    let result =
        Message::Results(vec![ToolResult { id: "c".to_owned(), content: vec![text("12:00")], is_error: true }]);
    let user = hello().messages.remove(0);
    let this_turn = Ask { messages: vec![user.clone(), said.clone(), result.clone()], ..hello() };
    let next_turn = Ask { messages: vec![user.clone(), said, result, user], ..hello() };
    for ask in [&this_turn, &next_turn] {
        kit.stand_in.completions(OpenAi::new().text(&["Noon."]).ends("stop"));
        assert_eq!(words(&kit.hear_all(Wire::OpenAi, ask).await), "Noon.");
    }
    let asked = kit.stand_in.asked();
    let calls = json!([{"id": "c", "type": "function", "function": {"name": "time", "arguments": "{}"}}]);
    let mut said = json!({"role": "assistant", "reasoning_content": "Hmm.", "content": "So.", "tool_calls": calls});
    assert_eq!(asked[1].body["messages"][1], said);
    assert_eq!(asked[1].body["messages"][2], json!({"role": "tool", "tool_call_id": "c", "content": "Error: 12:00"}));
    said.as_object_mut().unwrap().remove("reasoning_content");
    assert_eq!(asked[2].body["messages"][1], said);
}

#[tokio::test]
async fn a_refusal_is_told_in_its_words() {
    let kit = Kit::new();
    kit.stand_in.completions(OpenAi::new().delta(&json!({"refusal": "I will not."})).ends("stop"));
    let heard = kit.hear_all(Wire::OpenAi, &hello()).await;
    assert_eq!((words(&heard).as_str(), heard.last()), ("I will not.", Some(&Heard::Done(Stop::Refused))));
}

#[tokio::test]
async fn arguments_that_cannot_be_read_are_a_part_that_the_model_can_be_told_of() {
    let kit = Kit::new();
    kit.stand_in.completions(OpenAi::new().tool_call("c", "t", &["{'a': 1}"]).ends("tool_calls"));
    let heard = kit.hear_all(Wire::OpenAi, &hello()).await;
    let [Part::BadToolCall { raw, problem, .. }] = &parts(&heard)[..] else { panic!("{heard:?}") };
    assert_eq!(raw, "{'a': 1}");
    assert!(problem.starts_with("the arguments are no JSON: "), "{problem}");

    kit.stand_in.completions(OpenAi::new().text(&["Sorry."]).ends("stop"));
    kit.hear_all(Wire::OpenAi, &Ask { messages: vec![Message::Assistant(parts(&heard))], ..hello() }).await;
    let sent = &kit.stand_in.asked()[1].body["messages"][0]["tool_calls"][0]["function"]["arguments"];
    assert_eq!(*sent, json!("{\"unreadable_arguments\":\"{'a': 1}\"}"));
}
