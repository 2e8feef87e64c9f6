//! What a file is taken for.

use kitbag_formats::archive::Limits;
use kitbag_formats::import::{Input, Kind, Options};

use super::{has, import, refused, zip};

const TOOLSET: &str = "id: x\nname: X\nversion: \"1.0.0\"\n";
const MCPB: &str = r#"{"manifest_version": "0.3", "name": "x", "version": "1.0.0", "description": "d", "author": {"name": "a"},
  "server": {"type": "node", "entry_point": "s.js", "mcp_config": {"command": "node", "args": ["${__dirname}/s.js"]}}}"#;
const PLUGIN: &str = r#"{"name": "p", "version": "1.0.0"}"#;
const SERVERS: &str = r#"{"a": {"command": "x"}}"#;
const SKILL: &str = "---\nname: s\ndescription: d\n---\nbody\n";
const MARKET: &str = r#"{"name": "m", "owner": {"name": "o"}, "plugins": [{"name": "one", "source": "./one"}, {"name": "two\u001b", "source": "./two"}]}"#;

#[test]
fn archives() {
    for (files, kind) in [
        (&[("toolset.yaml", TOOLSET)][..], Kind::Toolset),
        (&[("toolset.yml", TOOLSET), ("skills/s/SKILL.md", SKILL), (".mcp.json", SERVERS)], Kind::Toolset),
        (&[("top/toolset.yaml", TOOLSET)], Kind::Toolset),
        (&[("manifest.json", MCPB), ("s.js", "")], Kind::Mcpb),
        (&[("manifest.json", MCPB), ("s.js", ""), ("skills/s/SKILL.md", SKILL)], Kind::Mcpb),
        (&[("top/manifest.json", MCPB), ("top/s.js", ""), (".DS_Store", "")], Kind::Mcpb),
        (&[(".claude-plugin/plugin.json", PLUGIN), (".mcp.json", SERVERS)], Kind::Plugin),
        (&[(".mcp.json", SERVERS)], Kind::Plugin),
        (&[("skills/s/SKILL.md", SKILL)], Kind::Plugin),
        (&[("skills/s/SKILL.md", SKILL), ("manifest.json", "{}")], Kind::Plugin),
        (&[("skills/s/SKILL.md", SKILL), ("manifest.json", "no json")], Kind::Plugin),
        (&[("p/skills/s/SKILL.md", SKILL), ("p/README.md", "")], Kind::Plugin),
        (&[("SKILL.md", SKILL)], Kind::Skill),
        (&[("s/SKILL.md", SKILL), ("s/scripts/a.sh", "")], Kind::Skill),
    ] {
        assert_eq!(import(&zip(files), "x.zip", Options::default()).kind, kind, "{files:?}");
    }
}

#[test]
fn archives_that_are_two_things() {
    for (files, one, other) in [
        (&[("toolset.yaml", TOOLSET), ("manifest.json", MCPB)][..], "a toolset", "an MCP bundle"),
        (&[("toolset.yaml", TOOLSET), (".claude-plugin/plugin.json", PLUGIN)], "a toolset", "a plugin"),
        (&[("toolset.yaml", TOOLSET), ("SKILL.md", SKILL)], "a toolset", "a skill"),
        (&[("manifest.json", MCPB), ("SKILL.md", SKILL)], "an MCP bundle", "a skill"),
        (
            &[(".claude-plugin/marketplace.json", MARKET), (".claude-plugin/plugin.json", PLUGIN)],
            "a marketplace",
            "a plugin",
        ),
        (&[("SKILL.md", SKILL), (".mcp.json", SERVERS)], "a plugin", "a skill"),
        (&[("top/SKILL.md", SKILL), ("top/manifest.json", MCPB)], "an MCP bundle", "a skill"),
    ] {
        let message = refused(&zip(files), "x.zip");
        has(&message, &["this can be read in two ways", &format!("as {one} ("), &format!("as {other} (")]);
    }
}

#[test]
fn archives_that_are_nothing() {
    for (files, wanted) in [
        (&[("README.md", "")][..], "there is no toolset.yaml"),
        (&[("Toolset.yaml", TOOLSET)], "must be called toolset.yaml, in lower case"),
        (&[("a/b/toolset.yaml", TOOLSET)], "is too deep"),
        (
            &[("a/SKILL.md", SKILL), ("b/SKILL.md", SKILL)],
            "none of these either: a toolset (toolset.yaml); an MCP bundle",
        ),
        (&[("manifest.json", "no json")], "manifest.json:1:2: this is not JSON"),
        (&[("manifest.json", r#"{"server": 1, "server": 2}"#)], "the key \"server\" is there twice"),
        (&[("skills/readme.md", "")], "neither a server nor a skill"),
        (&[("manifest.json", MCPB), ("s.js", ""), ("Toolset.YAML", "")], "would be taken for the manifest"),
        (&[("manifest.json", MCPB), ("s.js", ""), ("toolset.yaml/x", "")], "would be taken for the manifest"),
    ] {
        has(&refused(&zip(files), "x.zip"), &[wanted]);
    }
}

#[test]
fn marketplaces_name_their_plugins() {
    let wanted = "a list of 2 plugins; import the one you want from its own folder: one, two\\u{1b}";
    has(
        &refused(&zip(&[(".claude-plugin/marketplace.json", MARKET), ("skills/s/SKILL.md", SKILL)]), "x.zip"),
        &[wanted],
    );
    has(&refused(MARKET.as_bytes(), "marketplace.json"), &[wanted]);
}

#[test]
fn json_files() {
    for (text, wanted) in [
        (
            r#"{"mcpServers": {"a": {"command": "x"}}, "servers": {"a": {"command": "x"}}}"#,
            "(mcpServers) and as a list of MCP servers (servers)",
        ),
        (r#"{"mcpServers": {"a": {"command": "x"}}, "packages": []}"#, "(mcpServers) and as a registry entry"),
        (
            r#"{"remotes": [], "plugins": [], "owner": {}}"#,
            "a registry entry (packages or remotes) and as a marketplace",
        ),
        (r#"{"servers": [{"server": {}}], "metadata": {}}"#, "this is nothing that can be imported"),
        ("{}", "this is nothing that can be imported"),
        ("[1]", "must be a JSON object"),
        (r#"{"a": {"command": "x"}, "b": 1}"#, "this is nothing that can be imported"),
        (MCPB, "import the bundle"),
        ("", "not a ZIP archive"),
        ("id: x", "not a ZIP archive"),
    ] {
        has(&refused(text.as_bytes(), "x.json"), &[wanted]);
    }
    assert!(Input::open(b"\xef\xbb\xbf {}", &Limits::BUNDLE).unwrap().archive().is_none());
    assert!(Input::open(&zip(&[("a", "")]), &Limits::BUNDLE).unwrap().archive().is_some());
}
