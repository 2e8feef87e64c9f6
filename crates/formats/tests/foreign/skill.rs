//! Skills that travel alone.

use kitbag_formats::import::{Kind, Options};

use super::{has, import, refused, warnings, zip};

const PDF: &str = "---\nname: pdf-tools\ndescription: Reads and fills PDF forms.\nlicense: MIT\nallowed-tools: [Bash, Read]\nmetadata:\n  version: \"1.3.0\"\n---\n# PDF\n";

#[test]
fn one_in_a_folder() {
    let bytes = zip(&[("pdf-tools/SKILL.md", PDF), ("pdf-tools/scripts/fill.sh", "x"), ("pdf-tools/LICENSE.txt", "y")]);
    let imported = import(&bytes, "download.skill", Options::default());
    let definition = &imported.bundle.definition;
    assert_eq!(
        (imported.kind, definition.id.as_str(), definition.name.as_str()),
        (Kind::Skill, "pdf-tools", "pdf-tools")
    );
    assert_eq!(definition.version.to_string(), "1.3.0");
    let files: Vec<(&str, bool)> =
        imported.bundle.files.iter().map(|file| (file.path.as_str(), file.executable)).collect();
    assert_eq!(
        files,
        [
            ("skills/pdf-tools/LICENSE.txt", false),
            ("skills/pdf-tools/SKILL.md", false),
            ("skills/pdf-tools/scripts/fill.sh", true),
            ("toolset.yaml", false)
        ]
    );
    assert_eq!(imported.bundle.skills.len(), 1);
    assert_eq!(
        warnings(&imported),
        "skills/pdf-tools/SKILL.md: it asks to use Bash, Read without asking; that grants nothing"
    );
}

#[test]
fn names() {
    for (files, name, id) in [
        (&[("SKILL.md", PDF)][..], "x.zip", "pdf-tools"),
        (&[("other/SKILL.md", PDF)], "x.zip", "pdf-tools"),
        (&[("SKILL.md", "---\nname: My Skill\ndescription: d\n---\n")], "my-file.zip", "my-file"),
        (&[("SKILL.md", "---\nname: My Skill\ndescription: d\n---\n")], "My File.zip", "my-skill"),
        (&[("good-folder/SKILL.md", "---\ndescription: d\n---\n")], "x.zip", "good-folder"),
    ] {
        let imported = import(&zip(files), name, Options::default());
        assert_eq!(imported.bundle.skills[0].reference.id.as_str(), id, "{files:?}");
        assert_eq!(imported.bundle.definition.id.as_str(), id, "{files:?}");
    }
}

#[test]
fn what_is_refused() {
    for (text, wanted) in [
        ("", "SKILL.md must begin with front matter"),
        ("---\nname: x\n---\n", "the front matter has no description"),
        ("---\nname: x\ndescription: d\n  e: f: g\n---\n", "SKILL.md:"),
    ] {
        has(&refused(&zip(&[("SKILL.md", text)]), "x.zip"), &[wanted]);
    }
    let many: Vec<String> = (0..513).map(|number| format!("f{number:04}")).collect();
    let mut files = vec![("SKILL.md", PDF)];
    files.extend(many.iter().map(|name| (name.as_str(), "")));
    has(&refused(&zip(&files), "x.zip"), &["a skill may have 512 files"]);
}
