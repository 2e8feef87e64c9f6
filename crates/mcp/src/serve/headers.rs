//! What a request of the newest revision says in headers too. A balancer or a gateway on the way may have decided by them, so a
//! request whose headers say something else than its body is refused.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use serde_json::{Map, Value};

use super::Fault;
use super::code::HEADER_MISMATCH;
use crate::connection::marks_of;

/// The parameter that a request is known by beside its method.
pub(super) fn named_by(method: &str) -> Option<&'static str> {
    match method {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" => Some("uri"),
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some("taskId"),
        _ => None,
    }
}

/// The value of a header that is there once.
pub(super) fn only<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Fault> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(_), Some(_)) => Err(mismatch(format!("the header {name} is there more than once"))),
        (Some(value), None) => match value.to_str() {
            Ok(text) => Ok(Some(text.trim_matches([' ', '\t']))),
            Err(_) => Err(mismatch(format!("the header {name} is no plain text"))),
        },
    }
}

/// Whether the headers say what the body says.
pub(super) fn check(headers: &HeaderMap, method: &str, name: Option<&str>) -> Result<(), Fault> {
    match only(headers, "mcp-method")? {
        Some(said) if said == method => {}
        Some(said) => return Err(mismatch(format!("the header Mcp-Method says {said:?}, the body {method:?}"))),
        None => return Err(mismatch("the header Mcp-Method is missing")),
    }
    if named_by(method).is_none() {
        return Ok(());
    }
    match (only(headers, "mcp-name")?, name) {
        // What is wrong with the body is told by who reads it.
        (_, None) => Ok(()),
        (None, Some(_)) => Err(mismatch("the header Mcp-Name is missing")),
        (Some(said), Some(name)) => match decoded(said) {
            Some(said) if said == name => Ok(()),
            Some(said) => Err(mismatch(format!("the header Mcp-Name says {said:?}, the body {name:?}"))),
            None => Err(mismatch("the header Mcp-Name is no base64")),
        },
    }
}

/// The headers with arguments of a call, by the names behind `Mcp-Param-`.
pub(super) fn of_arguments(headers: &HeaderMap) -> Result<Vec<(String, String)>, Fault> {
    let mut found: Vec<(String, String)> = Vec::new();
    for key in headers.keys() {
        let Some(name) = key.as_str().strip_prefix("mcp-param-") else { continue };
        let Some(value) = only(headers, key.as_str())? else { continue };
        found.push((name.to_owned(), value.to_owned()));
    }
    Ok(found)
}

/// Whether the headers of a call say what its arguments are, where the tool's schema wants that.
pub fn check_arguments(
    schema: &Map<String, Value>,
    arguments: &Map<String, Value>,
    headers: &[(String, String)],
) -> Result<(), Fault> {
    // A schema whose marks mean nothing was not shown with them.
    let Ok(marks) = marks_of(schema) else { return Ok(()) };
    for (path, name) in marks {
        let mut value = path.split_first().and_then(|(first, _)| arguments.get(first));
        for part in path.iter().skip(1) {
            value = value.and_then(|value| value.get(part));
        }
        let said = headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(&name)).map(|(_, said)| said);
        let (Some(value), shown) = (value.filter(|value| !value.is_null()), format!("Mcp-Param-{name}")) else {
            continue;
        };
        let Some(said) = said else { return Err(mismatch(format!("the header {shown} is missing"))) };
        let Some(said) = decoded(said) else { return Err(mismatch(format!("the header {shown} is no base64"))) };
        let same = match value {
            Value::String(text) => *text == said,
            Value::Bool(flag) => flag.to_string() == said,
            Value::Number(number) => {
                number.to_string() == said || said.parse::<f64>().is_ok_and(|said| number.as_f64() == Some(said))
            }
            _ => true,
        };
        if !same {
            return Err(mismatch(format!("the header {shown} is not what the argument is")));
        }
    }
    Ok(())
}

/// A header's value as it was meant.
fn decoded(value: &str) -> Option<String> {
    match value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        Some(encoded) => String::from_utf8(STANDARD.decode(encoded).ok()?).ok(),
        None => Some(value.to_owned()),
    }
}

fn mismatch(message: impl Into<String>) -> Fault {
    Fault::new(HEADER_MISMATCH, message).with_status(400)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use http::HeaderValue;
    use serde_json::json;

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn headers_must_say_what_the_body_says() {
        let good = [
            (vec![("mcp-method", "tools/list")], "tools/list", None),
            (vec![("mcp-method", "tools/call"), ("mcp-name", " a ")], "tools/call", Some("a")),
            (vec![("mcp-method", "tools/call"), ("mcp-name", "=?base64?w6k=?=")], "tools/call", Some("é")),
            (vec![("mcp-method", "tools/call"), ("mcp-name", "=?base64?w6k=")], "tools/call", Some("=?base64?w6k=")),
        ];
        for (pairs, method, name) in good {
            check(&headers(&pairs), method, name).unwrap();
        }
        let bad = [
            (vec![], "tools/list", None),
            (vec![("mcp-method", "Tools/list")], "tools/list", None),
            (vec![("mcp-method", "tools/list"), ("mcp-method", "tools/list")], "tools/list", None),
            (vec![("mcp-method", "tools/call")], "tools/call", Some("a")),
            (vec![("mcp-method", "tools/call"), ("mcp-name", "b")], "tools/call", Some("a")),
            (vec![("mcp-method", "tools/call"), ("mcp-name", "=?base64?!!?=")], "tools/call", Some("a")),
        ];
        for (pairs, method, name) in bad {
            assert_eq!(check(&headers(&pairs), method, name).unwrap_err().code, HEADER_MISMATCH, "{pairs:?}");
        }
    }

    #[test]
    fn arguments_in_headers_must_be_the_arguments() {
        let schema = json!({"type": "object", "properties": {
            "where": {"type": "string", "x-mcp-header": "Where"},
            "deep": {"type": "object", "properties": {"n": {"type": "integer", "x-mcp-header": "N"}}},
        }});
        let schema = schema.as_object().unwrap();
        let fits = |arguments: Value, said: &[(&str, &str)]| {
            let said: Vec<_> = said.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            check_arguments(schema, arguments.as_object().unwrap(), &said).is_ok()
        };
        assert!(fits(json!({}), &[]));
        assert!(fits(json!({"where": null}), &[]));
        assert!(fits(json!({"where": "here"}), &[("where", "here")]));
        assert!(fits(json!({"where": "here"}), &[("where", "=?base64?aGVyZQ==?=")]));
        assert!(fits(json!({"deep": {"n": 5}}), &[("n", "5.0")]));
        assert!(!fits(json!({"where": "here"}), &[]));
        assert!(!fits(json!({"where": "here"}), &[("where", "there")]));
        assert!(!fits(json!({"where": "Hello"}), &[("where", "=?base64?SGVsbG8?=")]));
        assert!(!fits(json!({"deep": {"n": 5}}), &[("n", "6")]));
    }
}
