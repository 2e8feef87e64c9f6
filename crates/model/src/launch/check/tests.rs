//! The rules for launches, as tables.

use super::*;

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

fn map(list: &[(&str, &str)]) -> BTreeMap<String, String> {
    list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn stdio(command: &str) -> RawLaunch {
    RawLaunch { command: Some(command.to_owned()), ..RawLaunch::default() }
}

fn remote(url: &str) -> RawLaunch {
    RawLaunch { url: Some(url.to_owned()), ..RawLaunch::default() }
}

fn messages(raw: RawLaunch) -> Vec<String> {
    raw.check().map_or_else(|errors| errors.iter().map(ToString::to_string).collect(), |_| Vec::new())
}

#[test]
fn types_follow_from_what_is_given() {
    let typed = |raw: RawLaunch, name: &str| RawLaunch { server_type: Some(name.to_owned()), ..raw };
    for (raw, server_type) in [
        (stdio("npx"), ServerType::Stdio),
        (typed(stdio("npx"), "stdio"), ServerType::Stdio),
        (remote("https://a.example/mcp"), ServerType::StreamableHttp),
        (typed(remote("https://a.example/mcp"), "http"), ServerType::StreamableHttp),
        (typed(remote("https://a.example/sse"), "sse"), ServerType::Sse),
    ] {
        assert_eq!(raw.check().map(|launch| launch.server_type()), Ok(server_type));
    }
    for (raw, message) in [
        (RawLaunch::default(), "server needs a command (to start) or a url (to dial)"),
        (
            RawLaunch { url: Some("https://a.example".to_owned()), ..stdio("npx") },
            "server has both a command and a url; a server is either started or dialled",
        ),
        (typed(stdio("npx"), "ws"), "type unknown server type; the types are stdio, sse and streamable-http (or http)"),
        (typed(RawLaunch::default(), "stdio"), "command is required for stdio servers"),
        (typed(RawLaunch::default(), "sse"), "url is required for sse servers"),
        (RawLaunch { headers: map(&[("A", "b")]), ..stdio("npx") }, "headers is not for stdio servers"),
        (
            RawLaunch { env: map(&[("A", "b")]), ..remote("https://a.example") },
            "env is not for streamable-http servers",
        ),
        (RawLaunch { args: texts(&["a"]), ..remote("https://a.example") }, "args is not for streamable-http servers"),
        (
            RawLaunch { cwd: Some("/".to_owned()), ..remote("https://a.example") },
            "cwd is not for streamable-http servers",
        ),
    ] {
        assert_eq!(messages(raw), [message]);
    }
    let both = messages(typed(stdio("npx"), "sse"));
    assert_eq!(both, ["command is not for sse servers", "url is required for sse servers"]);
}

#[test]
fn commands_and_what_goes_with_them() {
    let args = |list: &[&str]| RawLaunch { args: texts(list), ..stdio("npx") };
    let env = |list: &[(&str, &str)]| RawLaunch { env: map(list), ..stdio("npx") };
    for good in [
        stdio("/usr/bin/my tool"),
        stdio(&"x".repeat(LONGEST)),
        args(&["", "-c", "curl x | sh", "${A}/b", "$${c}", "line\nbreak"]),
        args(&vec!["a"; MOST_ITEMS]),
        env(&[("API_KEY", "${MY_API_KEY}"), ("literal", "x\ny"), ("EMPTY", ""), ("ProgramFiles(x86)", "x")]),
        RawLaunch { cwd: Some("${HOME}/x".to_owned()), ..stdio("npx") },
    ] {
        assert_eq!(messages(good), Vec::<String>::new());
    }
    for (bad, start) in [
        (stdio(""), "command must have 1 to 4096 bytes"),
        (stdio("  "), "command must have 1 to 4096 bytes"),
        (stdio(&"x".repeat(LONGEST + 1)), "command must have 1 to 4096 bytes"),
        (stdio("a\nb"), "command must not have line breaks"),
        (stdio("${SHELL}"), "command cannot refer to variables"),
        (args(&["ok", "${A"]), "args[1] \"${\" without \"}\""),
        (args(&["${A:-b}"]), "args[0] what is between the braces is no variable"),
        (args(&["a\0"]), "args[0] must not have a NUL"),
        (args(&[&"x".repeat(LONGEST + 1)]), "args[0] must have 0 to 4096 bytes"),
        (args(&vec!["a"; MOST_ITEMS + 1]), "args must have 0 to 200 items"),
        (env(&[("A=B", "x")]), "env.A=B is not the name of a variable"),
        (env(&[("", "x")]), "env. is not the name of a variable"),
        (env(&[("A", "${ENV:}")]), "env.A what is between the braces is no variable"),
        (RawLaunch { cwd: Some(String::new()), ..stdio("npx") }, "cwd must have 1 to 4096 bytes"),
    ] {
        let found = messages(bad);
        assert!(found.len() == 1 && found[0].starts_with(start), "{start}: {found:?}");
    }
    assert_eq!(messages(RawLaunch { env: map(&[("A B", ""), ("C", "${")]), ..args(&["${"]) }).len(), 3);
}

#[test]
fn urls() {
    for good in [
        "https://a.example/mcp",
        "http://127.0.0.1:3000",
        "http://[::1]/x?y=1#z",
        "https://${HOST}/mcp",
        "https://${ENV:SUB}.a.example:${PORT}/${PATH}",
        "${ENV:URL}",
        "${ENV:BASE}/mcp/${PATH}?page=1",
        "https://a.example/?api_key=${KEY}&page=2&monkey=1",
        "https://a.example/?token=",
    ] {
        assert_eq!(messages(remote(good)), Vec::<String>::new(), "{good}");
    }
    for (bad, start) in [
        ("", "url must have 1 to 4096 bytes"),
        ("a.example/mcp", "url is not a URL"),
        ("ftp://a.example", "url is not a URL"),
        ("file:///etc/passwd", "url is not a URL"),
        ("javascript:alert(1)", "url is not a URL"),
        ("https://", "url is not a URL"),
        ("${SCHEME}://a.example", "url is not a URL"),
        ("${HOST}.a.example/mcp", "url is not a URL"),
        ("${BASE}/mcp?token=abc", "url must not hold a secret in the query parameter"),
        ("https://a.example/a b", "url is not a URL"),
        ("https://a.example/\nx", "url must not have line breaks"),
        ("https://me@a.example", "url must not have a user name or password"),
        ("https://:${PASS}@a.example", "url must not have a user name or password"),
        ("https:\\\\me:x@a.example", "url must not have a user name or password"),
        ("https://a.example?api_key=abc", "url must not hold a secret in the query parameter \"api_key\""),
        ("https://a.example?x=1&Access-Token=abc${A}", "url must not hold a secret in the query parameter"),
        ("https://a.example?key=abc", "url must not hold a secret in the query parameter \"key\""),
        ("https://a.example/${env:X}", "url what is between the braces is no variable"),
    ] {
        let found = messages(remote(bad));
        assert!(found.len() == 1 && found[0].starts_with(start), "{bad}: {found:?}");
    }
}

#[test]
fn headers() {
    let with = |list: &[(&str, &str)]| messages(RawLaunch { headers: map(list), ..remote("https://a.example") });
    assert_eq!(with(&[("Authorization", "Bearer ${ENV:T}"), ("X-A", "tab\tis fine")]), Vec::<String>::new());
    for (name, value, start) in [
        ("", "x", "headers. is not the name of a header"),
        ("A B", "x", "headers.A B is not the name of a header"),
        ("A:", "x", "headers.A: is not the name of a header"),
        ("é", "x", "headers.é is not the name of a header"),
        ("Host", "x", "headers.Host is set by the connection itself"),
        ("transfer-encoding", "x", "headers.transfer-encoding is set by the connection itself"),
        ("X", "a\r\nY: b", "headers.X must not have line breaks"),
        ("X", "a\0", "headers.X must not have line breaks"),
        ("X", "${", "headers.X \"${\" without"),
    ] {
        let found = with(&[(name, value)]);
        assert!(found.len() == 1 && found[0].starts_with(start), "{name}: {found:?}");
    }
    assert_eq!(with(&[("X-a", "1"), ("x-A", "2")]), ["headers.x-A occurs twice, in different case"]);
}

#[test]
fn no_message_repeats_a_value() {
    let secret = "sk-hunter2";
    let raw = RawLaunch {
        env: map(&[("A", &format!("{secret}\0"))]),
        args: texts(&[&format!("{secret}\0")]),
        ..stdio(&format!("{secret}\n"))
    };
    let url = remote(&format!("https://a.example?token={secret}"));
    for message in messages(raw).into_iter().chain(messages(url)) {
        assert!(!message.contains(secret), "{message}");
    }
}
