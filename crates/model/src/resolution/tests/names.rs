//! How a tool may be written in a list, and which names are mistakes.

use super::super::{ChatSelectors, Lists, RawLists, Verdict};
use super::{World, lists};

fn world() -> World {
    World::new(&[
        "read_file",
        "app:write",
        "app:search",
        "mcp:gh~gh:search",
        "mcp:gh~gh:Foo",
        "mcp:gh~gh:foo",
        "mcp:gh~gh:a,b",
        "mcp:gh~gh:x*y",
        "mcp:fs~fs:read_file",
        "mcp:one~twin:go",
        "mcp:two~twin:go",
    ])
}

#[test]
fn names_of_tools() {
    for (entry, expected) in [
        ("app:write", Ok("app:write")),
        ("APP:Write", Ok("app:write")),
        ("app__write", Ok("app:write")),
        ("write", Ok("app:write")),
        ("mcp:gh~gh:search", Ok("mcp:gh~gh:search")),
        ("mcp__gh__search", Ok("mcp:gh~gh:search")),
        ("mcp:gh:search", Ok("mcp:gh~gh:search")),
        // An id is an id, whoever else is called so.
        ("read_file", Ok("read_file")),
        ("mcp:fs:read_file", Ok("mcp:fs~fs:read_file")),
        // Case decides only where nothing else does.
        ("foo", Ok("mcp:gh~gh:foo")),
        ("Foo", Ok("mcp:gh~gh:Foo")),
        ("mcp:gh:Foo", Ok("mcp:gh~gh:Foo")),
        ("FOO", Err("Ambiguous enabled tool: FOO (write one of: mcp:gh~gh:Foo, mcp:gh~gh:foo)")),
        ("search", Err("Ambiguous enabled tool: search (write one of: app:search, mcp:gh~gh:search)")),
        ("mcp:twin:go", Err("Ambiguous enabled tool: mcp:twin:go (write one of: mcp:one~twin:go, mcp:two~twin:go)")),
        ("mcp:one~twin:go", Ok("mcp:one~twin:go")),
        ("a%2Cb", Ok("mcp:gh~gh:a,b")),
        ("mcp:gh~gh:a%2cb", Ok("mcp:gh~gh:a,b")),
        ("x*y", Ok("mcp:gh~gh:x*y")),
        ("mcp:fs~fs", Ok("mcp:fs~fs:read_file")),
        ("toolset:fs", Ok("mcp:fs~fs:read_file")),
        ("Toolset:App", Ok("app:write app:search")),
        ("toolset:builtin", Ok("read_file")),
        ("*:read_file", Ok("mcp:fs~fs:read_file")),
        ("read_*", Ok("read_file mcp:fs~fs:read_file")),
        ("app__*", Ok("app:write app:search")),
        ("mcp:*~twin:*", Ok("mcp:one~twin:go mcp:two~twin:go")),
        ("nope*", Err("Unknown enabled tool: nope*")),
        ("toolset:nope", Err("Unknown enabled tool: toolset:nope")),
        ("toolset:all", Err("Unknown enabled tool: toolset:all")),
        ("mcp:nope~nope", Err("Unknown enabled tool: mcp:nope~nope")),
        ("mcp:gh~gh:nope", Err("Unknown enabled tool: mcp:gh~gh:nope")),
        ("mcp:nope:search", Err("Unknown enabled tool: mcp:nope:search")),
        ("app:nope", Err("Unknown enabled tool: app:nope")),
        ("builtin:read_file", Err("Unknown enabled tool: builtin:read_file")),
        ("app", Err("Unknown enabled tool: app")),
        ("100%", Err("Unknown enabled tool: 100%")),
    ] {
        let found = world().global(&lists("", entry, "-"));
        assert_eq!(found.as_ref().map(String::as_str).map_err(String::as_str), expected, "{entry}");
    }
}

#[test]
fn an_ambiguous_name_is_one_of_what_is_left() {
    let found = world().request(&lists("-", "-", "app:search"), &lists("", "search", "-"));
    assert_eq!(found, Ok("mcp:gh~gh:search".to_owned()));
    let found = world().request(&lists("-", "-", "mcp:two~twin"), &lists("", "mcp:twin:go", "-"));
    assert_eq!(found, Ok("mcp:one~twin:go".to_owned()));
}

#[test]
fn lists_that_were_good_once() {
    let world = world();
    let catalogue = world.catalogue();
    let (left, problems) = catalogue.resolve_anyway(&lists("app,went", "read_file,foo", "search,also_went"));
    // One that has become ambiguous disables all that it could mean.
    assert_eq!(world.ids(&left), "read_file app:write mcp:gh~gh:foo");
    assert_eq!(problems.0.len(), 3, "{problems}");
    let (left, _) = catalogue.resolve_anyway(&lists("", "write,search", "-"));
    assert_eq!(world.ids(&left), "app:write");
    let (left, problems) = catalogue.resolve_anyway(&lists("", "-", "-"));
    assert_eq!((left.tools.len(), problems.to_string().as_str()), (0, "No tools left"));
}

#[test]
fn what_nobody_has_seen_yet_is_no_mistake() {
    let world = World::new(&["read_file", "app:write"]).server("new~new", false).server("old~old", true);
    for (list, expected) in [
        (lists("new", "-", "-"), Ok("")),
        (lists("", "mcp:new~new:go", "-"), Ok("")),
        (lists("", "mcp:new:go", "-"), Ok("")),
        (lists("", "mcp:new~new", "-"), Ok("")),
        (lists("", "toolset:new", "-"), Ok("")),
        (lists("", "mcp:new~new:g*", "-"), Ok("")),
        (lists("", "mcp:*:go", "-"), Ok("")),
        (lists("", "read_file", "mcp:new~new:go"), Ok("read_file")),
        (lists("new", "-", "mcp:new~new"), Err("No tools left")),
        (lists("", "go", "-"), Err("Unknown enabled tool: go")),
        (lists("", "g*", "-"), Err("Unknown enabled tool: g*")),
        (lists("", "mcp:old~old:go", "-"), Err("Unknown enabled tool: mcp:old~old:go")),
    ] {
        let found = world.global(&list);
        assert_eq!(found.as_ref().map(String::as_str).map_err(String::as_str), expected, "{list:?}");
    }
    let catalogue = world.catalogue();
    let left = catalogue.resolve(&lists("", "mcp:new~new:go", "-")).unwrap();
    assert_eq!(left.pending, [0]);
    assert!(left.admits_unseen(&"mcp:new~new:go".parse().unwrap()));
    assert!(!left.admits_unseen(&"mcp:new~new:stay".parse().unwrap()));
    assert!(!left.admits_unseen(&"mcp:old~old:go".parse().unwrap()));
    for (request, expected) in [
        (lists("new", "-", "-"), Ok(0)),
        (lists("", "mcp:new~new:go", "-"), Ok(0)),
        (lists("", "mcp:new~new:stay", "-"), Err("Unknown enabled tool: mcp:new~new:stay")),
        (lists("app", "-", "-"), Err("Unknown toolset: app")),
    ] {
        let found = catalogue.resolve_within(&left, &request).map(|left| left.tools.len());
        assert_eq!(found.map_err(|problems| problems.to_string()), expected.map_err(str::to_owned), "{request:?}");
    }
    let without = catalogue.resolve(&lists("app", "-", "-")).unwrap();
    let found = catalogue.resolve_within(&without, &lists("-", "mcp:new~new:go", "-"));
    assert_eq!(found.unwrap_err().to_string(), "Unknown enabled tool: mcp:new~new:go");
}

#[test]
fn what_a_server_had_once_is_no_mistake() {
    let world = World::new(&["mcp:gh~gh:search"]).gone("mcp:gh~gh:old");
    for entry in ["mcp:gh~gh:old", "mcp:gh:old", "old", "mcp__gh__old", "mcp:gh~gh:o*"] {
        assert_eq!(world.global(&lists("-", "-", entry)), Ok("mcp:gh~gh:search".to_owned()), "{entry}");
    }
    assert_eq!(world.global(&lists("-", "-", "older")), Err("Unknown disabled tool: older".to_owned()));
}

#[test]
fn texts() {
    let parse = |text| Lists::parse(RawLists { enabled_tools: Some(text), ..RawLists::default() });
    for (text, entries) in [
        ("", vec![]),
        (" , ,", vec![]),
        ("a", vec!["a"]),
        (" b , a,b ,", vec!["b", "a"]),
        ("Foo,foo", vec!["Foo", "foo"]),
        ("a%2Cb,%20c,d%25", vec!["a,b", " c", "d%"]),
        ("%,%2,%zz,%+7,%c3", vec!["%", "%2", "%zz", "%+7", "%c3"]),
        ("%C3%BC", vec!["ü"]),
    ] {
        assert_eq!(parse(text).unwrap().enabled_tools.unwrap(), entries, "{text:?}");
    }
    // What is written alone is told at once, what came with a request beside all else that is wrong.
    assert_eq!(
        parse("-a,b,-c").unwrap().checked().unwrap_err().messages(),
        [
            "The enabled tools take no entry with - in front: -a (name it in the disabled tools instead)",
            "The enabled tools take no entry with - in front: -c (name it in the disabled tools instead)",
        ]
    );
    let many: Vec<String> = (0..513).map(|number| number.to_string()).collect();
    assert_eq!(
        parse(&many.join(",")).unwrap_err().messages(),
        ["The enabled tools have 513 entries; at most 512 are allowed"]
    );
}

#[test]
fn yes_and_no() {
    let parse = |text| Lists::parse(RawLists { dynamic: Some(text), ..RawLists::default() }).map(|lists| lists.dynamic);
    for text in ["yes", "Y", " true ", "1"] {
        assert_eq!(parse(text), Ok(Some(true)), "{text:?}");
    }
    for text in ["no", "N", "FALSE", "0", "", " "] {
        assert_eq!(parse(text), Ok(Some(false)), "{text:?}");
    }
    assert_eq!(
        parse("maybe").unwrap_err().to_string(),
        "dynamic: Expected one of: yes, y, true, 1, no, n, false, 0, but got maybe"
    );
}

#[test]
fn the_selectors_of_a_chat() {
    let taken = |text: &str| Verdict::TakenBy(text.to_owned());
    for (selectors, id, toolset, expected) in [
        (vec![], "read_file", "builtin", Verdict::In),
        (vec!["read_file"], "read_file", "builtin", Verdict::In),
        (vec!["read_file"], "write_file", "builtin", Verdict::NotListed),
        // An id, and not every tool of that name.
        (vec!["read_file"], "mcp:fs~fs:read_file", "fs", Verdict::NotListed),
        (vec!["toolset:app"], "app:write", "app", Verdict::In),
        (vec!["toolset:gh"], "mcp:gh~gh:search", "gh", Verdict::In),
        (vec!["mcp:gh~gh"], "mcp:gh~gh:search", "gh", Verdict::In),
        (vec!["mcp:gh~gh"], "mcp:gh~other:search", "gh", Verdict::NotListed),
        (vec!["mcp:gh:search"], "mcp:gh~gh:search", "gh", Verdict::In),
        (vec!["app:*"], "app:write", "app", Verdict::In),
        (vec!["-delete_*"], "mcp:gh~gh:delete_all", "gh", taken("-delete_*")),
        (vec!["-delete_*"], "mcp:gh~gh:search", "gh", Verdict::In),
        (vec!["-app:write", "toolset:app"], "app:write", "app", taken("-app:write")),
        (vec!["toolset:app", "-app:write"], "app:search", "app", Verdict::In),
        (vec!["not_there"], "read_file", "builtin", Verdict::NotListed),
    ] {
        let found = ChatSelectors::parse(selectors.iter().copied()).verdict(&id.parse().unwrap(), toolset);
        assert_eq!(found, expected, "{selectors:?} {id}");
    }
    let mut selectors = ChatSelectors::parse(["mcp:gh:search"]);
    assert_eq!(selectors.old_servers().len(), 1);
    selectors.drop_old(&"gh".parse().unwrap());
    assert_eq!(selectors.verdict(&"mcp:gh~gh:search".parse().unwrap(), "gh"), Verdict::NotListed);
}
