//! The settings of a request, from its query and its headers.

use super::super::from_request;

type Pairs<'a> = &'a [(&'a str, &'a str)];

fn read(query: Pairs<'_>, headers: Pairs<'_>, prefix: &str) -> Result<String, String> {
    let headers = headers.iter().map(|(name, value)| (*name, value.as_bytes()));
    let lists = from_request(query.iter().copied(), headers, prefix).map_err(|problems| problems.to_string())?;
    let text = |list: Option<Vec<String>>| list.map_or("-".to_owned(), |list| format!("[{}]", list.join(" ")));
    let dynamic = lists.dynamic.map_or("-".to_owned(), |yes| yes.to_string());
    let parts = [text(lists.toolsets), text(lists.enabled_tools), text(lists.disabled_tools), dynamic];
    Ok(parts.join(" "))
}

#[test]
fn by_either_way() {
    let rows: Vec<(Pairs<'_>, Pairs<'_>, &str, Result<&str, &str>)> = vec![
        (&[], &[], "X-Mcp-", Ok("- - - -")),
        (&[("toolsets", "a, b"), ("chat", "x")], &[], "X-Mcp-", Ok("[a b] - - -")),
        (&[], &[("x-mcp-toolsets", "a,b"), ("x-mcp-chat", "c"), ("accept", "*")], "X-Mcp-", Ok("[a b] - - -")),
        (
            &[("enabled_tools", "")],
            &[("X-MCP-Disabled-Tools", "x"), ("X-Mcp-Dynamic", "1")],
            "x-mcp-",
            Ok("- [] [x] true"),
        ),
        (&[("dynamic", "")], &[], "X-Mcp-", Ok("- - - false")),
        (&[], &[("x-kit-enabled-tools", "a"), ("x-mcp-toolsets", "b")], "X-Kit-", Ok("- [a] - -")),
        // No prefix, no headers.
        (&[], &[("toolsets", "a"), ("x-mcp-toolsets", "b")], "", Ok("- - - -")),
        // Names in a query are exact.
        (&[("Toolsets", "a"), ("enabled-tools", "a")], &[], "X-Mcp-", Ok("- - - -")),
        (&[("toolsets", "a")], &[("x-mcp-toolsets", "a")], "X-Mcp-", Err("Both query and header specify toolsets")),
        (
            &[("enabled_tools", "a"), ("disabled_tools", "a"), ("dynamic", "1")],
            &[("x-mcp-enabled-tools", "a"), ("x-mcp-disabled-tools", ""), ("x-mcp-dynamic", "1")],
            "X-Mcp-",
            Err("Both query and header specify enabled tools; Both query and header specify disabled tools; \
                 Both query and header specify dynamic"),
        ),
        (&[("toolsets", "a"), ("toolsets", "b")], &[], "X-Mcp-", Err("The query specifies toolsets more than once")),
        (
            &[],
            &[("x-mcp-toolsets", "a"), ("X-Mcp-Toolsets", "a")],
            "X-Mcp-",
            Err("The header specifies toolsets more than once"),
        ),
        (
            &[("dynamic", "maybe"), ("toolsets", "-a")],
            &[("x-mcp-toolsets", "")],
            "X-Mcp-",
            Err(
                "Both query and header specify toolsets; dynamic: Expected one of: yes, y, true, 1, no, n, false, 0, but \
                 got maybe",
            ),
        ),
    ];
    for (query, headers, prefix, expected) in rows {
        let found = read(query, headers, prefix);
        assert_eq!(
            found.as_ref().map(String::as_str).map_err(String::as_str),
            expected,
            "{query:?} {headers:?} {prefix:?}"
        );
    }
}

#[test]
fn a_header_that_is_no_text() {
    let wrong = from_request([], [("x-mcp-toolsets", b"\xff".as_slice())], "X-Mcp-").unwrap_err();
    assert_eq!(wrong.to_string(), "The header for toolsets is not UTF-8 text");
}
