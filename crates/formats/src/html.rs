//! HTML pages that show a tool's data: the page of an author, in which `window.__TOOL_DATA__` is set before anything of
//! the page runs.
//!
//! The script goes right behind the doctype, or to the very beginning of a page without one. There the parser opens the
//! head for it by itself, nothing of the page has been run, and no place in the page need be searched for: a search for
//! `</head>` would find it in comments and in scripts. Attributes of an `<html>` that follows still count.

use serde_json::Value;

/// The most bytes that a page may have.
pub const MOST_PAGE_BYTES: usize = 16 * 1024 * 1024;

/// Why a page cannot be shown.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum HtmlError {
    /// More bytes than are taken.
    #[error("the page has more than {MOST_PAGE_BYTES} bytes")]
    TooLarge,
    /// UTF-16.
    #[error("the page is UTF-16; save it as UTF-8")]
    Utf16,
    /// Neither.
    #[error("the page is not UTF-8: the byte at {at} belongs to no character")]
    NotUtf8 {
        /// Where.
        at: usize,
    },
}

/// The page with the data in it.
pub fn with_data(page: &[u8], data: &Value) -> Result<String, HtmlError> {
    let page = text(page)?;
    let script = script(data);
    let mut made = String::with_capacity(page.len() + script.len() + 16);
    let prologue = Prologue::of(page);
    match prologue.doctype_end {
        Some(end) => made.extend([&page[..end], &script, &page[end..]]),
        // A page of an author who wrote all of it keeps the mode that it has; a piece of one gets the usual.
        None if prologue.is_document => made.extend([&script, page]),
        None => made.extend(["<!doctype html>", &script, page]),
    }
    Ok(made)
}

/// A page as text, without the mark that some begin with: in the middle of a text it would be a character.
pub fn text(page: &[u8]) -> Result<&str, HtmlError> {
    if page.len() > MOST_PAGE_BYTES {
        return Err(HtmlError::TooLarge);
    }
    if page.starts_with(&[0xFE, 0xFF]) || page.starts_with(&[0xFF, 0xFE]) {
        return Err(HtmlError::Utf16);
    }
    let page = std::str::from_utf8(page).map_err(|error| HtmlError::NotUtf8 { at: error.valid_up_to() })?;
    Ok(page.strip_prefix('\u{FEFF}').unwrap_or(page))
}

/// The script that sets the data, and then takes itself out of the document.
fn script(data: &Value) -> String {
    format!("<script>window.__TOOL_DATA__={};document.currentScript.remove()</script>", literal(data))
}

/// Data as an expression in a script of a page.
///
/// The data is JSON in a text, not an object in the source: an object in the source would lose a key `__proto__`. No `<`
/// and no `>` is left that could end the script or open a comment, and no character that ends a line of a script.
pub fn literal(data: &Value) -> String {
    let text = Value::String(data.to_string()).to_string();
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' => safe.push_str("\\u003c"),
            '>' => safe.push_str("\\u003e"),
            '&' => safe.push_str("\\u0026"),
            '\u{2028}' => safe.push_str("\\u2028"),
            '\u{2029}' => safe.push_str("\\u2029"),
            other => safe.push(other),
        }
    }
    format!("JSON.parse({safe})")
}

/// What stands before the first tag.
struct Prologue {
    /// Where the doctype ends.
    doctype_end: Option<usize>,
    /// Whether the first tag is `<html>`.
    is_document: bool,
}

impl Prologue {
    /// Reads white space, comments and a doctype as the HTML standard has it, and stops at whatever else comes.
    fn of(page: &str) -> Self {
        let mut rest = page;
        loop {
            rest = rest.trim_start_matches(['\t', '\n', '\u{C}', '\r', ' ']);
            let tag = rest.get(..9).unwrap_or(rest).to_ascii_lowercase();
            if tag == "<!doctype" {
                let after = beyond(rest, ">");
                return Self { doctype_end: Some(page.len() - after.len()), is_document: true };
            }
            rest = match rest.strip_prefix("<!--") {
                Some(comment) => beyond_comment(comment),
                None if rest.starts_with("<!") || rest.starts_with("<?") => beyond(rest, ">"),
                None => {
                    let after = tag.strip_prefix("<html").map(|after| after.chars().next());
                    let is_document =
                        after.is_some_and(|next| next.is_none_or(|next| !next.is_ascii_alphanumeric() && next != '-'));
                    return Self { doctype_end: None, is_document };
                }
            };
        }
    }
}

/// What follows a comment whose `<!--` was read. `>` and `->` right there end it too.
fn beyond_comment(text: &str) -> &str {
    for end in [">", "->"] {
        if let Some(rest) = text.strip_prefix(end) {
            return rest;
        }
    }
    let ends = ["-->", "--!>"].map(|end| text.find(end).map(|at| at + end.len()));
    ends.into_iter().flatten().min().map_or("", |end| &text[end..])
}

fn beyond<'t>(text: &'t str, end: &str) -> &'t str {
    text.split_once(end).map_or("", |(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::any;
    use proptest::{prop_assert, prop_assert_eq, proptest};
    use serde_json::json;

    use super::*;

    /// The page with `@` where the script is.
    fn place(page: &str) -> String {
        with_data(page.as_bytes(), &json!(1)).unwrap().replace(&script(&json!(1)), "@")
    }

    #[test]
    fn places() {
        for (page, with) in [
            ("<!doctype html><html><head><title>x</title>", "<!doctype html>@<html><head><title>x</title>"),
            ("\u{FEFF}<!DOCTYPE HTML>\n<HTML LANG=de>", "<!DOCTYPE HTML>@\n<HTML LANG=de>"),
            (
                " \n<!-- <!doctype html> --> <!DocType html SYSTEM \"about:legacy-compat\"><p>",
                " \n<!-- <!doctype html> --> <!DocType html SYSTEM \"about:legacy-compat\">@<p>",
            ),
            ("<!--></head>--><!doctype html>x", "<!doctype html>@<!--></head>--><!doctype html>x"),
            ("<!--><!doctype html>x", "<!--><!doctype html>@x"),
            ("<!---><!doctype html>x", "<!---><!doctype html>@x"),
            ("<!-- a --!><!doctype html>x", "<!-- a --!><!doctype html>@x"),
            ("<?xml version='1.0'?><!doctype html>x", "<?xml version='1.0'?><!doctype html>@x"),
            (
                "<!-- never closed <!doctype html><script>1</script>",
                "<!doctype html>@<!-- never closed <!doctype html><script>1</script>",
            ),
            ("<html><!-- <head> --><script>'</head>'</script>", "@<html><!-- <head> --><script>'</head>'</script>"),
            ("<HTML>x", "@<HTML>x"),
            ("<!-- c --><html\nlang=de>", "@<!-- c --><html\nlang=de>"),
            ("<html-x>", "<!doctype html>@<html-x>"),
            (
                "<script>use(window.__TOOL_DATA__)</script>",
                "<!doctype html>@<script>use(window.__TOOL_DATA__)</script>",
            ),
            ("<p>a piece</p>", "<!doctype html>@<p>a piece</p>"),
            ("just text, ü", "<!doctype html>@just text, ü"),
            ("text <!doctype html>", "<!doctype html>@text <!doctype html>"),
            ("", "<!doctype html>@"),
            ("<!doctype html", "<!doctype html@"),
            ("<!doctyp\u{e9}", "<!doctype html>@<!doctyp\u{e9}"),
            (
                "<meta http-equiv=Content-Security-Policy content=\"script-src 'none'\">",
                "<!doctype html>@<meta http-equiv=Content-Security-Policy content=\"script-src 'none'\">",
            ),
        ] {
            assert_eq!(place(page), with, "{page:?}");
        }
    }

    #[test]
    fn refused() {
        let utf16: Vec<u8> = "\u{FEFF}<p>".encode_utf16().flat_map(u16::to_le_bytes).collect();
        for (page, error) in [
            (utf16, HtmlError::Utf16),
            (vec![0xFE, 0xFF, 0, b'<'], HtmlError::Utf16),
            (b"<p>\xE4</p>".to_vec(), HtmlError::NotUtf8 { at: 3 }),
            (vec![b' '; MOST_PAGE_BYTES + 1], HtmlError::TooLarge),
        ] {
            assert_eq!(with_data(&page, &json!(null)), Err(error));
        }
        assert!(with_data(&vec![b' '; MOST_PAGE_BYTES], &json!(null)).is_ok());
    }

    #[test]
    fn the_script() {
        let data = json!({"__proto__": "</script><!--<script>&\u{2028}\u{2029}\"\\"});
        assert_eq!(
            script(&data),
            "<script>window.__TOOL_DATA__=JSON.parse(\"{\\\"__proto__\\\":\\\"\\u003c/script\\u003e\\u003c!--\\u003cscript\\u003e\\u0026\\u2028\\u2029\\\\\\\"\\\\\\\\\\\"}\");document.currentScript.remove()</script>"
        );
    }

    proptest! {
        #[test]
        fn no_data_is_lost_or_breaks_out(key in any::<String>(), text in any::<String>(), number in any::<i64>()) {
            let data = json!({ key: [text, number] });
            let script = script(&data);
            let inner = script.strip_prefix("<script>window.__TOOL_DATA__=JSON.parse(").unwrap();
            let inner = inner.strip_suffix(");document.currentScript.remove()</script>").unwrap();
            let breaks_out = inner.contains(['<', '>', '&', '\u{2028}', '\u{2029}', '\n', '\r']);
            prop_assert!(!breaks_out);
            // A JSON text is a text of a script too, once those are gone.
            let json: String = serde_json::from_str(inner).unwrap();
            prop_assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), data);
        }

        #[test]
        fn nothing_panics_and_nothing_is_lost(page in "[<>!?a-z \u{FEFF}é/-]{0,40}", doctype in "(<!DOCTYPE [a-z ]{0,3}>?)?") {
            let page = format!("{doctype}{page}");
            let made = with_data(page.as_bytes(), &json!(1)).unwrap().replace(&script(&json!(1)), "");
            let is_whole = made.ends_with(page.strip_prefix('\u{FEFF}').unwrap_or(&page));
            prop_assert!(is_whole, "{}", made);
        }
    }
}
