//! A toolset's code, and what was found in it.

use std::path::PathBuf;

use kitbag_model::{Entrypoint, OrgId, PythonNeeds};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The code of one toolset, as it is now.
#[derive(Clone, Debug)]
pub struct Program {
    /// Whose it is.
    pub org: OrgId,
    /// The toolset's id; `builtin` for the tools that are compiled in.
    pub toolset: String,
    /// Changes whenever one of its files does. A warm parent of another generation is not used.
    pub generation: String,
    /// Where its files are.
    pub folder: PathBuf,
    /// The functions that are tools.
    pub entries: Vec<Entry>,
    /// Which interpreter and packages it needs.
    pub needs: PythonNeeds,
    /// Whether its calls may reach the network: it asks for it, and is trusted.
    pub network: bool,
    /// Whether what its calls start may outlive them.
    pub listen: bool,
    /// Whether a person trusts it, so that packages may be built from source for it.
    pub trusted: bool,
}

/// A function that is a tool.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Where it is.
    pub entrypoint: Entrypoint,
    /// The arguments as the manifest describes them. They count for a plain function only.
    pub input_schema: Option<Map<String, Value>>,
}

/// What was found in a program: one for each entry, in their order.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Description {
    /// The tools.
    pub tools: Vec<Described>,
}

/// What the code says of one tool.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Described {
    /// Which function.
    pub entrypoint: Entrypoint,
    /// Why it cannot be called; everything below is empty then.
    pub problem: Option<String>,
    /// Its title, if the decorator gives one.
    pub name: Option<String>,
    /// What a model reads, if the decorator or the docstring says it.
    pub description: Option<String>,
    /// Whether the decorator wants a person asked; none if it does not say.
    pub requires_confirmation: Option<bool>,
    /// A word that groups tools.
    pub category: Option<String>,
    /// The arguments it takes.
    pub input_schema: Map<String, Value>,
    /// What it returns, if its annotation says so.
    pub output_schema: Option<Map<String, Value>>,
}

impl Described {
    /// One that cannot be called.
    pub(crate) fn broken(entrypoint: Entrypoint, problem: String) -> Self {
        Self {
            entrypoint,
            problem: Some(problem),
            name: None,
            description: None,
            requires_confirmation: None,
            category: None,
            input_schema: Map::new(),
            output_schema: None,
        }
    }
}
