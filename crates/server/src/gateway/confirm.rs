//! A yes to a call that needs one, over the protocol: a client that can ask its person is asked to; else it waits for somebody who
//! decides on the page or the command line. Either way it is the same decision about the same call, made once.

use kitbag_mcp::serve::Client;
use kitbag_model::{OrgId, ToolCall};
use serde_json::{Map, Value, json};

use super::menu::Entry;
use super::view::View;
use crate::api::error::ApiError;
use crate::calls::{Asked, Verdict};

/// So much of the arguments is shown in a question, and when they are longer of their beginning and of their end: what matters most may stand
/// last, as the command at the end of a long script does.
const SHOWN: usize = 2000;
const HEAD: usize = 1400;
const TAIL: usize = 600;

impl View {
    /// Waits for the decision. `approved` says that the client's person said yes to this very request in a round before.
    pub(super) async fn confirm(
        &self,
        asked: Asked,
        entry: &Entry,
        client: &Client,
        approved: bool,
    ) -> Result<Asked, ApiError> {
        let (calls, call) = (self.app.calls(), asked.call);
        let verdict = |approve| Verdict {
            approve,
            args: None,
            digest: Some(call.args_sha256),
            who: self.person(),
            audience: self.audience,
        };
        if approved {
            return calls.decide(&self.org, call.chat_id, call.id, verdict(true)).await;
        }
        let elsewhere = calls.decided(&self.org, &call);
        if !client.can("elicitation/create") {
            let wait = json!({ "progress": 0, "message": self.waits(&call) });
            if let Value::Object(wait) = wait {
                client.progress(wait);
            }
            return tokio::select! {
                decided = elsewhere => decided,
                () = client.gone() => self.forget(&call).await,
            };
        }
        let tool = format!("{} ({})", entry.name, entry.tool.id);
        let asked = question(&tool, &call.args, &self.where_to_approve(&call));
        let answer = tokio::select! {
            decided = elsewhere => return decided,
            () = client.gone() => return self.forget(&call).await,
            answer = client.ask("elicitation/create", asked) => answer,
        };
        match answer.as_ref().ok().and_then(|answer| answer.get("action")?.as_str()) {
            Some("accept") => calls.decide(&self.org, call.chat_id, call.id, verdict(true)).await,
            Some("decline" | "cancel") => calls.decide(&self.org, call.chat_id, call.id, verdict(false)).await,
            // It cannot ask after all. Somebody else still can.
            _ => tokio::select! {
                decided = calls.decided(&self.org, &call) => decided,
                () = client.gone() => self.forget(&call).await,
            },
        }
    }

    /// Who says yes or no there, as records tell it: a person, by way of a client with this token.
    pub(super) fn person(&self) -> String {
        format!("the person at {}", self.who)
    }

    /// Nobody wants it any more.
    async fn forget(&self, call: &ToolCall) -> Result<Asked, ApiError> {
        let ended = self.app.calls().cancel(&self.org, call.chat_id, call.id, &self.who).await?;
        Ok(ended.into())
    }

    /// Says of a call that nobody has decided about how that is done.
    pub(super) fn waits(&self, call: &ToolCall) -> String {
        format!("this call waits for a yes: {}", self.where_to_approve(call))
    }

    /// Where somebody says yes to a call.
    pub(super) fn where_to_approve(&self, call: &ToolCall) -> String {
        let (chat, id) = (call.chat_id, call.id);
        let base = self.app.settings().base_url();
        let org = if self.org == OrgId::local() { String::new() } else { format!("/o/{}", self.org) };
        format!(
            "on the page ({base}{org}/chats/{chat}/calls/{id}), or with `kitbag tool decide {id} --chat {chat} --yes`"
        )
    }
}

/// What a person is asked. Whoever says yes to what they cannot see whole is told that it is so, and where they can.
pub(super) fn question(tool: &str, args: &Map<String, Value>, place: &str) -> Value {
    let arguments = serde_json::to_string_pretty(args).unwrap_or_default();
    let length = arguments.chars().count();
    let message = if length <= SHOWN {
        format!("Allow the tool {tool} to run with these arguments?\n{arguments}")
    } else {
        let head: String = arguments.chars().take(HEAD).collect();
        let tail: String = arguments.chars().skip(length - TAIL).collect();
        let left = length - HEAD - TAIL;
        format!(
            "Allow the tool {tool} to run with these arguments? NOT ALL OF THEM ARE SHOWN: {left} of {length} characters are left out in the \
             middle. To see all of them and decide there, look {place}.\n{head}\n[… {left} characters are left out here …]\n{tail}"
        )
    };
    json!({ "message": message, "requestedSchema": { "type": "object", "properties": {} } })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_person_who_does_not_see_all_of_the_arguments_is_told_so() {
        let asked = |text: String| {
            let args = Map::from_iter([("text".to_owned(), Value::from(text))]);
            let question = question("write (a:write)", &args, "on the page (http://x/calls/1)");
            question["message"].as_str().unwrap().to_owned()
        };
        let whole = asked("é".repeat(SHOWN - 30));
        assert!(whole.contains(&"é".repeat(SHOWN - 30)) && !whole.contains("left out"), "{whole}");
        let cut = asked(format!("begin {} && rm -rf ~", "é".repeat(9000)));
        assert!(cut.contains("begin ") && cut.contains("&& rm -rf ~"), "{cut}");
        let left = 9000 + "{\n  \"text\": \"begin  && rm -rf ~\"\n}".len() - HEAD - TAIL;
        assert!(cut.contains(&format!("{left} characters are left out here")), "{left} {cut}");
        assert!(cut.contains("on the page (http://x/calls/1)"), "{cut}");
    }
}
