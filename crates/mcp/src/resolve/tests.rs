//! Resolving and masking, as tables.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use kitbag_model::RawLaunch;
use serde_json::json;

use super::*;
use crate::connection::CallError;

const SECRET: &str = "s3cr3t/+value with \"quotes\"";

fn variables(name: &str) -> Option<String> {
    let value = match name {
        "API_TOKEN" => SECRET,
        "HOME" => "/home/me",
        "DIR" => "work",
        "UP" => "..",
        "PORT" => "80",
        "HOST" => "a.example",
        "BREAK" => "a\r\nX-Evil: 1",
        "NUL" => "a\0b",
        "EMPTY" => "",
        "JS" => "javascript:alert(1)",
        "USERINFO" => "https://me:hunter22@a.example/",
        "KITBAG_TOKEN" | "kitbag_token" | "Kitbag_Data" => "ours",
        _ => return None,
    };
    Some(value.to_owned())
}

fn map(list: &[(&str, &str)]) -> BTreeMap<String, String> {
    list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn stdio(args: &[&str], cwd: Option<&str>, env: &[(&str, &str)]) -> Launch {
    let args = args.iter().map(|arg| (*arg).to_owned()).collect();
    let (command, cwd) = (Some("server".to_owned()), cwd.map(str::to_owned));
    RawLaunch { command, args, cwd, env: map(env), ..RawLaunch::default() }.check().unwrap()
}

fn remote(url: &str, headers: &[(&str, &str)]) -> Launch {
    RawLaunch { url: Some(url.to_owned()), headers: map(headers), ..RawLaunch::default() }.check().unwrap()
}

fn resolved(launch: &Launch) -> Result<Resolved, ResolveError> {
    resolve(launch, Some(Path::new("/toolsets/app")), variables)
}

fn message(launch: &Launch) -> String {
    resolved(launch).map_or_else(|error| error.to_string(), |_| String::new())
}

#[test]
fn values_are_filled_in() {
    let launch = stdio(
        &["--dir=${HOME}/x", "$${HOME}", "${ENV:KITBAG_TOOLSET_DIR}/a"],
        Some("${DIR}"),
        &[("T", "${API_TOKEN}")],
    );
    let Endpoint::Stdio { command, args, cwd, env, .. } = resolved(&launch).unwrap().endpoint else { panic!("stdio") };
    assert_eq!((command.as_str(), cwd), ("server", Some(PathBuf::from("/toolsets/app/work"))));
    assert_eq!(args, ["--dir=/home/me/x", "${HOME}", "/toolsets/app/a"]);
    assert_eq!(env, [("T".to_owned(), SECRET.to_owned())]);
    let launch = remote("https://${HOST}:8${PORT}/mcp", &[("Authorization", "Bearer ${HOST}")]);
    let Endpoint::Remote { url, headers, .. } = resolved(&launch).unwrap().endpoint else { panic!("remote") };
    assert_eq!(url.as_str(), "https://a.example:880/mcp");
    assert_eq!(headers, [("Authorization".to_owned(), "Bearer a.example".to_owned())]);
}

#[test]
fn the_first_missing_variable_is_named() {
    for (launch, name) in [
        (stdio(&["${A}", "${B}"], Some("${C}"), &[("E", "${D}")]), "A"),
        (stdio(&["${HOME}"], Some("${C}"), &[("E", "${D}")]), "C"),
        (stdio(&[], None, &[("E", "${D}"), ("F", "${G}")]), "D"),
        (stdio(&["${EMPTY}"], None, &[]), "EMPTY"),
        (remote("https://${A}/", &[("X", "${B}")]), "A"),
        (remote("https://${HOST}/", &[("X", "${B}")]), "B"),
        (stdio(&["${KITBAG_TOKEN}"], None, &[]), "KITBAG_TOKEN"),
        (stdio(&["${kitbag_token}"], None, &[]), "kitbag_token"),
        (stdio(&["${Kitbag_Data}"], None, &[]), "Kitbag_Data"),
    ] {
        assert_eq!(message(&launch), format!("MCP_ENV_NOT_SET:{name}"));
    }
    let folderless = resolve(&stdio(&["${KITBAG_TOOLSET_DIR}"], None, &[]), None, variables).unwrap_err();
    assert_eq!(folderless.to_string(), "MCP_ENV_NOT_SET:KITBAG_TOOLSET_DIR");
}

#[test]
fn what_values_bring_in_is_checked_again() {
    for (launch, part) in [
        (remote("https://a.example", &[("X-A", "${BREAK}")]), "headers.X-A has line breaks"),
        (remote("https://a.example", &[("X-A", "${NUL}")]), "headers.X-A has line breaks"),
        (stdio(&["ok", "${NUL}"], None, &[]), "args[1] has a NUL"),
        (stdio(&[], None, &[("A", "${NUL}")]), "env.A has a NUL"),
        (stdio(&[], Some("/${NUL}"), &[]), "cwd has a NUL"),
        (remote("${JS}", &[]), "url must begin with http"),
        (remote("${DIR}", &[]), "url is not a URL"),
        (remote("${USERINFO}", &[]), "url must not have a user name"),
        (remote("https://a.example/${BREAK}", &[]), "url has spaces"),
    ] {
        let message = message(&launch);
        assert!(message.starts_with("with the values of its variables, ") && message.contains(part), "{message}");
        assert!(!message.contains("Evil") && !message.contains("hunter22"), "{message}");
    }
    for outside in ["..", "work/../../b", "./../work", "${UP}"] {
        let message = message(&stdio(&[], Some(outside), &[]));
        assert!(message.contains("cwd leads out of the toolset's folder"), "{outside}: {message}");
    }
    let inside = resolved(&stdio(&[], Some("a/../work"), &[])).unwrap();
    assert!(matches!(inside.endpoint, Endpoint::Stdio { cwd: Some(cwd), .. } if cwd.ends_with("a/../work")));
    let relative = resolve(&stdio(&[], Some("here"), &[]), None, variables).unwrap_err();
    assert!(relative.to_string().contains("cwd is not absolute"), "{relative}");
}

#[test]
fn every_usual_spelling_is_masked() {
    let redactor = resolved(&stdio(&["${PORT}"], None, &[("T", "${API_TOKEN}"), ("H", "${HOME}")])).unwrap().redactor;
    let together = format!("user:{SECRET}!");
    let url: String = url::form_urlencoded::byte_serialize(SECRET.as_bytes()).collect();
    for said in [
        SECRET.to_owned(),
        format!("x{SECRET}{SECRET}y"),
        json!(SECRET).to_string(),
        STANDARD.encode(SECRET),
        URL_SAFE.encode(SECRET),
        STANDARD.encode(&together),
        STANDARD.encode(&together[2..]),
        STANDARD.encode(&together[4..]),
        url.clone(),
        url.to_lowercase(),
        url.replace('+', "%20"),
    ] {
        let shown = redactor.text(&said);
        assert!(shown.contains(MASK_SHOWN), "{said}: {shown}");
        assert!(!shown.contains("s3cr3t") && !shown.contains("quotes"), "{said}: {shown}");
    }
    assert_eq!(redactor.text("port 80 of /home/me/x"), "port 80 of •••/x", "what is short stays");
    assert!(!format!("{redactor:?}").contains("s3cr3t"));
}

#[test]
fn what_is_learned_later_is_masked_by_all() {
    let redactor = Redactor::default();
    let copy = redactor.clone();
    assert!(copy.is_empty());
    redactor.learn("token-1");
    redactor.learn("token-1");
    assert_eq!(copy.result(json!(["token-1"])), json!([MASK_SHOWN]));
    assert_eq!(copy.text("token-1"), MASK_SHOWN);
    assert!(!copy.is_empty());
    (2..5).for_each(|n| redactor.learn(&format!("token-{n}")));
    assert_eq!(copy.text("token-1 token-4"), "••• •••");
    redactor.learn("token-5");
    assert_eq!(copy.text("token-1 token-5"), "token-1 •••", "the oldest is forgotten");
}

#[test]
fn a_value_that_is_cut_in_two_is_masked() {
    let redactor = resolved(&stdio(&[], None, &[("T", "${API_TOKEN}")])).unwrap().redactor;
    let said = format!("before {SECRET} after");
    for at in 1..said.len() {
        let (left, right) = said.split_at(at);
        let lines = redactor.lines(&["first".to_owned(), left.to_owned(), right.to_owned(), "last ü".to_owned()]);
        assert_eq!((lines[0].as_str(), lines[3].as_str()), ("first", "last ü"));
        let shown = lines[1..3].concat();
        assert!(["before ••• after", "before •••••• after"].contains(&shown.as_str()), "{shown}");
    }
}

const MASK_SHOWN: &str = "•••";

#[test]
fn results_lose_their_secrets_only() {
    let launch = stdio(&["${HOME}"], None, &[("T", "${API_TOKEN}"), ("PASSWORD", "hunter2")]);
    let redactor = resolved(&launch).unwrap().redactor;
    let said = json!({ "path": "/home/me/x", "n": 1, "list": [SECRET, "hunter2"], SECRET: null });
    let shown = json!({ "path": "/home/me/x", "n": 1, "list": [MASK_SHOWN, MASK_SHOWN], MASK_SHOWN: null });
    assert_eq!(redactor.result(said), shown);
    let headers = remote("https://a.example", &[("Authorization", "Bearer abcdef")]);
    assert_eq!(resolved(&headers).unwrap().redactor.text("got abcdef"), "got •••");
    let error = CallError::Refused {
        code: 1,
        message: format!("in /home/me: {SECRET}"),
        data: Some(json!({ "token": SECRET, "at": "/home/me" })),
    };
    let CallError::Refused { message, data, .. } = redactor.error(error) else { panic!("it stays what it is") };
    assert_eq!((message.as_str(), data), ("in •••: •••", Some(json!({ "token": MASK_SHOWN, "at": "/home/me" }))));
}
