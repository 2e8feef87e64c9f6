//! Skills, as tables.

use serde_json::json;

use super::*;
use crate::Problems;

/// A `SKILL.md` with these fields.
fn file(fields: &str) -> String {
    format!("---\n{fields}\n---\n\n# Body\n")
}

fn strict(text: &str) -> Result<Read, Problems> {
    read(text.as_bytes(), Some("my-skill"), Strictness::Strict)
}

fn lenient(text: &str) -> Result<Read, Problems> {
    read(text.as_bytes(), Some("my-skill"), Strictness::Lenient)
}

fn first(result: &Result<Read, Problems>) -> String {
    match result {
        Ok(read) => read.warnings.first().map_or("fine".to_owned(), |warning| format!("warning: {}", warning.message)),
        Err(problems) => format!("line {}: {}", problems.0[0].line, problems.0[0].message),
    }
}

#[test]
fn a_whole_skill() {
    let text = "---\r\nname: my-skill\r\ndescription: >-\r\n  Does things.\r\n  Use it.\r\nlicense: MIT\r\ncompatibility: Needs git\r\nmetadata:\r\n  version: 1.10\r\n  author: x\r\nallowed-tools: Bash(git add *) Read, Write\r\n---\r\n# Body\r\n";
    let skill = strict(text).unwrap().skill;
    assert_eq!((skill.name.as_str(), skill.description.as_str()), ("my-skill", "Does things. Use it."));
    assert_eq!((skill.license.as_deref(), skill.compatibility.as_deref()), (Some("MIT"), Some("Needs git")));
    assert_eq!(skill.metadata["version"], "1.10", "a text, not a number");
    assert_eq!(skill.allowed_tools, ["Bash(git add *)", "Read", "Write"]);
    assert_eq!(skill.body, "# Body");
}

#[test]
fn strict_and_lenient() {
    let (long_name, name_64) = ("a".repeat(65), "a".repeat(64));
    let description = |length: usize| format!("name: my-skill\ndescription: {}", "x".repeat(length));
    let compatibility =
        |length: usize| format!("name: my-skill\ndescription: d\ncompatibility: {}", "x".repeat(length));
    let rule = "name: not a valid skill id";
    let other = "name must be the name of the folder, my-skill";
    for (fields, in_strict, in_lenient) in [
        ("name: my-skill\ndescription: d", "fine", "fine"),
        ("name: My-Skill\ndescription: d", rule, "warning: name: not a valid"),
        ("name: my--skill\ndescription: d", rule, "warning: name: not a valid"),
        ("name: -my-skill\ndescription: d", rule, "warning: name: not a valid"),
        ("name: my_skill\ndescription: d", rule, "warning: name: not a valid"),
        ("name: café\ndescription: d", rule, "warning: name: not a valid"),
        (&format!("name: {long_name}\ndescription: d"), rule, "warning: name: not a valid"),
        (&format!("name: {name_64}\ndescription: d"), other, "warning: name must be the name of the folder"),
        ("name: other\ndescription: d", other, "warning: name must be the name of the folder"),
        ("description: d", "the front matter has no name", "warning: the front matter has no name; the folder's name"),
        ("name:\ndescription: d", "the front matter has no name", "warning: the front matter has no name"),
        ("name: [a]\ndescription: d", "the front matter has no name", "warning: the front matter has no name"),
        ("name: my-skill", "the front matter has no description", "line 2: the front matter has no description"),
        ("name: my-skill\ndescription: ' '", "the front matter has no description", "line 2: the front matter has no"),
        (&description(1024), "fine", "fine"),
        (&description(1025), "description must have at most 1024 characters, not 1025", "warning: description must"),
        (&compatibility(500), "fine", "fine"),
        (&compatibility(501), "compatibility must have at most 500 characters, not 501", "warning: compatibility"),
        ("name: my-skill\ndescription: d\nversion: 1", "\"version\" is no field", "warning: \"version\" is no field"),
        ("name: my-skill\ndescription: d\nlicense: [a]", "license must be a text", "warning: license must be a text"),
        ("name: my-skill\ndescription: d\nmetadata: x", "metadata must be a map", "warning: metadata must be a map"),
        ("name: my-skill\ndescription: d\nmetadata:\n  a: [b]", "metadata.a must be a text", "warning: metadata.a"),
        ("name: my-skill\ndescription: d\nallowed-tools:\n  - Read\n  - Bash(*)", "fine", "fine"),
        ("name: my-skill\ndescription: d\nallowed-tools:\n  a: b", "allowed-tools must be", "warning: allowed-tools"),
        ("name: my-skill\ndescription: Use when: x", "this is not YAML", "line 3: this is not YAML"),
        ("name: my-skill\nname: b\ndescription: d", "the key \"name\" is there twice", "line 3: the key \"name\""),
        ("name: &a my-skill\ndescription: d", "anchors", "line 2: anchors"),
        ("name: !!str my-skill\ndescription: d", "tags", "line 2: tags"),
        ("- a", "the front matter must be a map", "line 2: the front matter must be a map"),
        ("", "SKILL.md must begin with front matter", "line 1: SKILL.md must begin with front matter"),
    ] {
        let strictly = first(&strict(&file(fields)));
        assert!(
            strictly == in_strict || strictly.split_once(": ").is_some_and(|(_, rest)| rest.starts_with(in_strict)),
            "{fields}\n{strictly}"
        );
        let leniently = first(&lenient(&file(fields)));
        assert!(leniently.starts_with(in_lenient), "{fields}\n{leniently}");
    }
}

/// The cases that the public validator is asked about too, by `tests/skills`.
#[test]
fn cases_of_the_public_validator() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("../../../../tests/skills/cases.json")).unwrap();
    for case in cases {
        let text = |key: &str| case[key].as_str().unwrap();
        let found = read(text("text").as_bytes(), Some(text("folder")), Strictness::Strict);
        assert_eq!(found.is_ok(), case["kitbag"].as_bool().unwrap(), "{}: {}", text("case"), first(&found));
    }
}

#[test]
fn the_frame() {
    for (text, problem) in [
        ("", "line 1: SKILL.md must begin with front matter"),
        ("# No front matter", "line 1: SKILL.md must begin with front matter"),
        (" ---\nname: my-skill\ndescription: d\n---\n", "line 1: SKILL.md must begin with front matter"),
        ("---\nname: my-skill\ndescription: d\n", "line 1: the front matter has no closing line ---"),
        ("---\nname: my-skill\ndescription: d\n----\n", "line 1: the front matter has no closing line ---"),
        ("---\nname: my-skill\ndescription: d\n---", "fine"),
        ("---  \nname: my-skill\ndescription: a --- b\n---\n---\n", "fine"),
    ] {
        assert!(first(&strict(text)).starts_with(problem), "{text:?}: {}", first(&strict(text)));
    }
    let marked = format!("\u{feff}{}", file("name: my-skill\ndescription: d"));
    assert!(first(&strict(&marked)).contains("byte order mark"));
    assert!(first(&lenient(&marked)).starts_with("warning: the file begins with a byte order mark"));
    let latin = read(b"---\nname: a\ndescription: \xe9\n---\n", None, Strictness::Lenient);
    assert_eq!(first(&latin), "line 3: SKILL.md is not UTF-8 text");
    let large = vec![b'-'; LARGEST_FILE + 1];
    assert!(first(&read(&large, None, Strictness::Lenient)).contains("at most 2000000"));
    let no_folder = read(file("description: d").as_bytes(), None, Strictness::Lenient);
    assert_eq!(first(&no_folder), "line 2: the front matter has no name");
}

#[test]
fn unknown_fields_are_kept() {
    let text =
        file("name: my-skill\ndescription: d\nversion: 1.0\nuser-invocable: true\ntools: [Read, Bash]\nodd: .nan");
    let read = lenient(&text).unwrap();
    assert_eq!(read.warnings.len(), 4);
    let kept = json!({"name": "my-skill", "description": "d", "version": 1.0, "user-invocable": true, "tools": ["Read", "Bash"], "odd": ".nan"});
    assert_eq!(Value::from(read.skill.front_matter), kept);
}

#[test]
fn skills_among_files() {
    let paths: Vec<WorkPath> = [
        "skills/b/SKILL.md",
        "skills/a/SKILL.md",
        "skills/a/nested/SKILL.md",
        "skills/a/x.py",
        "skills/c/skill.md",
        "skills/SKILL.md",
        "SKILL.md",
        "other/d/SKILL.md",
    ]
    .map(|path| path.parse().unwrap())
    .into();
    let found: Vec<String> = folders(&paths).iter().map(ToString::to_string).collect();
    assert_eq!(found, ["skills/a", "skills/b"]);
}

fn bundle(files: Value) -> Value {
    json!({"format": "agentskills-v1", "id": "my-skill", "name": "My Skill", "entry": "SKILL.md", "files": files})
}

#[test]
fn bundles() {
    let given = json!({
        "format": "agentskills-v1", "id": "my-skill", "name": "My Skill", "description": "d", "entry": "SKILL.md",
        "files": [
            {"path": "SKILL.md", "content": "---\n", "encoding": "utf8"},
            {"path": "assets/logo.png", "content": "iVD/", "encoding": "base64"},
            {"path": "empty", "content": "", "encoding": "utf8"},
        ],
        "enabled": false,
    });
    let read = Bundle::from_json(&given).unwrap();
    assert_eq!(read.files[&"assets/logo.png".parse::<WorkPath>().unwrap()], [0x89, 0x50, 0xff]);
    assert!(!read.enabled);
    assert_eq!(read.to_json(), given);
    let mut loose = bundle(json!([{"path": "SKILL.md", "content": "x", "encoding": "utf8"}]));
    loose["optionalDirs"] = json!({"scripts": true});
    assert!(Bundle::from_json(&loose).unwrap().enabled);
}

#[test]
fn refused_bundles() {
    let entry = || json!({"path": "SKILL.md", "content": "x"});
    let with = |other: Value| bundle(json!([entry(), other]));
    let path = |path: &str| with(json!({"path": path, "content": "x"}));
    let set = |key: &str, value: Value| {
        let mut skill = bundle(json!([entry()]));
        skill[key] = value;
        skill
    };
    let many: Vec<Value> = (0..512).map(|i| json!({"path": i.to_string(), "content": ""})).chain([entry()]).collect();
    let large: Vec<Value> =
        (0..9).map(|i| json!({"path": i.to_string(), "content": "x".repeat(1_900_000)})).chain([entry()]).collect();
    for (value, message) in [
        (json!([]), "not a skill: "),
        (set("extra", json!(1)), "not a skill: unknown field `extra`"),
        (set("format", json!("v2")), "format must be \"agentskills-v1\""),
        (set("entry", json!("skill.md")), "entry must be \"SKILL.md\""),
        (set("id", json!("My Skill")), "id: not a valid skill id"),
        (set("id", json!("../x")), "id: not a valid skill id"),
        (set("name", json!(" ")), "name must have 1 to 120 characters"),
        (set("description", json!("x".repeat(2001))), "description must have 0 to 2000 characters"),
        (bundle(json!([])), "files must have SKILL.md"),
        (bundle(json!([{"path": "README.md", "content": "x"}])), "files must have SKILL.md"),
        (bundle(json!([{"path": "skill.md", "content": "x"}])), "files must have SKILL.md"),
        (path("../a"), "files[1].path: the path must not have"),
        (path("a/../../b"), "files[1].path: the path must not have"),
        (path("/etc/x"), "files[1].path: the path must be relative"),
        (path("a\\b"), "files[1].path: the path must not have a backslash"),
        (path("a//b"), "files[1].path: the path must not have"),
        (path("a/"), "files[1].path: the path must not have"),
        (path("./a"), "files[1].path: the path must not have"),
        (path("a/./b"), "files[1].path: the path must not have"),
        (path("\\a"), "files[1].path: the path must not have a backslash"),
        (path("a\0b"), "files[1].path: the path must not have a backslash or a NUL"),
        (path(""), "files[1].path: the path is empty"),
        (path(&format!("{}aa", "a/".repeat(100))), "files[1].path must have at most 200 characters"),
        (path("C:x"), "files[1].path must not begin with a drive letter"),
        (path("C:\\x"), "files[1].path: the path must not have a backslash"),
        (set("files", json!("sk-ant-0123456789")), "not a skill: a value is not what it must be: expected a sequence"),
        (path("C:/x"), "files[1].path must not begin with a drive letter"),
        (path("SKILL.md"), "files[1].path is there twice"),
        (path("skill.MD"), "files[1].path is there twice"),
        (path("SKILL.md/x"), "files[1].path is a file and a folder"),
        (with(json!({"path": "a", "content": "?", "encoding": "base64"})), "files[1].content is not base64"),
        (with(json!({"path": "a", "content": "x", "encoding": "hex"})), "files[1].encoding must be"),
        (with(json!({"path": "a", "content": "x".repeat(2_000_001)})), "files[1] has more than 2000000 bytes"),
        (bundle(many.into()), "a skill may have at most 512 files, not 513"),
        (bundle(large.into()), "the files of a skill may have at most 16777216 bytes together"),
    ] {
        let errors = Bundle::from_json(&value).unwrap_err();
        assert!(errors.len() == 1 && errors[0].to_string().starts_with(message), "{message}: {errors:?}");
        assert!(!format!("{errors:?}").contains("sk-ant"), "{errors:?}");
    }
    for good in [".hidden", "..foo", "a b", &format!("{}ab", "a/".repeat(99))] {
        assert!(Bundle::from_json(&path(good)).is_ok(), "{good}");
    }
}

/// What `SKILL.md` must be in a skill that is made here.
#[test]
fn made_skills() {
    let made = |fields: &str| {
        let value = bundle(json!([{"path": "SKILL.md", "content": file(fields)}]));
        crate::bundle::made_skill(&Bundle::from_json(&value).unwrap())
    };
    let (skill, warnings) = made("name: my-skill\ndescription: d").unwrap();
    assert_eq!((skill.name.as_str(), skill.description.as_deref()), ("my-skill", Some("d")));
    assert_eq!((skill.reference.path.as_str(), skill.listed, warnings.len()), ("skills/my-skill", true, 0));
    assert_eq!(made("description: d").unwrap().1.len(), 1, "the folder's name is taken");
    assert_eq!(made("name: my-skill\ndescription: d\nversion: 1").unwrap().1.len(), 1);
    for (fields, line, message) in [
        ("name: other\ndescription: d", 2, "the front matter must have the name of the skill, my-skill"),
        ("name: My-Skill\ndescription: d", 2, "the front matter must have the name of the skill, my-skill"),
        ("name: my-skill", 2, "the front matter has no description"),
        ("name: my-skill\ndescription: a: b", 3, "this is not YAML"),
    ] {
        let found = made(fields).unwrap_err();
        assert!(found[0].message.starts_with(message), "{fields}: {found:?}");
        assert_eq!((found[0].line, found[0].file.as_deref()), (Some(line), Some("SKILL.md")), "{fields}");
    }
}
