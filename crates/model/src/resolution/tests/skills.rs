//! Skills come and go with their toolset.

use super::{World, lists};

#[test]
fn with_their_toolset_and_never_with_a_tool() {
    let world = World::new(&["think", "app:run", "kit:run"]).toolset("lore");
    let skilled = ["kit".to_owned(), "lore".to_owned()];
    for (global, request, expected) in [
        (("-", "-", "-"), ("-", "-", "-"), Ok("kit lore")),
        (("-", "-", "-"), ("lore", "-", "-"), Ok("lore")),
        (("-", "-", "-"), ("LORE,app", "-", "-"), Ok("lore")),
        (("-", "-", "-"), ("app", "kit:run", "-"), Ok("")),
        (("-", "-", "-"), ("app", "toolset:kit", "-"), Ok("kit")),
        (("-", "-", "-"), ("-", "-", "toolset:kit"), Ok("lore")),
        (("-", "-", "-"), ("-", "-", "kit:run"), Ok("kit lore")),
        (("-", "-", "-"), ("", "-", "-"), Err("No tools left")),
        (("-", "-", "-"), ("lore", "-", "toolset:lore"), Err("No tools left")),
        // What the first step left out is unknown in the second.
        (("kit", "-", "-"), ("lore", "-", "-"), Err("Unknown toolset: lore")),
        (("kit", "-", "-"), ("-", "-", "-"), Ok("kit")),
        (("lore", "-", "-"), ("-", "-", "-"), Ok("lore")),
    ] {
        let catalogue = world.catalogue().with_skills(&skilled);
        let of = |(toolsets, enabled, disabled)| lists(toolsets, enabled, disabled);
        let before = catalogue.resolve(&of(global)).unwrap_or_else(|problems| panic!("{global:?}: {problems}"));
        let left = catalogue.resolve_within(&before, &of(request)).map_err(|problems| problems.to_string());
        let kept = left.map(|left| {
            let kept: Vec<&str> = skilled.iter().map(String::as_str).filter(|id| left.has_skills_of(id)).collect();
            kept.join(" ")
        });
        assert_eq!(kept, expected.map(str::to_owned).map_err(str::to_owned), "{global:?} {request:?}");
    }
}
