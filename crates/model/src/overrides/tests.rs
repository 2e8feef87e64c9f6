//! Keys and layers of overrides, as tables.

use serde_json::json;

use super::*;
use crate::name::ToolsetId;
use crate::override_key::OverrideKeyError;

fn app() -> ToolsetId {
    "app".parse().unwrap()
}

fn key(text: &str) -> OverrideKey {
    OverrideKey::parse(text, &app()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn keys_have_one_spelling() {
    for (text, canonical) in [
        ("analyze", "app:analyze"),
        ("  analyze\n", "app:analyze"),
        ("app:analyze", "app:analyze"),
        ("srv:search", "srv:search"),
        ("mcp:srv:search", "srv:search"),
        ("mcp:app~srv:search", "srv:search"),
        ("app~srv:search", "srv:search"),
        ("mcp:app~srv:a:b", "srv:a:b"),
        ("mcp:search", "app:search"),
        ("mcp:mcp:search", "mcp:mcp:search"),
        ("mcp:app~mcp:search", "mcp:mcp:search"),
        ("srv:*", "srv:*"),
        ("*:read_*", "*:read_*"),
        ("read_*", "app:read_*"),
        ("*", "app:*"),
        ("srv*:x", "srv*:x"),
        ("srv:with space/ü", "srv:with space/ü"),
    ] {
        assert_eq!(key(text).as_str(), canonical, "{text}");
        assert_eq!(key(key(text).as_str()), key(text), "{text}");
    }
    let long = format!("srv:{}", "x".repeat(1025));
    for (text, message) in [
        ("", "names no tool"),
        (" ", "names no tool"),
        ("srv:", "names no tool"),
        ("mcp:app~srv", "names no tool"),
        ("mcp:", "names no tool"),
        ("Srv:x", "\"Srv\" is neither a toolset id nor a server id"),
        (":x", "\"\" is neither a toolset id nor a server id"),
        ("a b:x", "\"a b\" is neither"),
        ("other~srv:x", "other~srv belongs to another toolset; overrides of \"app\" are for its own tools only"),
        ("mcp:other~srv:x", "other~srv belongs to another toolset"),
        ("app~a~b:x", "not a valid server id"),
        ("srv:a\nb", "the tool name must have"),
        (&long, "the tool name must have"),
    ] {
        let error = OverrideKey::parse(text, &app()).unwrap_err().to_string();
        assert!(error.starts_with(message), "{text:?}: {error}");
    }
    let other = OverrideKey::parse("other~srv:x", &app());
    assert!(matches!(other, Err(OverrideKeyError::OtherToolset { .. })));
}

#[test]
fn what_a_key_means() {
    for (pattern, tool, fits) in [
        ("analyze", "app:analyze", true),
        ("analyze", "app:analyze2", false),
        ("analyze", "app:Analyze", false),
        ("srv:search", "mcp:app~srv:search", true),
        ("srv:search", "mcp:app~srv2:search", false),
        ("srv:*", "mcp:app~srv:a:b", true),
        ("srv:*", "app:search", false),
        ("*:read_*", "mcp:app~srv:read_x", true),
        ("*:read_*", "app:read_", true),
        ("*:read_*", "mcp:app~srv:a:read_x", false),
        ("*:*read*", "mcp:app~srv:a:read_x", true),
        ("srv:a*b*c", "mcp:app~srv:aXbYbZc", true),
        ("srv:a*b*c", "mcp:app~srv:aXbYbZ", false),
        ("srv:**", "mcp:app~srv:x", true),
        ("srv:a*", "mcp:app~srv:ü", false),
        ("srv:*ü", "mcp:app~srv:aü", true),
        ("srv:x*y", "mcp:app~srv:x*y", true),
    ] {
        assert_eq!(key(pattern).matches(&tool.parse().unwrap()), fits, "{pattern} {tool}");
    }
    let builtin = OverrideKey::parse("write_file", &ToolsetId::builtin()).unwrap();
    assert_eq!(builtin.as_str(), "builtin:write_file");
    assert!(builtin.matches(&"write_file".parse().unwrap()));
    for tool in ["app:analyze", "mcp:app~srv:a:b*", "mcp:app~mcp:x", "write_file"] {
        let tool = tool.parse().unwrap();
        assert!(OverrideKey::of(&tool).matches(&tool));
    }
    // A pattern of many stars takes no time to speak of.
    let stars = format!("srv:{}b", "a*".repeat(400));
    assert!(!key(&stars).matches(&format!("mcp:app~srv:{}", "a".repeat(1000)).parse().unwrap()));
}

#[test]
fn the_most_precise_key_comes_first() {
    let mut keys: Vec<OverrideKey> = ["*:*", "srv:s*", "srv:search", "*:search", "srv:*", "*:se*h"].map(key).into();
    keys.sort_by(OverrideKey::by_precision);
    let texts: Vec<&str> = keys.iter().map(OverrideKey::as_str).collect();
    assert_eq!(texts, ["srv:search", "*:search", "*:se*h", "srv:s*", "srv:*", "*:*"]);
}

fn tool() -> ToolId {
    "mcp:app~srv:search".parse().unwrap()
}

fn base() -> Effective {
    Effective {
        name: Chosen::new("search".to_owned(), Origin::Tool),
        description: Chosen::new(Some("from the server".to_owned()), Origin::Tool),
        rendering: Chosen::new(None, Origin::Default),
        requires_confirmation: Chosen::new(true, Origin::Default),
        enabled: Chosen::new(true, Origin::Default),
    }
}

fn layer(list: &[(&str, serde_json::Value)]) -> Vec<(OverrideKey, Override)> {
    list.iter().map(|(text, value)| (key(text), serde_json::from_value(value.clone()).unwrap())).collect()
}

fn bundle(text: &str) -> Origin {
    Origin::Bundle { key: key(text) }
}

fn user(text: &str) -> Origin {
    Origin::User { key: key(text) }
}

#[test]
fn the_user_wins_property_by_property() {
    let bundle_layer = layer(&[
        ("srv:*", json!({"nameOverride": "Pattern", "descriptionOverride": "Pattern", "enabled": false})),
        ("srv:search", json!({"nameOverride": "Bundle", "renderer": "code", "rendererConfig": {"file": "x"}})),
        ("other:search", json!({"descriptionOverride": "not this one"})),
    ]);
    let user_layer = layer(&[("*:*", json!({"nameOverride": "User", "descriptionOverride": ""}))]);
    let found = Layers { bundle: &bundle_layer, user: &user_layer, trusted: false }.apply(&tool(), base());
    assert_eq!(found.name, Chosen::new("User".to_owned(), user("*:*")));
    assert_eq!(found.description, Chosen::new(Some("Pattern".to_owned()), bundle("srv:*")));
    assert_eq!(found.rendering.origin, bundle("srv:search"));
    assert_eq!(found.enabled, Chosen::new(false, bundle("srv:*")));
    assert_eq!(found.requires_confirmation, base().requires_confirmation);
    let alone = Layers { bundle: &bundle_layer, user: &[], trusted: false }.apply(&tool(), base());
    assert_eq!(alone.name, Chosen::new("Bundle".to_owned(), bundle("srv:search")), "the pattern is listed first");
    let nothing = Layers { bundle: &[], user: &[], trusted: true }.apply(&tool(), base());
    assert_eq!(nothing, base());
}

#[test]
fn a_renderer_brings_its_own_configuration() {
    let bundle_layer = layer(&[("srv:search", json!({"renderer": "code", "rendererConfig": {"file": "x"}}))]);
    let user_layer = layer(&[("srv:search", json!({"renderer": "markdown"}))]);
    let found = Layers { bundle: &bundle_layer, user: &user_layer, trusted: false }.apply(&tool(), base());
    let rendering = found.rendering.value.unwrap();
    assert_eq!((rendering.renderer().name(), rendering.config().len()), ("document", 0));
    assert_eq!(found.rendering.origin, user("srv:search"));
}

#[test]
fn confirmation_is_lowered_by_trusted_hands_only() {
    for (base_value, from_bundle, from_user, trusted, value, origin) in [
        (true, None, None, false, true, Origin::Default),
        (true, Some(false), None, false, true, Origin::Default),
        (true, Some(false), None, true, false, bundle("srv:search")),
        (false, Some(true), None, false, true, bundle("srv:search")),
        (false, Some(false), None, false, false, bundle("srv:search")),
        (true, None, Some(false), false, false, user("srv:search")),
        (true, Some(true), Some(false), false, false, user("srv:search")),
        (true, Some(false), Some(true), true, true, user("srv:search")),
        (false, None, Some(true), true, true, user("srv:search")),
    ] {
        let said = |value: Option<bool>| layer(&[("srv:search", json!({"requiresConfirmation": value}))]);
        let (bundle_layer, user_layer) = (said(from_bundle), said(from_user));
        let layers = Layers { bundle: &bundle_layer, user: &user_layer, trusted };
        let base = Effective { requires_confirmation: Chosen::new(base_value, Origin::Default), ..base() };
        let found = layers.apply(&tool(), base).requires_confirmation;
        assert_eq!(found, Chosen::new(value, origin), "{base_value} {from_bundle:?} {from_user:?} {trusted}");
    }
}

#[test]
fn an_override_without_enabled_enables_nothing() {
    let off = || Effective { enabled: Chosen::new(false, Origin::Tool), ..base() };
    let renderer_only = layer(&[("srv:search", json!({"renderer": "code"}))]);
    let found = Layers { bundle: &renderer_only, user: &renderer_only, trusted: true }.apply(&tool(), off());
    assert_eq!(found.enabled, Chosen::new(false, Origin::Tool));
    let on = layer(&[("srv:search", json!({"enabled": true}))]);
    assert!(Layers { bundle: &[], user: &on, trusted: true }.apply(&tool(), off()).enabled.value);
}

#[test]
fn the_strictest_explicit_answer_holds() {
    for (default, tool, server, value, origin) in [
        (false, None, None, false, Origin::Default),
        (true, None, None, true, Origin::Default),
        (true, None, Some(false), false, Origin::Server),
        (false, Some(true), None, true, Origin::Tool),
        (false, Some(false), Some(true), true, Origin::Server),
        (true, Some(false), Some(false), false, Origin::Tool),
    ] {
        let found = confirmation(default, &[(tool, Origin::Tool), (server, Origin::Server)]);
        assert_eq!(found, Chosen::new(value, origin), "{default} {tool:?} {server:?}");
    }
}

#[test]
fn overrides_in_json() {
    let text = json!({"renderer": "code", "rendererConfig": {"file": "$args.path"}, "nameOverride": "N", "descriptionOverride": null, "requiresConfirmation": true, "enabled": null});
    let value: Override = serde_json::from_value(text.clone()).unwrap();
    assert_eq!(serde_json::to_value(&value).unwrap(), text);
    for bad in [json!({"rendererConfig": {}}), json!({"renderer": "x"}), json!({"name": "x"}), json!({"enabled": 1})] {
        assert!(serde_json::from_value::<Override>(bad.clone()).is_err(), "{bad}");
    }
    assert!(Override::default().is_empty());
}
