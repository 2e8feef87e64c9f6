//! Answers that break, and what is told of them. Once something was given out, nobody is asked again.

use futures_util::StreamExt;
use kitbag_llm::{Heard, LlmError, Wire};
use kitbag_testkit::model::{Anthropic, Gate, OpenAi, Reply};
use serde_json::json;

use crate::kit::{Kit, hello, words};

#[tokio::test]
async fn cut_in_the_middle() {
    let kit = Kit::new();
    kit.stand_in.messages(Anthropic::new().text(&["Hel"]).cut());
    // The body ends in good order, only too soon.
    kit.stand_in.messages(Anthropic::new().text(&["Hel"]).as_it_is());
    kit.stand_in.completions(OpenAi::new().text(&["Hel"]).cut());
    kit.stand_in.completions(OpenAi::new().text(&["Hel"]).as_it_is());
    for wire in [Wire::Anthropic, Wire::Anthropic, Wire::OpenAi, Wire::OpenAi] {
        let (heard, error) = kit.fail(wire).await;
        assert_eq!(words(&heard), "Hel");
        assert!(matches!(error, LlmError::CutOff(_)), "{error:?}");
        assert!(!error.to_string().contains("EOF"), "the library's words: {error}");
    }
    assert_eq!((kit.stand_in.asked().len(), kit.stand_in.unused()), (4, 0));
}

#[tokio::test]
async fn an_error_in_the_middle() {
    let kit = Kit::new();
    let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    kit.stand_in.messages(Anthropic::new().text(&["Hel"]).event(&overloaded).as_it_is());
    let (heard, error) = kit.fail(Wire::Anthropic).await;
    assert_eq!(words(&heard), "Hel");
    let message = "Overloaded".to_owned();
    assert_eq!(error, LlmError::Unavailable { status: Some(529), retry_after: None, message });

    kit.stand_in.completions(
        OpenAi::new().text(&["Hel"]).event(&json!({"error": {"code": 429, "message": "Stop"}})).as_it_is(),
    );
    let (heard, error) = kit.fail(Wire::OpenAi).await;
    assert_eq!(words(&heard), "Hel");
    assert_eq!(error, LlmError::TooManyRequests { retry_after: None, message: "Stop".to_owned() });
    assert_eq!(kit.stand_in.asked().len(), 2);
}

/// Words and the error come together: the words were said, so they are given out, and nobody is asked again.
#[tokio::test]
async fn an_error_right_behind_words() {
    let kit = Kit::new();
    let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    kit.stand_in.messages(Anthropic::new().text(&["Hel"]).event(&overloaded).as_it_is().in_one_piece());
    kit.stand_in.completions(OpenAi::new().text(&["Hel"]).raw("data: {\n\n").as_it_is().in_one_piece());
    for wire in [Wire::Anthropic, Wire::OpenAi] {
        assert_eq!(words(&kit.fail(wire).await.0), "Hel");
    }
    assert_eq!(kit.stand_in.asked().len(), 2);
}

#[tokio::test]
async fn nonsense() {
    let kit = Kit::new();
    let block = |kind: &str| json!({"type": "content_block_delta", "index": 3, "delta": {"type": kind, "text": "x"}});
    for reply in [
        Anthropic::new().raw("data: {\"type\": \n\n").as_it_is(),
        Anthropic::new().raw("data: []\n\n").as_it_is(),
        Anthropic::new().event(&block("text_delta")).as_it_is(),
        Anthropic::new()
            .event(&json!({"type": "content_block_start", "index": 3, "content_block": {"type": "tool_use", "id": "1", "name": "t"}}))
            .event(&block("text_delta"))
            .as_it_is(),
        Anthropic::new()
            .event(&json!({"type": "content_block_start", "index": 3, "content_block": {"type": "text", "text": ""}}))
            .event(&json!({"type": "message_stop"}))
            .as_it_is(),
        Reply::new(200).header("content-type", "text/html").then("<html>"),
        Reply::json(200, &json!({"answer": "all at once"})),
        Reply::events().header("content-encoding", "gzip").then("x"),
        Reply::new(307).header("location", "https://example.org/"),
    ] {
        kit.stand_in.messages(reply.clone());
        let (_, error) = kit.fail(Wire::Anthropic).await;
        assert!(matches!(error, LlmError::Malformed(_)), "{reply:?}: {error:?}");
    }
    kit.stand_in.completions(OpenAi::new().raw("data: {\"choices\": 7}\n\n").as_it_is());
    let (_, error) = kit.fail(Wire::OpenAi).await;
    assert!(matches!(error, LlmError::Malformed(_)), "{error:?}");
    assert_eq!(kit.stand_in.unused(), 0);
}

#[tokio::test]
async fn who_stops_listening_closes_the_connection() {
    let kit = Kit::new();
    for (wire, times) in [(Wire::Anthropic, 1), (Wire::OpenAi, 2)] {
        let gate = Gate::new();
        match wire {
            Wire::Anthropic => kit.stand_in.messages(Anthropic::new().text(&["Hel"]).hold(&gate).ends("end_turn")),
            Wire::OpenAi => kit.stand_in.completions(OpenAi::new().text(&["Hel"]).hold(&gate).ends("stop")),
        }
        let mut stream = kit.models.stream(&kit.provider(wire), &hello());
        assert_eq!(stream.next().await, Some(Ok(Heard::Text("Hel".to_owned()))));
        gate.reached().await;
        drop(stream);
        kit.stand_in.hung_up_times(times).await;
    }
}

#[tokio::test]
async fn words_are_heard_before_the_answer_is_whole_and_nothing_after_its_end() {
    let (kit, gate) = (Kit::new(), Gate::new());
    kit.stand_in.messages(Anthropic::new().text(&["Hel"]).hold(&gate).text(&["lo"]).ends("end_turn"));
    let mut stream = kit.models.stream(&kit.provider(Wire::Anthropic), &hello());
    assert_eq!(stream.next().await, Some(Ok(Heard::Text("Hel".to_owned()))));
    gate.open();
    let rest: Vec<_> = stream.by_ref().map(Result::unwrap).collect().await;
    assert!(matches!(rest.last(), Some(Heard::Done(_))) && words(&rest) == "lo", "{rest:?}");
    assert_eq!(stream.next().await, None);
}
