//! The order of the steps, for a server's own lists and for a request's.

use super::super::{Reason, Resolved};
use super::{World, lists};

/// Two toolsets with three tools each.
fn small() -> World {
    World::new(&[
        "files:create_file",
        "files:get_file",
        "files:delete_file",
        "folders:create_folder",
        "folders:get_folder",
        "folders:delete_folder",
    ])
}

/// Four toolsets with 23 tools.
fn large() -> World {
    let mut ids = Vec::new();
    for (toolset, tools) in [
        (
            "files",
            "delete_file get_file_info update_file copy_batch_items move_batch_items download_file_as_text upload_file",
        ),
        ("folders", "create_folder delete_folder get_folder_content get_folder_info rename_folder get_my_folder"),
        (
            "rooms",
            "create_room get_room_info update_room archive_room set_room_security get_room_security_info get_rooms_folder \
             get_room_types get_room_access_levels",
        ),
        ("people", "get_all_people"),
    ] {
        ids.extend(tools.split_whitespace().map(|tool| format!("{toolset}:{tool}")));
    }
    World::new(&ids.iter().map(String::as_str).collect::<Vec<_>>())
}

const FILES: &str = "files:create_file files:get_file files:delete_file";
const FOLDERS: &str = "folders:create_folder folders:get_folder folders:delete_folder";

/// `Ok` with the ids, or `Err` with what is wrong.
type Row<'a> = (&'a str, &'a str, &'a str, Result<&'a str, &'a str>);

#[test]
fn the_servers_own_lists() {
    let all = format!("{FILES} {FOLDERS}");
    let six = "create_file,get_file,delete_file,create_folder,get_folder,delete_folder";
    let rows: Vec<Row<'_>> = vec![
        ("files", "create_folder", "-", Ok("files:create_file files:get_file files:delete_file folders:create_folder")),
        ("files", "create_folder", "get_file", Ok("files:create_file files:delete_file folders:create_folder")),
        (
            "",
            "create_file,get_file,create_folder",
            "get_file,delete_folder",
            Ok("files:create_file folders:create_folder"),
        ),
        ("-", "-", "-", Ok(&all)),
        ("all", "-", "-", Ok(&all)),
        ("all,files", "-", "-", Ok(&all)),
        ("ALL", "", "", Ok(&all)),
        (" Files ", "-", "-", Ok(FILES)),
        ("files,files,,", "-", "-", Ok(FILES)),
        // The order is the catalogue's, not that of the lists.
        ("folders,files", "-", "-", Ok(&all)),
        ("", "get_folder,create_file", "-", Ok("files:create_file folders:get_folder")),
        ("", "-", "-", Err("No tools left")),
        (",,", "", "-", Err("No tools left")),
        ("files,folders", "-", six, Err("No tools left")),
        ("-", "-", "*", Err("No tools left")),
        ("nope", "-", "-", Err("Unknown toolset: nope")),
        ("files", "nope", "-", Err("Unknown enabled tool: nope")),
        ("files", "-", "nope", Err("Unknown disabled tool: nope")),
        ("files", "all", "-", Err("Unknown enabled tool: all")),
        ("files", "-", "all", Err("Unknown disabled tool: all")),
        ("all,nope", "-", "-", Err("Unknown toolset: nope")),
        (
            "one,Two,two,files",
            "three,create_file",
            "four,FOUR",
            Err("Unknown toolset: one; Unknown toolset: Two; Unknown enabled tool: three; Unknown disabled tool: four"),
        ),
        (
            "-one,files,two",
            "-get_file,three",
            "-delete_file,four",
            Err("The toolsets take no entry with - in front: -one (name it in the disabled tools instead); \
                 Unknown toolset: two; \
                 The enabled tools take no entry with - in front: -get_file (name it in the disabled tools instead); \
                 Unknown enabled tool: three; \
                 The disabled tools take no entry with - in front: -delete_file (name it in the disabled tools instead); \
                 Unknown disabled tool: four"),
        ),
        ("files", "get_file", "get_file", Ok("files:create_file files:delete_file")),
        // Disabling what is not there is no error.
        ("files", "-", "get_folder", Ok(FILES)),
    ];
    for (toolsets, enabled, disabled, expected) in rows {
        let found = small().global(&lists(toolsets, enabled, disabled));
        assert_eq!(
            found.as_ref().map(String::as_str).map_err(String::as_str),
            expected,
            "{toolsets:?} {enabled:?} {disabled:?}"
        );
    }
}

#[test]
fn the_servers_own_lists_over_more_tools() {
    let count = |lists: &super::Lists| large().global(lists).map(|ids| ids.split_whitespace().count());
    assert_eq!(count(&lists("-", "-", "-")), Ok(23));
    assert_eq!(count(&lists("all,files", "-", "-")), Ok(23));
    assert_eq!(count(&lists("files", "-", "-")), Ok(7));
    assert_eq!(count(&lists("people,files", "-", "get_all_people")), Ok(7));
    assert_eq!(count(&lists("files", "get_file_info", "get_file_info")), Ok(6));
    assert_eq!(large().global(&lists("", "get_all_people", "-")), Ok("people:get_all_people".to_owned()));
    assert_eq!(
        large().global(&lists("people", "download_file_as_text", "download_file_as_text,get_all_people")),
        Err("No tools left".to_owned())
    );
}

#[test]
fn a_requests_lists() {
    let [but_get, both] = ["files:create_file files:delete_file".to_owned(), format!("{FILES} {FOLDERS}")];
    let only_get = "files:get_file";
    let five = format!("files:create_file files:delete_file {FOLDERS}");
    let with_one = format!("{FILES} folders:create_folder");
    type Three<'a> = (&'a str, &'a str, &'a str);
    let none = ("-", "-", "-");
    let rows: Vec<(Three<'_>, Three<'_>, Result<&str, &str>)> = vec![
        (("files", "-", "get_file"), none, Ok(&but_get)),
        (("files,folders", "-", "-"), ("files", "-", "-"), Ok(FILES)),
        (("files,folders", "-", "-"), ("files", "", "-"), Ok(FILES)),
        // A tool that is enabled alone does not bring its toolset.
        (("files", "create_folder", "-"), ("folders", "-", "-"), Ok("folders:create_folder")),
        (("files", "create_folder", "-"), none, Ok(&with_one)),
        (("files", "-", "get_file"), ("files", "-", "-"), Ok(&but_get)),
        (("files", "-", "-"), ("folders", "-", "-"), Err("Unknown toolset: folders")),
        (("files", "-", "-"), ("-", "get_folder", "-"), Err("Unknown enabled tool: get_folder")),
        (("files", "-", "get_file"), ("-", "get_file", "-"), Err("Unknown enabled tool: get_file")),
        (("files", "-", "get_file"), ("-", "files:get_file", "-"), Err("Unknown enabled tool: files:get_file")),
        (("files", "-", "get_file"), ("-", "-", "get_file"), Err("Unknown disabled tool: get_file")),
        (("files", "-", "get_file"), ("-", "get_f*", "-"), Err("Unknown enabled tool: get_f*")),
        (("files", "-", "-"), ("-", "toolset:folders", "-"), Err("Unknown enabled tool: toolset:folders")),
        (("all", "-", "-"), ("all", "-", "-"), Ok(&both)),
        (("files", "-", "-"), ("all", "-", "-"), Ok(FILES)),
        (("files,folders", "-", "-"), ("-", "-", "get_file"), Ok(&five)),
        (("files", "-", "-"), ("", "get_file", "-"), Ok(only_get)),
        (("files", "-", "-"), ("", "-", "-"), Err("No tools left")),
        (("files", "-", "-"), ("", "", "-"), Err("No tools left")),
        // A request that enables one and says nothing of toolsets has all that is allowed.
        (("files", "create_folder", "-"), ("-", "get_file", "-"), Ok(&with_one)),
        // What exists and is not allowed cannot be told from what does not exist.
        (
            ("files", "-", "-"),
            ("folders,nope", "get_folder,nope", "-"),
            Err(
                "Unknown toolset: folders; Unknown toolset: nope; Unknown enabled tool: get_folder; Unknown enabled tool: nope",
            ),
        ),
    ];
    for (global, request, expected) in rows {
        let found = small().request(&lists(global.0, global.1, global.2), &lists(request.0, request.1, request.2));
        assert_eq!(found.as_ref().map(String::as_str).map_err(String::as_str), expected, "{global:?} then {request:?}");
    }
}

#[test]
fn what_is_off_stays_off_and_is_no_mistake() {
    let world = World::new(&["a:one", "!a:two", "?b:three"]);
    assert_eq!(world.global(&lists("a", "two,three", "-")), Ok("a:one".to_owned()));
    assert_eq!(world.request(&lists("-", "-", "-"), &lists("b", "two", "-")), Ok(String::new()));
    assert_eq!(world.request(&lists("-", "-", "three"), &lists("b", "-", "-")), Err("Unknown toolset: b".to_owned()));
    // Nothing was asked for, so nothing is wrong.
    assert_eq!(World::default().request(&lists("-", "-", "-"), &lists("-", "-", "-")), Ok(String::new()));
}

#[test]
fn dynamic_falls_back_to_the_servers_own() {
    let world = small();
    let catalogue = world.catalogue();
    let with = |dynamic| super::Lists { dynamic, ..lists("-", "-", "-") };
    for (global, request, expected) in [
        (None, None, false),
        (Some(true), None, true),
        (Some(true), Some(false), false),
        (None, Some(true), true),
        (Some(false), Some(true), true),
    ] {
        let before = catalogue.resolve(&with(global)).unwrap();
        let left = catalogue.resolve_within(&before, &with(request)).unwrap();
        assert_eq!((left.dynamic, left.tools.len()), (expected, 6), "{global:?} {request:?}");
    }
}

#[test]
fn every_tool_has_a_reason() {
    let world = World::new(&["a:one", "a:two", "b:three", "b:four", "!a:five", "?a:six"]);
    let catalogue = world.catalogue();
    let reasons = |left: &Resolved| -> Vec<String> {
        (0..world.tools.len()).map(|place| left.reason(&catalogue, place).to_string()).collect()
    };
    let left = catalogue.resolve(&lists("a", "THREE", "t*")).unwrap();
    assert_eq!(
        reasons(&left),
        ["toolset a", "disabled by t*", "disabled by t*", "not in any list", "off", "it is broken"]
    );
    assert_eq!(left.reason(&catalogue, 0), Reason::Toolset("a".to_owned()));
    let before = catalogue.resolve(&lists("-", "-", "two")).unwrap();
    let left = catalogue.resolve_within(&before, &lists("b", "one", "b:four")).unwrap();
    assert_eq!(
        reasons(&left),
        [
            "enabled by one",
            "server's own lists: disabled by two",
            "toolset b",
            "disabled by b:four",
            "not in any list",
            "not in any list"
        ]
    );
    let left = catalogue.resolve_within(&before, &lists("-", "-", "-")).unwrap();
    assert_eq!(reasons(&left)[0], "all toolsets");
}

#[test]
fn one_toolset_alone() {
    let world = World::new(&["a:one", "a:two", "mcp:a~s:three", "mcp:a~t:four", "b:one"]);
    let catalogue = world.catalogue();
    let global = catalogue.resolve(&lists("-", "-", "two")).unwrap();
    let only = global.only_toolset(&catalogue, "a");
    assert_eq!(world.ids(&only), "a:one mcp:a~s:three mcp:a~t:four");
    // There the bare name is clear.
    let left = catalogue.resolve_within(&only, &lists("", "one", "-")).unwrap();
    assert_eq!(world.ids(&left), "a:one");
    let wrong = catalogue.resolve_within(&only, &lists("b", "b:one,two", "-")).unwrap_err();
    assert_eq!(wrong.to_string(), "Unknown toolset: b; Unknown enabled tool: b:one; Unknown enabled tool: two");
    let only = global.only_server(&catalogue, &"a~t".parse().unwrap());
    assert_eq!(world.ids(&only), "mcp:a~t:four");
    assert_eq!(
        catalogue.resolve_within(&only, &lists("-", "three", "-")).unwrap_err().to_string(),
        "Unknown enabled tool: three"
    );
}
