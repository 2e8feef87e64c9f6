//! The tools that are compiled in. They have no rows and form the toolset `builtin`, which cannot be installed or removed.

use serde_json::{Value, json};

use crate::name::LocalToolId;
use crate::tool_id::ToolId;

/// A tool that is compiled in.
#[derive(Clone, Copy, Debug)]
pub struct Builtin {
    /// Its id.
    pub id: &'static str,
    /// What people call it.
    pub name: &'static str,
    /// What a model reads about it.
    pub description: &'static str,
    /// Whether a person is asked before each call.
    pub requires_confirmation: bool,
    /// Its arguments: name, type, what it is for, whether it must be there.
    arguments: &'static [(&'static str, &'static str, &'static str, bool)],
}

/// All of them, in the order in which they are listed.
pub static BUILTINS: [Builtin; 6] = [
    Builtin {
        id: "read_file",
        name: "Read File",
        description: "Read a text file of the workspace.",
        requires_confirmation: false,
        arguments: &[
            ("path", "string", "The file, relative to the workspace.", true),
            ("offset", "integer", "The first line to read, counted from 1.", false),
            ("limit", "integer", "How many lines to read.", false),
        ],
    },
    Builtin {
        id: "write_file",
        name: "Write File",
        description: "Write a text file of the workspace, replacing one that is there.",
        requires_confirmation: false,
        arguments: &[
            ("path", "string", "The file, relative to the workspace.", true),
            ("content", "string", "All of its new content.", true),
        ],
    },
    Builtin {
        id: "edit_file",
        name: "Edit File",
        description: "Replace a text in a file of the workspace. The text must be there exactly once, unless all are meant.",
        requires_confirmation: false,
        arguments: &[
            ("path", "string", "The file, relative to the workspace.", true),
            ("old", "string", "The text to replace.", true),
            ("new", "string", "What to put in its place.", true),
            ("all", "boolean", "Whether to replace it everywhere.", false),
        ],
    },
    Builtin {
        id: "list_files",
        name: "List Files",
        description: "List the files of the workspace, or those below a folder of it.",
        requires_confirmation: false,
        arguments: &[
            ("path", "string", "A folder, relative to the workspace.", false),
            ("pattern", "string", "Only files whose path fits it, such as **/*.py.", false),
        ],
    },
    Builtin {
        id: "search_files",
        name: "Search Files",
        description: "Search the text files of the workspace for a regular expression.",
        requires_confirmation: false,
        arguments: &[
            ("pattern", "string", "The regular expression.", true),
            ("path", "string", "A folder, relative to the workspace.", false),
        ],
    },
    Builtin {
        id: "run_command",
        name: "Run Command",
        description: "Run a shell command in the workspace.",
        requires_confirmation: true,
        arguments: &[
            ("command", "string", "The command.", true),
            ("timeout", "number", "After how many seconds to stop it.", false),
        ],
    },
];

impl Builtin {
    /// The one of this id.
    pub fn find(id: &LocalToolId) -> Option<&'static Self> {
        BUILTINS.iter().find(|tool| tool.id == id.as_str())
    }

    /// Its id as a tool's.
    pub fn tool_id(&self) -> ToolId {
        ToolId::Builtin(self.id.parse().expect("the table has good ids"))
    }

    /// The JSON Schema of its arguments.
    pub fn input_schema(&self) -> Value {
        let property = |(name, kind, description, _): &(&str, &str, &str, bool)| {
            ((*name).to_owned(), json!({ "type": kind, "description": description }))
        };
        let required: Vec<&str> =
            self.arguments.iter().filter(|argument| argument.3).map(|argument| argument.0).collect();
        json!({
            "type": "object",
            "properties": self.arguments.iter().map(property).collect::<serde_json::Map<_, _>>(),
            "required": required,
            "additionalProperties": false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sound() {
        for tool in &BUILTINS {
            assert_eq!(tool.tool_id().to_string(), tool.id);
            assert_eq!(Builtin::find(&tool.id.parse().unwrap()).map(|found| found.id), Some(tool.id));
        }
        let schema = BUILTINS[0].input_schema();
        assert_eq!(schema["required"], json!(["path"]));
        assert_eq!(schema["properties"]["limit"]["type"], "integer");
    }
}
