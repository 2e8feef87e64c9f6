//! What comes back from a model, the same from every provider.

use serde::{Deserialize, Serialize};

use crate::ask::Part;

/// The next of an answer. Words come twice: bit by bit for who watches, and whole as a part for who keeps them.
#[derive(Clone, Debug, PartialEq)]
pub enum Heard {
    /// More words.
    Text(String),
    /// More thinking.
    Thinking(String),
    /// The model begins to write a call; its arguments come with the part.
    ToolCallBegan {
        /// Which of this answer's calls, from 0.
        index: usize,
        /// The call's id, as in the part that follows.
        id: String,
        /// The tool.
        name: String,
    },
    /// A part that is whole now. These, in their order, are the assistant's message.
    Part(Part),
    /// What the answer cost. Once, before the end, if the provider says.
    Usage(Usage),
    /// The answer is whole. Nothing follows.
    Done(Stop),
}

/// Why the model stopped.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// It has said everything.
    End,
    /// It waits for the results of its calls.
    ToolCalls,
    /// There was no room for more.
    Length,
    /// It, or its provider, will not answer this.
    Refused,
    /// Something that is not known here. The provider's own word for it is kept by nobody: it may be anything.
    Other,
}

/// Tokens. The three kinds of input are counted apart, also where the provider counts them together.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Read anew. The aliases are the names that messages were once kept with.
    #[serde(alias = "input_tokens")]
    pub input_tokens: u64,
    /// Written, with thinking.
    #[serde(alias = "output_tokens")]
    pub output_tokens: u64,
    /// Read from the provider's cache.
    #[serde(alias = "cache_read_tokens")]
    pub cache_read_tokens: u64,
    /// Read, and put into the provider's cache.
    #[serde(alias = "cache_write_tokens")]
    pub cache_write_tokens: u64,
}

impl Usage {
    /// Both together. A provider may say any number, so there is always a largest one.
    #[must_use]
    pub fn plus(self, more: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(more.input_tokens),
            output_tokens: self.output_tokens.saturating_add(more.output_tokens),
            cache_read_tokens: self.cache_read_tokens.saturating_add(more.cache_read_tokens),
            cache_write_tokens: self.cache_write_tokens.saturating_add(more.cache_write_tokens),
        }
    }

    /// All tokens, read and written.
    pub fn all(self) -> u64 {
        [self.output_tokens, self.cache_read_tokens, self.cache_write_tokens]
            .into_iter()
            .fold(self.input_tokens, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tokens_are_counted_however_many_somebody_says() {
        let most = Usage { input_tokens: u64::MAX, output_tokens: 1, ..Usage::default() };
        let sum = most.plus(Usage { input_tokens: 7, output_tokens: 2, cache_read_tokens: 3, cache_write_tokens: 4 });
        let all = Usage { input_tokens: u64::MAX, output_tokens: 3, cache_read_tokens: 3, cache_write_tokens: 4 };
        assert_eq!((sum, sum.all()), (all, u64::MAX));
    }

    #[test]
    fn tokens_are_read_under_their_old_names_too() {
        let usage = Usage { input_tokens: 1, output_tokens: 2, cache_read_tokens: 3, cache_write_tokens: 4 };
        let new = json!({"inputTokens": 1, "outputTokens": 2, "cacheReadTokens": 3, "cacheWriteTokens": 4});
        let old = json!({"input_tokens": 1, "output_tokens": 2, "cache_read_tokens": 3, "cache_write_tokens": 4});
        assert_eq!(serde_json::to_value(usage).unwrap(), new);
        for kept in [new, old] {
            assert_eq!(serde_json::from_value::<Usage>(kept).unwrap(), usage);
        }
    }
}
