//! Which tools are offered: what `tools.allow` says about Kitbag's own.

use std::collections::BTreeSet;

use kitbag_model::run::wire::{ContainedTool, ToolSnapshot};
use kitbag_model::{BUILTINS, LocalToolId};

use crate::Failure;
use crate::prepare::OWN_SERVER;

/// What an entry of `tools.allow` says about Kitbag's own tools.
enum Entry<'a> {
    All,
    One(&'a str),
}

/// Reads `kitbag:<name>` and `mcp__kitbag__<name>`; `mcp__kitbag` and a `*` for the name stand for all.
fn read(entry: &str) -> Option<Entry<'_>> {
    let of_server = || entry.strip_prefix("mcp__")?.strip_prefix(OWN_SERVER);
    let name = match entry.strip_prefix(OWN_SERVER).and_then(|rest| rest.strip_prefix(':')) {
        Some(name) => name,
        None => match of_server()? {
            "" => "*",
            rest => rest.strip_prefix("__")?,
        },
    };
    Some(if name == "*" { Entry::All } else { Entry::One(name) })
}

/// Whether an entry of `tools.allow` is about Kitbag's own tools, so that no engine has to know it.
pub fn is_own(entry: &str) -> bool {
    read(entry).is_some()
}

/// What `tools.allow` names of Kitbag's own tools.
#[derive(Debug, Default)]
pub(super) struct Allowed {
    all: bool,
    named: BTreeSet<String>,
}

impl Allowed {
    /// A name that no tool can have is a mistake that would otherwise be silent.
    pub(super) fn read(allow: &[String]) -> Result<Self, Failure> {
        let mut allowed = Self::default();
        for entry in allow {
            match read(entry) {
                None => {}
                Some(Entry::All) => allowed.all = true,
                Some(Entry::One(name)) => {
                    let _: LocalToolId = name.parse().map_err(|reason| {
                        Failure::new("INVALID_AGENT_RUN_PAYLOAD", format_args!("tools.allow has {entry:?}: {reason}"))
                    })?;
                    allowed.named.insert(name.to_owned());
                }
            }
        }
        Ok(allowed)
    }

    fn names(&self, name: &str) -> bool {
        self.all || self.named.contains(name)
    }

    /// The tools of a toolset: all that ask nobody, and those that are named.
    pub(super) fn of_toolset(&self, tools: &[ToolSnapshot]) -> Vec<ToolSnapshot> {
        let offered = tools.iter().filter(|tool| !tool.requires_confirmation || self.names(tool.id.as_str()));
        offered.cloned().collect()
    }

    /// The same for those of a container.
    pub(super) fn of_container(&self, tools: &[ContainedTool]) -> Vec<ContainedTool> {
        let offered = tools.iter().filter(|tool| !tool.requires_confirmation || self.names(tool.id.as_str()));
        offered.cloned().collect()
    }

    /// The built-in tools that are named, but for those whose name is a tool's of the toolset.
    pub(super) fn of_kitbag(&self, theirs: &[&LocalToolId]) -> Vec<String> {
        let is_taken = |name: &str| theirs.iter().any(|id| id.as_str().eq_ignore_ascii_case(name));
        let offered = BUILTINS.iter().filter(|tool| self.names(tool.id) && !is_taken(tool.id));
        offered.map(|tool| tool.id.to_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;

    fn tool(id: &str, requires_confirmation: bool) -> ToolSnapshot {
        ToolSnapshot {
            id: id.parse().unwrap(),
            entrypoint: "tools:run".parse().unwrap(),
            title: id.to_owned(),
            description: String::new(),
            input_schema: Map::new(),
            output_schema: None,
            requires_confirmation,
        }
    }

    fn offered(allow: &[&str]) -> (Vec<String>, Vec<String>) {
        let allow: Vec<String> = allow.iter().map(|entry| (*entry).to_owned()).collect();
        let allowed = Allowed::read(&allow).unwrap();
        let theirs = allowed.of_toolset(&[tool("shout", false), tool("remove", true), tool("read_file", false)]);
        let builtins = allowed.of_kitbag(&theirs.iter().map(|tool| &tool.id).collect::<Vec<_>>());
        (theirs.iter().map(|tool| tool.id.to_string()).collect(), builtins)
    }

    #[test]
    fn what_is_named_is_offered() {
        let usual = ["shout", "read_file"];
        for (allow, theirs, builtins) in [
            (vec![], &usual[..], &[][..]),
            (vec!["Bash", "mcp__other__x", "mcp__kitbagx", "kitbagx:y"], &usual, &[]),
            (vec!["kitbag:write_file"], &usual, &["write_file"]),
            (
                vec!["mcp__kitbag__write_file", "mcp__kitbag__remove"],
                &["shout", "remove", "read_file"],
                &["write_file"],
            ),
            (vec!["kitbag:run_command", "kitbag:nobody"], &usual, &["run_command"]),
        ] {
            let (their, own) = offered(&allow);
            assert_eq!(
                (their.as_slice(), own.as_slice()),
                (
                    &theirs.iter().map(ToString::to_string).collect::<Vec<_>>()[..],
                    &builtins.iter().map(ToString::to_string).collect::<Vec<_>>()[..]
                ),
                "{allow:?}"
            );
        }
        for all in ["mcp__kitbag", "mcp__kitbag__*", "kitbag:*"] {
            let (theirs, builtins) = offered(&[all]);
            assert_eq!(
                (theirs.len(), builtins.len()),
                (3, BUILTINS.len() - 1),
                "the toolset has a read_file of its own"
            );
        }
    }

    #[test]
    fn a_name_that_no_tool_can_have_is_a_mistake() {
        for entry in ["kitbag:", "kitbag:a b", "mcp__kitbag__"] {
            let failure = Allowed::read(&[entry.to_owned()]).unwrap_err();
            assert_eq!(failure.code, "INVALID_AGENT_RUN_PAYLOAD", "{entry}");
        }
    }
}
