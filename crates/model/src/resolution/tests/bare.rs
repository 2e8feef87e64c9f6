//! Servers without tools come and go with their toolset, for what else they have.

use super::{World, lists};

#[test]
fn with_their_toolset_and_never_with_a_tool() {
    let world = World::new(&["think", "mcp:app~app:run"]).bare("books~books").bare("app~notes");
    for (global, request, expected) in [
        (("-", "-", "-"), ("-", "-", "-"), Ok("books~books app~notes")),
        (("-", "-", "-"), ("BOOKS", "-", "-"), Ok("books~books")),
        (("-", "-", "-"), ("app", "mcp:books~books", "-"), Ok("books~books app~notes")),
        (("-", "-", "-"), ("app", "-", "mcp:app~notes"), Ok("")),
        (("-", "-", "-"), ("-", "-", "toolset:books"), Ok("app~notes")),
        (("-", "-", "-"), ("-", "-", "mcp:*"), Ok("")),
        // A name of a tool that it does not have is unknown, and brings nothing.
        (("-", "-", "-"), ("app", "mcp:books~books:read", "-"), Err("Unknown enabled tool: mcp:books~books:read")),
        (("-", "-", "-"), ("", "think", "-"), Ok("")),
        (("-", "-", "-"), ("", "-", "-"), Err("No tools left")),
        // What the first step left out is unknown in the second.
        (("app", "-", "-"), ("books", "-", "-"), Err("Unknown toolset: books")),
        (("app", "-", "-"), ("-", "mcp:books~books", "-"), Err("Unknown enabled tool: mcp:books~books")),
        (("app", "-", "-"), ("all", "-", "-"), Ok("app~notes")),
        (("books", "-", "-"), ("-", "-", "-"), Ok("books~books")),
    ] {
        let catalogue = world.catalogue();
        let of = |(toolsets, enabled, disabled)| lists(toolsets, enabled, disabled);
        let before = catalogue.resolve(&of(global)).unwrap_or_else(|problems| panic!("{global:?}: {problems}"));
        let left = catalogue.resolve_within(&before, &of(request)).map_err(|problems| problems.to_string());
        let kept = left.map(|left| {
            let kept: Vec<String> = left.bare.iter().map(|at| world.servers[*at].key.to_string()).collect();
            kept.join(" ")
        });
        assert_eq!(kept, expected.map(str::to_owned).map_err(str::to_owned), "{global:?} {request:?}");
    }
    // On the endpoint of its own toolset it is all that there is.
    let catalogue = world.catalogue();
    let only = catalogue.resolve(&lists("-", "-", "-")).unwrap().only_toolset(&catalogue, "books");
    for request in [lists("-", "-", "-"), lists("books", "-", "-")] {
        assert_eq!(catalogue.resolve_within(&only, &request).unwrap().bare, [1]);
    }
    assert!(catalogue.resolve_within(&only, &lists("app", "-", "-")).is_err());
}
