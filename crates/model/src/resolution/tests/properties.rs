//! What holds for all lists.

use proptest::prelude::*;

use super::super::Lists;
use super::World;

const ENTRIES: [&str; 16] = [
    "a",
    "b",
    "c",
    "all",
    "one",
    "two",
    "a:one",
    "b:two",
    "mcp:c~s",
    "mcp:c~s:x",
    "mcp:c~t:y",
    "toolset:b",
    "*o*",
    "mcp:c~t",
    "nope",
    "!",
];

fn world() -> World {
    World::new(&["read", "a:one", "!a:two", "b:one", "b:two", "mcp:c~s:x", "?mcp:c~s:one", "mcp:c~s:z"])
        .server("c~t", false)
}

fn list() -> impl Strategy<Value = Option<Vec<String>>> {
    let entry = proptest::sample::select(&ENTRIES).prop_map(str::to_owned);
    proptest::option::of(proptest::collection::vec(entry, 0..4))
}

fn any_lists() -> impl Strategy<Value = Lists> {
    (list(), list(), list(), any::<Option<bool>>()).prop_map(|(toolsets, enabled_tools, disabled_tools, dynamic)| {
        Lists { toolsets, enabled_tools, disabled_tools, dynamic }
    })
}

proptest! {
    #[test]
    fn a_request_never_widens(global in any_lists(), request in any_lists(), third in any_lists()) {
        let world = world();
        let catalogue = world.catalogue();
        let (before, _) = catalogue.resolve_anyway(&global);
        if let Ok(left) = catalogue.resolve_within(&before, &request) {
            prop_assert!(left.tools.iter().all(|place| before.contains(*place)));
            prop_assert!(left.pending.iter().all(|place| before.pending.contains(place)));
            for id in ["mcp:c~t:y", "mcp:c~t:z"] {
                let id = id.parse().unwrap();
                prop_assert!(before.admits_unseen(&id) || !left.admits_unseen(&id));
            }
            if let Ok(further) = catalogue.resolve_within(&left, &third) {
                prop_assert!(further.tools.iter().all(|place| left.contains(*place)));
            }
        }
    }

    #[test]
    fn the_order_is_the_catalogues_and_what_is_listed_can_be_called(lists in any_lists()) {
        let world = world();
        let (left, _) = world.catalogue().resolve_anyway(&lists);
        prop_assert!(left.tools.is_sorted_by(|a, b| a < b));
        prop_assert!(left.tools.iter().all(|place| !world.tools[*place].off && world.tools[*place].problem.is_none()));
        for place in 0..world.tools.len() {
            prop_assert_eq!(left.reason(&world.catalogue(), place).is_in(), left.contains(place));
        }
    }

    #[test]
    fn disabled_wins(lists in any_lists(), entry in proptest::sample::select(&ENTRIES)) {
        let world = world();
        let catalogue = world.catalogue();
        let only = Lists { toolsets: Some(Vec::new()), enabled_tools: Some(vec![entry.to_owned()]), ..Lists::default() };
        let mut without = lists.clone();
        without.disabled_tools.get_or_insert_default().push(entry.to_owned());
        let (meant, _) = catalogue.resolve_anyway(&only);
        let (left, _) = catalogue.resolve_anyway(&without);
        prop_assert!(meant.tools.iter().all(|place| !left.contains(*place)));
        // And it takes nothing else.
        let (with, _) = catalogue.resolve_anyway(&lists);
        prop_assert!(left.tools.iter().all(|place| with.contains(*place)));
    }

    #[test]
    fn a_request_that_says_nothing_changes_nothing(global in any_lists()) {
        let world = world();
        let catalogue = world.catalogue();
        if let Ok(before) = catalogue.resolve(&global) {
            let left = catalogue.resolve_within(&before, &Lists::default()).unwrap();
            prop_assert_eq!((left.tools, left.pending, left.dynamic), (before.tools, before.pending, before.dynamic));
        }
    }

    #[test]
    fn any_text_is_read_without_a_panic(toolsets in ".*", enabled in ".*") {
        let raw = super::RawLists { toolsets: Some(&toolsets), enabled_tools: Some(&enabled), ..Default::default() };
        if let Ok(lists) = Lists::parse(raw) {
            let _ = world().global(&lists);
        }
    }
}
