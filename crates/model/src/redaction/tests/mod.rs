//! What goes and what stays. No secret here is one; they are put together when the test runs, so that who looks for secrets in our files finds none.

mod hostile;
mod keys;
mod secrets;
mod stays;
mod values;

use super::*;

const LETTERS: &str = "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5bC7dE9";
const HEX: &str = "0123456789abcdef0123456789abcdef";

/// What is left of a text, and that nothing more goes when it is redacted again.
fn left(text: &str) -> String {
    let redacted = redact(text);
    let again = redact(&redacted.text);
    assert_eq!(
        (again.text.as_str(), again.found.len()),
        (redacted.text.as_str(), 0),
        "what is redacted stays as it is"
    );
    redacted.text
}

#[test]
fn each_of_several_goes_and_is_counted() {
    let token = format!("ghp_{LETTERS}");
    let redacted = redact(&format!("{token} and {token}\npassword=hunter22\n"));
    assert_eq!(redacted.text, format!("ghp_{MARK} and ghp_{MARK}\npassword={MARK}\n"));
    assert_eq!(redacted.found, BTreeMap::from([(Kind::GitHub, 2), (Kind::Named, 1)]));
    assert_eq!(redacted.count(), 3);
}

#[test]
fn what_is_beyond_doubt_is_told_with_its_line() {
    let (token, dashes) = (format!("ghp_{LETTERS}"), "-".repeat(5));
    let text = format!(
        "password=hunter22\npassword = a b {token}\nCookie: a={token}\n{dashes}BEGIN RSA PRIVATE KEY{dashes}\nkey_{HEX}\n"
    );
    // What a token is called, and what stands around it, hides it from nobody.
    assert_eq!(tokens_in(&text), [(2, Kind::GitHub), (3, Kind::GitHub), (4, Kind::PrivateKey)]);
    // An address of a manual may be published.
    let example = format!("https://hooks.slack.com/services/T00000000/B00000000/{}", "X".repeat(24));
    assert_eq!(tokens_in(&format!("{example}\nAuthorization: Bearer {LETTERS}\n")), []);
}

#[test]
fn whole_words() {
    for (word, is_one) in [
        (format!("ghp_{LETTERS}"), true),
        (format!("gh\u{200b}p_{LETTERS}"), true),
        (format!("eyJ{LETTERS}"), true),
        ("sk-learn".to_owned(), false),
        (String::new(), false),
    ] {
        assert_eq!(is_token(&word), is_one, "{word}");
    }
}

#[test]
fn shapes_that_begin_alike_are_in_order() {
    for (index, shape) in tokens::SHAPES.iter().enumerate() {
        let hidden = tokens::SHAPES[..index].iter().find(|before| shape.begins.starts_with(before.begins));
        assert!(hidden.is_none(), "{} stands behind a shorter one", shape.begins);
    }
}
