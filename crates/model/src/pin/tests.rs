//! What lists mean for pins.

use serde_json::json;

use super::*;

fn pinned(description: &str) -> Pinned {
    Pinned::new(json!({ "name": "x", "description": description }).as_object().unwrap().clone())
}

fn list(tools: &[(&str, &str)]) -> Vec<(McpToolName, Pinned)> {
    tools.iter().map(|(name, description)| (name.parse().unwrap(), pinned(description))).collect()
}

fn look(policy: PinPolicy, before: &Sight, tools: &[(&str, &str)]) -> Sight {
    let (server, now) = ("a~b".parse().unwrap(), Timestamp::now());
    judge(&server, policy, false, before.pins.clone(), &list(tools), now)
}

fn first(policy: PinPolicy, tools: &[(&str, &str)]) -> Sight {
    judge(&"a~b".parse().unwrap(), policy, true, Vec::new(), &list(tools), Timestamp::now())
}

fn names(names: &[McpToolName]) -> Vec<&str> {
    names.iter().map(McpToolName::as_str).collect()
}

/// Each pin as `name state waits listed`, for short.
fn pins(sight: &Sight) -> Vec<String> {
    let mark = |yes, mark: &str| if yes { mark.to_owned() } else { String::new() };
    let one = |pin: &Pin| {
        format!("{} {}{}{}", pin.tool, pin.state, mark(pin.is_waiting(), " waits"), mark(!pin.listed, " gone"))
    };
    sight.pins.iter().map(one).collect()
}

#[test]
fn the_first_list_is_accepted_under_every_policy() {
    for policy in PinPolicy::ALL {
        let sight = first(*policy, &[("b", "1"), ("a", "1"), ("b", "again")]);
        assert!(sight.first && sight.is_news());
        assert_eq!((names(&sight.new), pins(&sight)), (vec!["b", "a"], vec!["b accepted".into(), "a accepted".into()]));
        assert_eq!(sight.pins[0].seen, pinned("1"), "the first of two with one name counts");
        let same = look(*policy, &sight, &[("b", "1"), ("a", "1")]);
        assert!(!same.is_news());
        assert_eq!((names(&same.unchanged), pins(&same)), (vec!["b", "a"], pins(&sight)));
    }
}

#[test]
fn a_changed_tool_and_a_new_one_wait_as_the_policy_says() {
    for (policy, after) in [
        (PinPolicy::Quarantine, vec!["a quarantined waits", "b accepted", "c quarantined waits"]),
        (PinPolicy::Warn, vec!["a accepted waits", "b accepted", "c accepted waits"]),
        (PinPolicy::Accept, vec!["a accepted", "b accepted", "c accepted"]),
    ] {
        let before = first(policy, &[("a", "1"), ("b", "1")]);
        let sight = look(policy, &before, &[("a", "2"), ("b", "1"), ("c", "1")]);
        assert_eq!(
            (names(&sight.changed), names(&sight.new), names(&sight.unchanged)),
            (vec!["a"], vec!["c"], vec!["b"])
        );
        assert_eq!(pins(&sight), after, "{policy}");
        // A third definition is compared with what was accepted, not with the second; the first one is good again.
        let third = look(policy, &sight, &[("a", "3"), ("b", "1"), ("c", "1")]);
        assert_eq!(pins(&third), after, "{policy}");
        if policy != PinPolicy::Accept {
            assert_eq!(third.pins[0].accepted, Acceptance::Other(pinned("1")));
            assert_eq!(third.pins[2].accepted, Acceptance::Never, "a new tool is not accepted by being listed twice");
        }
        let back = look(policy, &third, &[("a", "1"), ("b", "1"), ("c", "1")]);
        assert_eq!(pins(&back)[0], "a accepted");
    }
}

#[test]
fn a_tool_that_went_does_not_come_back_as_another_one() {
    let before = first(PinPolicy::Quarantine, &[("a", "1"), ("b", "1")]);
    let without = look(PinPolicy::Quarantine, &before, &[("b", "1")]);
    assert_eq!(
        (names(&without.gone), pins(&without)),
        (vec!["a"], vec!["b accepted".into(), "a accepted gone".into()])
    );
    assert!(!look(PinPolicy::Quarantine, &without, &[("b", "1")]).is_news(), "it went once");
    let same = look(PinPolicy::Quarantine, &without, &[("b", "1"), ("a", "1")]);
    assert_eq!((names(&same.new), pins(&same)), (vec!["a"], vec!["b accepted".to_owned(), "a accepted".to_owned()]));
    let other = look(PinPolicy::Quarantine, &without, &[("b", "1"), ("a", "2")]);
    assert_eq!(pins(&other), ["b accepted", "a quarantined waits"]);
    // What nobody accepted, and what nobody compares, is forgotten.
    let with = look(PinPolicy::Quarantine, &before, &[("a", "1"), ("b", "1"), ("c", "1")]);
    assert_eq!(pins(&look(PinPolicy::Quarantine, &with, &[("a", "1"), ("b", "1")])), ["a accepted", "b accepted"]);
    assert_eq!(pins(&look(PinPolicy::Accept, &before, &[("b", "1")])), ["b accepted"]);
}

#[test]
fn hashes_of_definitions() {
    let of = |value: Value| definition_hash(value.as_object().unwrap());
    let one = of(
        json!({ "name": "a", "inputSchema": { "type": "object", "properties": { "x": {}, "y": {} } }, "l": [1, "2"] }),
    );
    let other = of(
        json!({ "l": [1, "2"], "inputSchema": { "properties": { "y": {}, "x": {} }, "type": "object" }, "name": "a" }),
    );
    assert_eq!(one, other);
    let canonical = br#"{"inputSchema":{"properties":{"x":{},"y":{}},"type":"object"},"l":[1,"2"],"name":"a"}"#;
    assert_eq!(one, ContentHash::of(canonical));
    let all = [
        json!({}),
        json!({ "a": null }),
        json!({ "a": [] }),
        json!({ "a": {} }),
        json!({ "a": [1, 2] }),
        json!({ "a": [2, 1] }),
        json!({ "a": ["1,2"] }),
        json!({ "a": "\",\"b\":\"" }),
        json!({ "a": "", "b": "" }),
    ];
    let hashes: HashSet<ContentHash> = all.iter().map(|value| of(value.clone())).collect();
    assert_eq!(hashes.len(), all.len());
}

#[test]
fn differences() {
    let map = |value: Value| value.as_object().unwrap().clone();
    let before = map(json!({ "name": "a", "description": "one", "title": "A", "inputSchema": { "x": 1, "y": 2 } }));
    let after = map(json!({ "name": "a", "inputSchema": { "y": 2, "x": 1 }, "description": "two", "_meta": {} }));
    let change =
        |field: &str, before: Option<Value>, after: Option<Value>| FieldChange { field: field.into(), before, after };
    assert_eq!(
        difference(&before, &after),
        [
            change("_meta", None, Some(json!({}))),
            change("description", Some(json!("one")), Some(json!("two"))),
            change("title", Some(json!("A")), None),
        ]
    );
}

#[test]
fn a_yes_to_all_is_bound_to_what_waits() {
    let before = first(PinPolicy::Quarantine, &[("a", "1"), ("b", "1")]);
    let none = waiting_hash(&before.pins);
    let one = waiting_hash(&look(PinPolicy::Quarantine, &before, &[("a", "2"), ("b", "1")]).pins);
    let another = waiting_hash(&look(PinPolicy::Quarantine, &before, &[("a", "3"), ("b", "1")]).pins);
    let two = waiting_hash(&look(PinPolicy::Quarantine, &before, &[("a", "2"), ("b", "2")]).pins);
    let all = HashSet::from([none, one, another, two]);
    assert_eq!(all.len(), 4);
}
