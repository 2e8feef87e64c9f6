//! Texts that somebody made to take our time.

use super::*;

/// What takes quadratic time takes many minutes for these, where nothing is optimised, and is ended as a test that hangs; in proportion to their
/// length they take seconds.
#[test]
fn hostile_texts_take_no_time() {
    for part in [
        "a",
        "-",
        "sk-",
        "sk-ant-",
        "eyJ-",
        "eyJ.",
        "eyJaaaaaaaa.",
        "://",
        "a:b@",
        "://a:",
        "token=$",
        "token:",
        "password=x;",
        "Bearer ",
        "Bearer a-",
        "basic/",
        "ntn_",
        "xapp-",
        "A/",
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\n",
        "\n",
        "é=",
        "tokené=",
        "secret='",
        "secret=\\\"",
        "password=,a",
        "password=a)",
        "password = a b",
        "password:\n",
        "password:\n a1",
        "password: |\n ",
        "password is a",
        "value=",
        "--password ",
        "--token a",
        "<password>",
        "<password>a</",
        "Cookie: a=",
        "Cookie: a=$",
        "Authorization: a ",
        "Authorization: Digest ",
        "://a:b/",
        "://a:b/@",
        "-----BEGIN PRIVATE KEY-----\na: b\n",
        "-----BEGIN PRIVATE KEY----------END ",
        "---- BEGIN ",
        "Private-Lines: 1\n",
        "Private-Lines: ",
        "12345678:AA",
        ".atlasv1.",
        "abc1Q~",
        "pata.",
        "hooks.slack.com/services/",
        "\u{200b}",
        "token\u{ff1d}\u{200b}",
    ] {
        let text = part.repeat(200_000 / part.len());
        let redacted = redact(&text);
        assert!(redacted.text.len() <= text.len() * 4);
    }
}
