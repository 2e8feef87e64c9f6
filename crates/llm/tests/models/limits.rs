//! Providers that are too slow, or say too much.

use std::time::Duration;

use kitbag_llm::{AnswerLimits, Limits, LlmError, Stop, Usage, Waited, Wire};
use kitbag_testkit::model::{Anthropic, OpenAi, Reply};

use crate::kit::{Kit, hello, limits, words};

/// Short, since it is really waited for; nothing else happens in the meantime, so that a slow machine changes nothing.
const SHORT: Duration = Duration::from_millis(200);

#[tokio::test]
async fn nothing_comes_at_all() {
    let kit = Kit::within(Limits { connect: SHORT, first_byte: SHORT, ..limits() });
    // Not even a head, and nothing behind it.
    for reply in [Reply::silence(), Reply::events().hang()] {
        kit.stand_in.messages(reply);
        let (heard, error) = kit.fail(Wire::Anthropic).await;
        assert_eq!((heard.len(), error), (0, LlmError::TooSlow { waited: Waited::FirstByte, limit: SHORT }));
    }
    // It may be at work on it: asking again would have it do the work twice.
    assert_eq!(kit.stand_in.asked().len(), 2);
    kit.stand_in.hung_up_times(2).await;
}

#[tokio::test]
async fn nothing_more_comes() {
    let kit = Kit::within(Limits { idle: SHORT, ..limits() });
    kit.stand_in.completions(OpenAi::new().text(&["Hel"]).as_it_is().hang());
    let (heard, error) = kit.fail(Wire::OpenAi).await;
    assert_eq!((words(&heard).as_str(), error), ("Hel", LlmError::TooSlow { waited: Waited::Idle, limit: SHORT }));
    kit.stand_in.hung_up_times(1).await;
}

#[tokio::test]
async fn it_takes_too_long_altogether() {
    let kit = Kit::within(Limits { total: SHORT, ..limits() });
    kit.stand_in.messages(Anthropic::new().as_it_is().hang());
    let (_, error) = kit.fail(Wire::Anthropic).await;
    assert_eq!(error, LlmError::TooSlow { waited: Waited::Total, limit: SHORT });
    kit.stand_in.hung_up_times(1).await;
}

#[tokio::test]
async fn too_much_at_once_and_too_much_in_all() {
    let large = "x".repeat(3000);
    let kit = Kit::within(Limits { event_bytes: 2000, ..limits() });
    kit.stand_in.messages(Anthropic::new().text(&["a"]).text(&[&large]).ends("end_turn"));
    let (_, error) = kit.fail(Wire::Anthropic).await;
    assert_eq!(error, LlmError::TooLarge { limit: 2000, unit: "bytes at once" });

    // A line without an end.
    kit.stand_in.messages(Reply::events().then("data: ").then(&large).hang());
    assert_eq!(kit.fail(Wire::Anthropic).await.1, LlmError::TooLarge { limit: 2000, unit: "bytes at once" });

    let kit = Kit::within(Limits { stream_bytes: 2000, ..limits() });
    kit.stand_in.completions(OpenAi::new().text(&["x"; 100]).ends("stop"));
    assert_eq!(kit.fail(Wire::OpenAi).await.1, LlmError::TooLarge { limit: 2000, unit: "bytes" });
}

#[tokio::test]
async fn an_answer_as_a_whole() {
    let kit = Kit::new();
    let limits = AnswerLimits { time: Duration::from_secs(60), output_chars: 5 };
    for (wire, letters) in [(Wire::Anthropic, "Hällo"), (Wire::OpenAi, "Hällo"), (Wire::OpenAi, "Hällo!")] {
        let bits: Vec<String> = letters.chars().map(String::from).collect();
        let bits: Vec<&str> = bits.iter().map(String::as_str).collect();
        match wire {
            Wire::Anthropic => {
                kit.stand_in.messages(Anthropic::new().thinking(&["Hm"], "s").text(&bits).ends("end_turn"))
            }
            Wire::OpenAi => kit.stand_in.completions(OpenAi::new().thinking(&["Hm"]).text(&bits).ends("stop")),
        }
        let answer = kit.models.answer(&kit.provider(wire), &hello(), limits).await;
        if letters.ends_with('!') {
            assert_eq!(answer.unwrap_err(), LlmError::TooLarge { limit: 5, unit: "letters" });
            continue;
        }
        let answer = answer.unwrap();
        let usage = Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() };
        assert_eq!((answer.text.as_str(), answer.usage, answer.stop), ("Hällo", usage, Stop::End));
    }
}

#[tokio::test]
async fn an_answer_that_takes_too_long_is_given_up() {
    let kit = Kit::new();
    kit.stand_in.messages(Anthropic::new().text(&["Hel"]).as_it_is().hang());
    let limits = AnswerLimits { time: SHORT, output_chars: 100 };
    let error = kit.models.answer(&kit.provider(Wire::Anthropic), &hello(), limits).await.unwrap_err();
    assert_eq!(error, LlmError::TooSlow { waited: Waited::Total, limit: SHORT });
    kit.stand_in.hung_up_times(1).await;
}
