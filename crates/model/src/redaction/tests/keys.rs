//! Private keys, as people paste them.

use super::*;

#[test]
fn private_keys_go() {
    let (dashes, lines) = ("-".repeat(5), format!("{LETTERS}\n{LETTERS}\n{}==", &LETTERS[..20]));
    for what in ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "] {
        let (begin, end) =
            (format!("{dashes}BEGIN {what}PRIVATE KEY{dashes}"), format!("{dashes}END {what}PRIVATE KEY{dashes}"));
        for (text, left) in [
            (format!("my key:\n{begin}\n{lines}\n{end}\nthanks"), format!("my key:\n{begin}{MARK}{end}\nthanks")),
            (format!("{begin}\\n{}\\n{end}", LETTERS), format!("{begin}{MARK}{end}")),
            (format!("{begin}\n{lines}\nand that is cut off"), format!("{begin}{MARK}\nand that is cut off")),
        ] {
            let redacted = redact(&text);
            assert_eq!(redacted.text, left);
            assert_eq!(redacted.found, BTreeMap::from([(Kind::PrivateKey, 1)]));
            assert_eq!(redact(&left).count(), 0);
        }
    }
}

#[test]
fn private_keys_go_however_they_are_pasted() {
    let (dashes, half) = ("-".repeat(5), &LETTERS[..24]);
    let (begin, end) =
        (format!("{dashes}BEGIN RSA PRIVATE KEY{dashes}"), format!("{dashes}END RSA PRIVATE KEY{dashes}"));
    let lower = (begin.to_lowercase(), end.to_lowercase());
    let headers = "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0123456789ABCDEF";
    let ssh2 = |word: &str| format!("---- {word} SSH2 ENCRYPTED PRIVATE KEY ----");
    for (text, want) in [
        (format!("{begin}\n{headers}\n\n{LETTERS}\n{half}\nbye"), format!("{begin}{MARK}\nbye")),
        (format!("{begin}\n{headers}\n\n{LETTERS}\n{half}\n{end}"), format!("{begin}{MARK}{end}")),
        (format!("> {begin}\n> {LETTERS}\n> {half}\nbye"), format!("> {begin}{MARK}\nbye")),
        (format!("  {begin}\r\n  {LETTERS}\r\n  ab12==\r\n"), format!("  {begin}{MARK}\r\n")),
        (format!("k = \"{begin}\\n{LETTERS}\\n{half}\""), format!("k = \"{begin}{MARK}\"")),
        (format!("{begin} {LETTERS} {half} and so on"), format!("{begin}{MARK} and so on")),
        (format!("{}\n{LETTERS}\n{}", lower.0, lower.1), format!("{}{MARK}{}", lower.0, lower.1)),
        (format!("{}\n{LETTERS}\n{}", ssh2("BEGIN"), ssh2("END")), format!("{}{MARK}{}", ssh2("BEGIN"), ssh2("END"))),
        (format!("{begin}\n{LETTERS}\n{begin}\n{half}\n{end}"), format!("{begin}{MARK}\n{begin}{MARK}{end}")),
        (format!("private_key: \"{begin}\n{LETTERS}\n{end}\""), format!("private_key: \"{begin}{MARK}{end}\"")),
        (format!("private_key: |\n  {begin}\n  {LETTERS}\nx: 1"), format!("private_key: |\n  {begin}{MARK}\nx: 1")),
        (
            format!("Private-Lines: 2\n{LETTERS}\n{half}\nPrivate-MAC: x"),
            format!("Private-Lines: 2{MARK}\nPrivate-MAC: x"),
        ),
    ] {
        assert_eq!(left(&text), want, "{text}");
        assert!(redact(&text).found.keys().eq([&Kind::PrivateKey]), "{text}");
    }
    // A value that ends with its line leaves the key to who knows how far that goes.
    let text = format!("token: \"mine1234 {begin}\n{LETTERS}\n{end}\"");
    assert_eq!(left(&text), format!("token: \"{MARK}{begin}{MARK}{end}\""));
}
