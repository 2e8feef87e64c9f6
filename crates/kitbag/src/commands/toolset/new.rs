//! `kitbag toolset new`: a toolset to start from.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use kitbag_formats::manifest;
use kitbag_model::ToolsetId;
use serde_json::json;

use crate::failure::{Doing, Failure};
use crate::output::Output;

const FILES: [(&str, &str); 5] = [
    ("toolset.yaml", include_str!("../../scaffold/toolset.yaml")),
    ("tools/text.py", include_str!("../../scaffold/tools/text.py")),
    ("artifacts/word-count.html", include_str!("../../scaffold/artifacts/word-count.html")),
    ("tests/test_text.py", include_str!("../../scaffold/tests/test_text.py")),
    ("skills/{{skill}}/SKILL.md", include_str!("../../scaffold/skill/SKILL.md")),
];

/// Makes the folder of a new toolset.
pub(super) fn run(name: &str, folder: Option<PathBuf>, output: &Output) -> Result<ExitCode, Failure> {
    let id = id_of(name)?;
    let folder = folder.unwrap_or_else(|| PathBuf::from(id.as_str()));
    if folder.exists() && fs::read_dir(&folder).doing(folder.display())?.next().is_some() {
        return Err(Failure::wrong_use(format!("{} is there already and is not empty", folder.display())));
    }
    let skill = skill_of(&id);
    let fill = |text: &str| {
        text.replace("{{id}}", id.as_str()).replace("{{skill}}", &skill).replace("{{name}}", &quoted(name))
    };
    for (path, text) in FILES {
        let text = if path == "toolset.yaml" { format!("{}\n{text}", manifest::EDITOR_LINE) } else { text.to_owned() };
        write(&folder.join(fill(path)), &fill(&text))?;
    }
    let schema = serde_json::to_string_pretty(&manifest::schema())? + "\n";
    write(&folder.join("toolset.schema.json"), &schema)?;
    let made = json!({ "id": id.as_str(), "path": folder });
    output.result(&made, |_| {
        format!(
            "Made {}. Next:\n  kitbag toolset validate {}\n  kitbag toolset import {}",
            folder.display(),
            folder.display(),
            folder.display()
        )
    })
}

/// The id that a name becomes: small letters, digits, and `-` for what is between.
fn id_of(name: &str) -> Result<ToolsetId, Failure> {
    let plain: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' { c.to_ascii_lowercase() } else { '-' })
        .collect();
    let parts: Vec<&str> = plain.split('-').filter(|part| !part.is_empty()).collect();
    let id = parts.join("-");
    id.parse()
        .map_err(|reason| Failure::wrong_use(format!("{name:?} cannot be the name of a toolset: {id:?} is {reason}")))
}

/// The id of the toolset's one skill: words of small letters and digits with single `-` between, and at most 64 characters.
fn skill_of(id: &ToolsetId) -> String {
    let words: Vec<&str> = id.as_str().split(['-', '_']).filter(|word| !word.is_empty()).collect();
    let short: String = words.join("-").chars().take(64 - "-guide".len()).collect();
    format!("{}-guide", short.trim_end_matches('-'))
}

/// A text as YAML takes it for one, whatever is in it.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let cannot = || format!("cannot write {}", path.display());
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).doing(cannot())?;
    }
    fs::write(path, text).doing(cannot())
}
