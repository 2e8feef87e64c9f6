//! Which packages a toolset asks for. Nothing is installed here.

use std::fs;

use kitbag_model::Requirement;

use crate::program::Program;
use crate::workers::WorkerError;

/// What a program asks for: its manifest's list, else its `requirements.txt`, else its `pyproject.toml`.
pub(crate) fn of(program: &Program) -> Result<Vec<String>, WorkerError> {
    let refused = |file: &str, line: &str, why: String| {
        WorkerError::Unavailable(format!("{file} of {}: \"{line}\": {why}", program.toolset))
    };
    let listed = &program.needs.dependencies;
    if !listed.is_empty() {
        return Ok(listed.iter().map(ToString::to_string).collect());
    }
    let checked = |file: &'static str, lines: Vec<String>| {
        let check = |line: String| match line.parse::<Requirement>() {
            Ok(requirement) => Ok(requirement.to_string()),
            Err(error) => Err(refused(file, &line, error.to_string())),
        };
        lines.into_iter().map(check).collect()
    };
    if let Ok(text) = fs::read_to_string(program.folder.join("requirements.txt")) {
        // A comment begins with # at the start of a line or after a space.
        let bare = |line: &str| line.split(" #").next().unwrap_or_default().trim().to_owned();
        let lines = text.lines().map(bare).filter(|line| !line.is_empty() && !line.starts_with('#'));
        return checked("requirements.txt", lines.collect());
    }
    let Ok(text) = fs::read_to_string(program.folder.join("pyproject.toml")) else { return Ok(Vec::new()) };
    let document: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        WorkerError::Unavailable(format!("pyproject.toml of {}: {}", program.toolset, error.message()))
    })?;
    let listed =
        document.get("project").and_then(|project| project.get("dependencies")).and_then(toml::Value::as_array);
    let lines = listed.into_iter().flatten().filter_map(toml::Value::as_str).map(ToOwned::to_owned);
    checked("pyproject.toml", lines.collect())
}
