//! What was said before, made to fit: a conversation may have in it what its own provider never gave out and no provider takes back. Names of
//! tools, ids of calls and images have to be of a certain kind, every call has one result and every result a call.

use std::collections::{HashSet, VecDeque};

use super::arguments::unreadable;
use crate::ask::{Message, Part, ToolResult};
use crate::image::check_image;

/// The longest name or id that every provider takes.
const LONGEST: usize = 64;

/// Goes through a conversation from its top. What is made up depends on nothing but what came before, so that the same beginning is sent the
/// same way each time, and found in the provider's cache.
pub(super) fn fit(messages: &[Message]) -> Vec<Message> {
    let mut fitting = Fitting::default();
    for message in messages {
        fitting.add(message);
    }
    fitting.answer_calls();
    fitting.done
}

#[derive(Default)]
struct Fitting {
    done: Vec<Message>,
    ids: HashSet<String>,
    /// How many calls there were.
    calls: usize,
    /// The calls that wait for a result: what they were called, and what they are called now.
    waiting: VecDeque<(String, String)>,
}

impl Fitting {
    fn add(&mut self, message: &Message) {
        match message {
            Message::Results(results) => self.add_results(results),
            Message::User(parts) => {
                self.answer_calls();
                self.done.push(Message::User(parts.iter().map(shown).collect()));
            }
            Message::Assistant(parts) => {
                self.answer_calls();
                let parts = parts.iter().map(|part| self.said(part)).collect();
                self.done.push(Message::Assistant(parts));
            }
        }
    }

    fn said(&mut self, part: &Part) -> Part {
        match part {
            Part::ToolCall { id, name, arguments } => {
                // Somebody may have written a call by hand.
                let arguments =
                    if arguments.is_object() { arguments.clone() } else { unreadable(&arguments.to_string()) };
                Part::ToolCall { id: self.id(id), name: fitting_name(name), arguments }
            }
            Part::BadToolCall { id, name, raw, problem } => {
                let (raw, problem) = (raw.clone(), problem.clone());
                Part::BadToolCall { id: self.id(id), name: fitting_name(name), raw, problem }
            }
            other => other.clone(),
        }
    }

    /// The id of a call: its own if it is fit to be one and the first of its kind.
    fn id(&mut self, given: &str) -> String {
        self.calls += 1;
        let mut id = given.to_owned();
        let mut more = 0;
        while !is_fit(&id) || self.ids.contains(&id) {
            id = if more == 0 { format!("call_{}", self.calls) } else { format!("call_{}_{more}", self.calls) };
            more += 1;
        }
        self.ids.insert(id.clone());
        self.waiting.push_back((given.to_owned(), id.clone()));
        id
    }

    fn add_results(&mut self, results: &[ToolResult]) {
        let mut fitting = Vec::new();
        for result in results {
            // Calls of one id have their results in their order. A result of no call is nobody's.
            let Some(at) = self.waiting.iter().position(|(given, _)| *given == result.id) else { continue };
            let Some((_, id)) = self.waiting.remove(at) else { continue };
            fitting.push(ToolResult {
                id,
                content: result.content.iter().map(shown).collect(),
                is_error: result.is_error,
            });
        }
        if !fitting.is_empty() {
            self.done.push(Message::Results(fitting));
        }
        self.answer_calls();
    }

    /// What has no result gets one.
    fn answer_calls(&mut self) {
        let lost = |(_, id)| ToolResult {
            id,
            content: vec![Part::Text("there is no result of this call".to_owned())],
            is_error: true,
        };
        let results: Vec<ToolResult> = self.waiting.drain(..).map(lost).collect();
        match self.done.last_mut() {
            _ if results.is_empty() => {}
            Some(Message::Results(before)) => before.extend(results),
            _ => self.done.push(Message::Results(results)),
        }
    }
}

fn is_fit(text: &str) -> bool {
    (1..=LONGEST).contains(&text.len()) && text.chars().all(is_fit_letter)
}

fn is_fit_letter(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-')
}

/// The name of a tool, as like to what the model wrote as may be.
fn fitting_name(name: &str) -> String {
    let fit: String = name.chars().map(|c| if is_fit_letter(c) { c } else { '_' }).take(LONGEST).collect();
    if fit.is_empty() { "unnamed".to_owned() } else { fit }
}

/// What a person or a tool shows. An image that no provider takes is named, so that the model knows that there was one.
fn shown(part: &Part) -> Part {
    match part {
        Part::Image { mime, base64 } => match check_image(mime, base64) {
            Ok(()) => part.clone(),
            Err(problem) => Part::Text(format!("[an image that cannot be shown: {problem}]")),
        },
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(id: &str, name: &str) -> Part {
        Part::ToolCall { id: id.to_owned(), name: name.to_owned(), arguments: json!({}) }
    }

    fn result(id: &str, words: &str) -> ToolResult {
        ToolResult { id: id.to_owned(), content: vec![Part::Text(words.to_owned())], is_error: false }
    }

    /// Names and ids of the calls, then ids and words of the results.
    fn told(messages: &[Message]) -> Vec<(String, String)> {
        let mut told = Vec::new();
        for message in fit(messages) {
            match message {
                Message::User(_) => {}
                Message::Assistant(parts) => told.extend(parts.into_iter().filter_map(|part| match part {
                    Part::ToolCall { id, name, .. } | Part::BadToolCall { id, name, .. } => Some((id, name)),
                    _ => None,
                })),
                Message::Results(results) => told.extend(results.into_iter().map(|result| match &result.content[..] {
                    [Part::Text(words)] => (result.id, words.clone()),
                    other => panic!("{other:?}"),
                })),
            }
        }
        told
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(one, other)| ((*one).to_owned(), (*other).to_owned())).collect()
    }

    #[test]
    fn what_is_fit_goes_as_it_came() {
        let messages =
            [Message::Assistant(vec![call("toolu_1", "read-file_2")]), Message::Results(vec![result("toolu_1", "a")])];
        assert_eq!(fit(&messages), messages);
    }

    #[test]
    fn names_and_ids_are_made_fit_and_ids_are_unique() {
        let (odd, long) = ("foo.bar baz\u{202e}", "x".repeat(100));
        let messages = [
            Message::Assistant(vec![
                call("t", "a"),
                call("t", odd),
                call("", ""),
                call("t.x y", &long),
                call("call_6", "b"),
            ]),
            Message::Results(vec![
                result("t", "1"),
                result("t", "2"),
                result("", "3"),
                result("t.x y", "4"),
                result("call_6", "5"),
            ]),
            // The same again in a later turn; one of them has the id that would have been made up.
            Message::Assistant(vec![call("t", "a")]),
            Message::Results(vec![result("t", "6")]),
        ];
        let name = "x".repeat(64);
        let expected = pairs(&[
            ("t", "a"),
            ("call_2", "foo_bar_baz_"),
            ("call_3", "unnamed"),
            ("call_4", &name),
            ("call_6", "b"),
            ("t", "1"),
            ("call_2", "2"),
            ("call_3", "3"),
            ("call_4", "4"),
            ("call_6", "5"),
            ("call_6_1", "a"),
            ("call_6_1", "6"),
        ]);
        assert_eq!(told(&messages), expected);
        // What was sent before is sent the same way when more was said.
        assert_eq!(told(&messages[..2]), expected[..10]);
    }

    #[test]
    fn every_call_has_a_result_and_every_result_a_call() {
        let lost = "there is no result of this call";
        let messages = [
            Message::Assistant(vec![call("1", "a"), call("2", "b")]),
            Message::Results(vec![result("2", "two"), result("9", "nobody's")]),
            Message::Assistant(vec![call("3", "c")]),
            Message::User(vec![Part::Text("Well?".to_owned())]),
            Message::Results(vec![result("3", "late")]),
        ];
        let expected = [("1", "a"), ("2", "b"), ("2", "two"), ("1", lost), ("3", "c"), ("3", lost)];
        assert_eq!(told(&messages), pairs(&expected));
    }

    #[test]
    fn arguments_are_an_object_and_images_are_what_providers_take() {
        let by_hand = Part::ToolCall { id: "1".to_owned(), name: "t".to_owned(), arguments: json!([1]) };
        let [Message::Assistant(parts), Message::Results(_)] = &fit(&[Message::Assistant(vec![by_hand])])[..] else {
            panic!()
        };
        assert!(matches!(&parts[0], Part::ToolCall { arguments, .. } if arguments.is_object()), "{parts:?}");
        let image = |mime: &str| Part::Image { mime: mime.to_owned(), base64: "iVBORw0=".to_owned() };
        let [Message::User(parts)] = &fit(&[Message::User(vec![image("image/png"), image("image/svg+xml")])])[..]
        else {
            panic!()
        };
        assert_eq!(parts[0], image("image/png"));
        assert!(matches!(&parts[1], Part::Text(words) if words.contains("cannot be shown")), "{parts:?}");
    }
}
