//! What is kept of a result: all of it, or, if it is large, a summary and a blob beside it.

use std::io;

use kitbag_model::ContentHash;
use serde_json::{Value, json};

/// So many characters of a large result are shown in its summary.
const PREVIEW: usize = 2000;

/// What is kept of a result.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// The result, or a summary of it.
    pub value: Value,
    /// All of it as JSON, if the value is a summary.
    pub blob: Option<(ContentHash, Vec<u8>)>,
}

/// What to keep of a result if its record may have so many bytes.
pub fn keep(result: Value, most: usize) -> Kept {
    let mut length = Length(0);
    if serde_json::to_writer(&mut length, &result).is_ok() && length.0 <= most {
        return Kept { value: result, blob: None };
    }
    let text = result.to_string();
    let preview: String = text.chars().take(PREVIEW).collect();
    let bytes = text.into_bytes();
    let hash = ContentHash::of(&bytes);
    let value = json!({ "truncated": true, "bytes": bytes.len(), "sha256": hash.to_string(), "preview": preview });
    Kept { value, blob: Some((hash, bytes)) }
}

/// Counts what is written. Nearly all results are small, and what they are as text is wanted by nobody here.
struct Length(usize);

impl io::Write for Length {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_small_stays_and_what_is_large_gets_a_summary() {
        let small = json!({ "a": [1, 2, 3] });
        let length = small.to_string().len();
        assert_eq!(keep(small.clone(), length), Kept { value: small.clone(), blob: None });
        let kept = keep(small.clone(), length - 1);
        let (hash, bytes) = kept.blob.unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), small);
        assert_eq!(kept.value["truncated"], true);
        assert_eq!(kept.value["bytes"], length);
        assert_eq!(kept.value["sha256"], hash.to_string());
        assert_eq!(kept.value["preview"], small.to_string());
        let text = keep(json!("é".repeat(5000)), 10).value;
        assert_eq!(text["preview"].as_str().unwrap().chars().count(), PREVIEW);
    }
}
