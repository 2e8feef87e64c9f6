//! How much one answer may say. A provider is told how many tokens there may be; one that does not care must not fill our memory.

use kitbag_llm::{Heard, Part};

use super::work::Ended;

/// No token of any model's is about as long as this; spaces may be.
const BYTES_A_TOKEN: usize = 64;

/// An answer may have this much in any case.
const LEAST: usize = 1024 * 1024;

/// What each piece, and what each block takes beside its words.
const PIECE: usize = 16;
const BLOCK: usize = 64;

/// What is left for an answer.
pub(super) struct Size {
    left: usize,
}

impl Size {
    /// For an answer of so many tokens at the most.
    pub(super) fn of_answer(tokens: u32) -> Self {
        let tokens = usize::try_from(tokens).unwrap_or(usize::MAX);
        Self { left: tokens.saturating_mul(BYTES_A_TOKEN).max(LEAST) }
    }

    pub(super) fn add(&mut self, heard: &Heard) -> Result<(), Ended> {
        let more = match heard {
            Heard::Text(text) | Heard::Thinking(text) => text.len() + PIECE,
            Heard::ToolCallBegan { id, name, .. } => id.len() + name.len() + BLOCK,
            Heard::Part(Part::ToolCall { arguments, .. }) => arguments.to_string().len() + BLOCK,
            Heard::Part(Part::BadToolCall { raw, .. }) => raw.len() + BLOCK,
            // Its words were counted as they came.
            Heard::Part(_) => BLOCK,
            Heard::Usage(_) | Heard::Done(_) => 0,
        };
        let left = self.left.checked_sub(more);
        self.left = left.ok_or(Ended::Limit("what one answer may say"))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of these there may be.
    fn fit(tokens: u32, heard: &Heard) -> usize {
        let mut size = Size::of_answer(tokens);
        (0..10_000_000).take_while(|_| size.add(heard).is_ok()).count()
    }

    #[test]
    fn an_answer_in_usual_tokens_fits_and_an_endless_one_does_not() {
        let token = Heard::Text("word ".to_owned());
        for tokens in [1, 8192, 200_000] {
            let fit = fit(tokens, &token);
            assert!(fit >= tokens as usize && fit < 1_000_000, "{tokens}: {fit}");
        }
        let began = Heard::ToolCallBegan { index: 0, id: String::new(), name: String::new() };
        assert!(fit(8192, &began) < 20_000);
        assert_eq!(fit(8192, &Heard::Text("x".repeat(LEAST))), 0);
    }
}
