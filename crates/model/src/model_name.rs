//! The names under which a model sees tools: `^[A-Za-z0-9_-]{1,64}$`, stable, and one for each tool.
//!
//! A tool's name follows from its id alone, unless two ids would get the same one: then the tool that was there first keeps
//! it, and the other gets a suffix made from its id. So a name means the same tool tomorrow, whatever else is installed.

use std::collections::HashSet;

use crate::hash::ContentHash;
use crate::tool_id::ToolId;

/// How many characters a name may have: the least that the model providers agree on.
pub const LONGEST: usize = 64;

/// How many characters of a hash make a name one of its own.
const SUFFIX: usize = 8;

/// Gives each tool its name. The tools come in the order in which they were installed.
pub fn assign<'a>(tools: impl IntoIterator<Item = &'a ToolId>) -> Vec<String> {
    let mut taken: HashSet<String> = HashSet::new();
    let mut name = |tool: &ToolId| {
        let plain = of(tool);
        let others = (0..).map(|round| with_suffix(&plain, tool, round));
        let name = [plain.clone()].into_iter().chain(others).find(|name| !taken.contains(name)).unwrap_or(plain);
        taken.insert(name.clone());
        name
    };
    tools.into_iter().map(&mut name).collect()
}

/// The name of a tool that collides with no other.
pub fn of(tool: &ToolId) -> String {
    let (text, is_clear) = match tool {
        ToolId::Builtin(tool) => (tool.to_string(), true),
        ToolId::Toolset { toolset, tool } => joined(&[toolset.as_str(), tool.as_str()]),
        ToolId::Mcp { server, tool } => joined(&["mcp", server.server.as_str(), tool.as_str()]),
        ToolId::LegacyMcp { server, tool } => joined(&["mcp", server.as_str(), tool.as_str()]),
    };
    if is_clear && text.len() <= LONGEST && text.chars().all(is_legal) { text } else { with_suffix(&text, tool, 0) }
}

/// The parts with `__` between, and whether it can be seen where one ends.
fn joined(parts: &[&str]) -> (String, bool) {
    let is_clear = |part: &&str| !part.contains("__") && !part.starts_with('_') && !part.ends_with('_');
    (parts.join("__"), parts.iter().all(is_clear))
}

fn is_legal(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// Another round gives another suffix.
fn with_suffix(text: &str, tool: &ToolId, round: u32) -> String {
    let mut name: String = text.chars().map(|c| if is_legal(c) { c } else { '_' }).collect();
    name.truncate(LONGEST - SUFFIX - 1);
    let salt = if round == 0 { String::new() } else { format!(" {round}") };
    let hash = ContentHash::of(format!("{tool}{salt}").as_bytes()).to_string();
    format!("{name}_{}", &hash[..SUFFIX])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> ToolId {
        text.parse().unwrap()
    }

    #[test]
    fn plain_names() {
        for (tool, name) in [
            ("write_file", "write_file"),
            ("app-builder:write_file", "app-builder__write_file"),
            ("mcp:gh~gh:search", "mcp__gh__search"),
        ] {
            assert_eq!(of(&id(tool)), name);
        }
    }

    #[test]
    fn names_that_need_a_suffix() {
        let long = format!("mcp:a~b:{}", "x".repeat(100));
        for tool in ["mcp:gh~gh:search.code", "mcp:a~b:x__y", "mcp:a~b__c:x", "mcp:a~b:ü", "mcp:a~b_:x", "a:_x", &long]
        {
            let name = of(&id(tool));
            assert!(name.len() <= LONGEST && name.chars().all(is_legal), "{tool}: {name}");
            assert_eq!(name, of(&id(tool)));
        }
        assert_ne!(of(&id("mcp:a~b:x.y")), of(&id("mcp:a~b:x/y")));
    }

    #[test]
    fn the_earlier_keeps_its_name() {
        let tools = [id("mcp:one~gh:search"), id("mcp:two~gh:search"), id("mcp:three~gh:search")];
        let names = assign(&tools);
        assert_eq!(names[0], "mcp__gh__search");
        assert!(names[1].starts_with("mcp__gh__search_") && names[2].starts_with("mcp__gh__search_"));
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), 3);
        assert_eq!(assign(&tools[..2]), names[..2]);
        // One that is called what the other's suffix makes.
        let long = id(&format!("{}:{}", "a".repeat(30), "b".repeat(60)));
        let twin = of(&long).split_once("__").map(|(_, tool)| id(&format!("{}:{tool}", "a".repeat(30)))).unwrap();
        assert_eq!(of(&twin), of(&long));
        let names = assign(&[twin, long]);
        assert!(names[0] != names[1] && names[1].len() <= LONGEST, "{names:?}");
    }
}
