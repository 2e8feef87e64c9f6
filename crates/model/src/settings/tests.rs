//! What settings may say, in tables.

use serde_json::{Value, json};

use super::{HostPattern, OrgSettings};

fn read(value: Value) -> Result<OrgSettings, String> {
    serde_json::from_value(value).map_err(|error| error.to_string())
}

#[test]
fn nothing_said_is_the_default() {
    let default = OrgSettings::default();
    for said in [
        json!({}),
        json!({ "quotas": null, "network": {}, "resolution": { "toolsets": null, "dynamic": null } }),
        serde_json::to_value(&default).unwrap(),
    ] {
        assert_eq!(read(said).unwrap(), default);
    }
}

#[test]
fn what_is_written_is_read_again() {
    let said = json!({
        "toolsets": { "defaultToolsetId": "files" },
        "resolution": { "toolsets": [], "enabledTools": ["a:b"], "disabledTools": null, "dynamic": true },
        "quotas": { "callsPerMinute": 1, "concurrentCalls": 10_000, "workspaceBytes": 1_u64 << 50, "executorsInFlight": 2, "queuedRuns": 3 },
        "retention": { "chatDays": 36_500, "auditDays": 1 },
        "network": { "allow": ["*.example.org", "192.0.2.1"] },
    });
    let settings = read(said.clone()).unwrap();
    assert_eq!(serde_json::to_value(&settings).unwrap(), said);
    assert_eq!(serde_json::from_str::<OrgSettings>(&settings.to_text()).unwrap(), settings);
}

#[test]
fn what_is_wrong_is_told() {
    for (said, told) in [
        (json!({ "quota": {} }), "unknown field `quota`"),
        (json!({ "quotas": { "callsPerHour": 1 } }), "unknown field `callsPerHour`"),
        (json!({ "toolsets": { "defaultToolsetId": "A B" } }), "toolset"),
        (json!({ "quotas": { "callsPerMinute": 0 } }), "must be a whole number from 1 to 1000000, not 0"),
        (json!({ "quotas": { "callsPerMinute": -1 } }), "must be a whole number from 1 to 1000000, not -1"),
        (json!({ "quotas": { "callsPerMinute": 1.5 } }), "must be a whole number from 1 to 1000000, not 1.5"),
        (json!({ "quotas": { "concurrentCalls": "5" } }), "must be a whole number from 1 to 10000, not a text"),
        (json!({ "quotas": { "workspaceBytes": (1_u64 << 50) + 1 } }), "must be a whole number from 1 to"),
        (json!({ "retention": { "chatDays": 36_501 } }), "must be a whole number from 1 to 36500"),
        (json!({ "network": { "allow": ["https://example.org"] } }), "is no host"),
        (json!({ "network": { "allow": vec!["a.example"; 257] } }), "has 257 hosts; at most 256 are allowed"),
        (json!({ "resolution": { "toolsets": "all" } }), "expected a sequence"),
    ] {
        let error = read(said.clone()).unwrap_err();
        assert!(error.contains(told), "{said}: {error}");
    }
}

#[test]
fn hosts() {
    for (written, kept) in [
        ("example.org", Some("example.org")),
        ("API.Example.org.", Some("api.example.org")),
        ("*.example.org", Some("*.example.org")),
        ("bücher.example", Some("xn--bcher-kva.example")),
        ("192.0.2.1", Some("192.0.2.1")),
        ("0x7f000001", Some("127.0.0.1")),
        ("[2001:DB8::1]", Some("[2001:db8::1]")),
        ("localhost", Some("localhost")),
        ("", None),
        ("*", None),
        ("*.", None),
        ("*.192.0.2.1", None),
        ("a.*.example.org", None),
        ("example.org:443", None),
        ("https://example.org", None),
        ("example.org/path", None),
        ("a..b", None),
        (" example.org", None),
        ("user@example.org", None),
    ] {
        let read = written.parse::<HostPattern>().ok();
        assert_eq!(read.as_ref().map(HostPattern::as_str), kept, "{written:?}");
    }
}

#[test]
fn lists_are_what_resolution_reads() {
    let said =
        json!({ "resolution": { "toolsets": [" all ", "", "all"], "enabledTools": ["a,b"], "disabledTools": [] } });
    let lists = read(said).unwrap().resolution.lists().unwrap();
    assert_eq!(lists.toolsets.unwrap(), ["all"]);
    assert_eq!(lists.enabled_tools.unwrap(), ["a,b"], "an entry is one name, whatever is in it");
    assert_eq!(lists.disabled_tools.unwrap(), Vec::<String>::new());
    let wrong = json!({ "resolution": { "toolsets": ["-x"], "enabledTools": ["t"], "disabledTools": (0..513).map(|n| n.to_string()).collect::<Vec<_>>() } });
    let problems = read(wrong).unwrap().resolution.lists().unwrap_err();
    assert_eq!(problems.messages().len(), 2, "{problems}");
}

#[test]
fn which_keys_changed() {
    let before = read(json!({ "quotas": { "callsPerMinute": 5 }, "network": { "allow": ["a.example"] } })).unwrap();
    let after = read(json!({ "quotas": { "callsPerMinute": 6 }, "toolsets": { "defaultToolsetId": "x" } })).unwrap();
    let mut changed = after.changed_since(&before);
    changed.sort();
    assert_eq!(changed, ["network.allow", "quotas.callsPerMinute", "toolsets.defaultToolsetId"]);
    assert!(after.changed_since(&after).is_empty());
    assert_ne!(after.digest(), before.digest());
}
