//! Whether what stands behind a name is a secret, or only says where one is: a reference, a placeholder, an expression of a program, a word.

use super::names::Says;
use super::tokens::SHAPES;
use super::{MARK, names_a_secret};

/// Whether a value only stands for one: `${TOKEN}`, `<token>`, `[your token]`, `***`. A password may begin like that, too.
pub(super) fn is_placeholder(value: &str) -> bool {
    let Some(first) = value.chars().next() else { return true };
    let rest: &str = &value[first.len_utf8()..];
    let is_name = |text: &str| text.bytes().take(80).all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let words = |text: &str| text.chars().take(80).all(|c| c.is_alphabetic() || matches!(c, ' ' | '_' | '-' | '.'));
    let until = |close: char| rest.char_indices().take(80).find(|(_, c)| *c == close).map(|(at, _)| &rest[..at]);
    match first {
        '$' if rest.starts_with(['{', '(', '$']) || rest.is_empty() => true,
        // The name of a variable is in one case, or has no digit.
        '$' => {
            is_name(rest) && !(rest.bytes().any(|b| b.is_ascii_digit()) && rest.bytes().any(|b| b.is_ascii_lowercase()))
        }
        '{' => true,
        '%' => rest.len() > 1 && rest.ends_with('%'),
        '<' => until('>').is_some(),
        '[' => until(']').is_some_and(words),
        '*' | '•' | '…' | '.' | '_' | '-' => value.chars().take(80).all(|c| c == first),
        'x' | 'X' => value.len() >= 3 && value.bytes().take(80).all(|b| b.eq_ignore_ascii_case(&b'x') || b == b'-'),
        _ => false,
    }
}

/// Whether a value only says where the value is, or what it is like. `line` is what stands there with the rest of its line.
pub(super) fn is_reference(value: &str, line: &str) -> bool {
    let lower = value.trim_matches(['.', ':', '!', '?']).to_ascii_lowercase();
    const WORDS: &[&str] = &[
        "null",
        "none",
        "nil",
        "true",
        "false",
        "undefined",
        "string",
        "text",
        "required",
        "optional",
        "secret",
        "password",
        "token",
        "bearer",
        "basic",
    ];
    let begins = ["http://", "https://", "xxx"].iter().any(|begin| lower.starts_with(begin));
    let is_example = lower.starts_with("your") && !lower.bytes().any(|byte| byte.is_ascii_digit());
    let in_brackets = value.starts_with('(') && line.contains(')');
    lower.is_empty()
        || begins
        || is_example
        || in_brackets
        || is_placeholder(value)
        || line.starts_with('<') && is_placeholder(line)
        || WORDS.contains(&lower.as_str())
        || is_redacted(line, value.len())
}

/// Whether nothing is left of a value but what tokens of its kind begin with.
fn is_redacted(line: &str, long: usize) -> bool {
    line.find(MARK).is_some_and(|at| {
        let before = &line[..at];
        at <= long && (["", "eyJ"].contains(&before) || SHAPES.iter().any(|shape| shape.begins == before))
    })
}

/// Whether a value behind a name is one. In prose words stand behind a colon, too.
pub(super) fn is_value(value: &str, written_out: bool, says: Says) -> bool {
    let bare = value.trim_end_matches(['.', ':', '!', '?']);
    let is_number = bare.bytes().all(|byte| byte.is_ascii_digit());
    let word = bare.trim_start_matches('&');
    let is_word = word.chars().all(|c| c.is_alphabetic() || matches!(c, '-' | '/' | '\'' | '’'));
    match says {
        Says::Auth => is_basic(bare, true) && bare.len() >= 8,
        Says::Query => bare.len() >= 16 && has_digit(bare),
        Says::Key => bare.len() >= 24 && has_digit(bare) && has_both_cases(bare),
        // How many tokens there may be is no token.
        _ if is_number => says == Says::Password && bare.len() >= 4 || bare.len() >= 12,
        _ if is_word && !written_out => bare.len() >= 24 && !bare.contains('/'),
        _ => bare.len() >= 4,
    }
}

/// Whether a value that nothing marks as one but a word before it looks like one by itself.
pub(super) fn is_surely_one(value: &str, says: Says) -> bool {
    let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
    match says {
        Says::Password => value.len() >= 6 && has_digit(value) && (!is_number || value.len() >= 8),
        _ => value.len() >= 16 && has_digit(value) && !is_number,
    }
}

pub(super) fn has_digit(value: &str) -> bool {
    value.bytes().take(256).any(|byte| byte.is_ascii_digit())
}

fn has_both_cases(value: &str) -> bool {
    let has = |kind: fn(&u8) -> bool| value.as_bytes().iter().take(256).any(kind);
    has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase)
}

/// What an expression begins with where somebody's own program keeps such things.
const ROOTS: &[&str] = &[
    "process",
    "os",
    "env",
    "environ",
    "req",
    "request",
    "res",
    "response",
    "self",
    "this",
    "config",
    "cfg",
    "conf",
    "settings",
    "args",
    "options",
    "opts",
    "ctx",
    "context",
    "params",
    "props",
    "state",
    "app",
    "data",
    "body",
    "form",
    "event",
    "secrets",
    "credentials",
    "creds",
    "import",
    "std",
    "user",
    "account",
    "db",
    "database",
    "auth",
    "vault",
    "var",
    "local",
    "module",
];

/// What a value is read from.
const SOURCES: &[&str] =
    &["prompt", "input", "stdin", "getpass", "generate", "generated", "random", "default", "value"];

/// Whether an expression of a program stands behind a name, from which the value comes when it runs. `declared` says that `const`, `let` or the
/// like is before the name: then no password is a bare word.
pub(super) fn is_code(line: &str, says: Says, declared: bool) -> bool {
    let mut rest = line;
    for word in ["await ", "new ", "yield ", "not ", "!", "&", "*"] {
        rest = rest.strip_prefix(word).unwrap_or(rest);
    }
    let is_path = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ':' | '?' | '>');
    let end = rest.find(|c: char| !is_path(c) && c != '-').unwrap_or(rest.len());
    let (path, behind) = rest.split_at(end);
    let begins = path.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    if !begins || path.len() > 80 || path.replace("->", "").contains('-') {
        return false;
    }
    let is_password = says == Says::Password;
    let has_digit = has_digit(path);
    match behind.bytes().next() {
        Some(b'(') => return !(is_password && has_digit) && behind.contains(')'),
        Some(b'[') => return !has_digit && behind.contains(']'),
        Some(b' ' | b'\t' | b'\r' | b',' | b';' | b')' | b'}' | b']') | None => {}
        _ => return false,
    }
    // What is more behind it than the end of an expression is part of a password.
    let word = behind.split_whitespace().next().unwrap_or_default();
    let glued = !behind.starts_with([' ', '\t']) && word.bytes().any(|byte| byte.is_ascii_alphanumeric());
    if has_digit || glued {
        return false;
    }
    let names_one = names_a_secret(path) || Says::password(path);
    let parts = || path.split(['.', ':', '?', '>', '-']).filter(|part| !part.is_empty());
    match parts().count() {
        0 => false,
        1 if declared || names_one => path.len() <= 32,
        1 if is_password || says == Says::Secret => SOURCES.contains(&path.to_ascii_lowercase().as_str()),
        1 => path.len() <= 16,
        _ if is_password => declared || parts().next().is_some_and(|root| ROOTS.contains(&root)),
        _ => parts().all(|part| part.len() <= 32),
    }
}

/// Whether what stands behind `Bearer` is a token and no word. Who writes it as a header does means one.
pub(super) fn is_bearer(value: &str, as_in_headers: bool) -> bool {
    let is_word = value.trim_end_matches(['.', '-']).bytes().all(|byte| byte.is_ascii_lowercase());
    let known = ["authenticat", "authoriz", "authoris", "responsib", "certificate", "credential"];
    match is_word {
        true if known.iter().any(|word| value.starts_with(word)) => false,
        true => as_in_headers || value.len() >= 18,
        false => {
            !value.split(['-', '/']).all(|part| part.bytes().all(|byte| byte.is_ascii_lowercase())) || value.len() >= 40
        }
    }
}

/// Whether what stands behind `Basic` is base64 of a name and a password. In a header it is what it says, as long as it is no word.
pub(super) fn is_basic(value: &str, as_in_headers: bool) -> bool {
    let upper = value.bytes().skip(1).take(256).filter(u8::is_ascii_uppercase).count();
    let has_lower = value.bytes().take(256).any(|byte| byte.is_ascii_lowercase());
    let is_like = value.ends_with('=') || has_digit(value) || (upper >= 3 && has_lower);
    is_like && (as_in_headers || decodes(value))
}

/// Whether base64 comes to readable letters with a colon among them.
fn decodes(value: &str) -> bool {
    let (mut bits, mut many, mut colon) = (0_u32, 0, false);
    for byte in value.bytes().take(512).take_while(|byte| *byte != b'=') {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return false,
        };
        (bits, many) = (bits << 6 | u32::from(six), many + 6);
        if many >= 8 {
            many -= 8;
            let letter = (bits >> many) as u8;
            if letter < b' ' || letter == 0x7f {
                return false;
            }
            colon |= letter == b':';
            bits &= (1 << many) - 1;
        }
    }
    colon
}
