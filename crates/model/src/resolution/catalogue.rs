//! What resolution looks at: the caller's own tools, toolsets and servers, borrowed. Names are put in order only when one is asked for.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::name::ServerKey;
use crate::tool_id::ToolId;

/// A tool, as far as lists are concerned.
pub trait Listed {
    /// Its id.
    fn id(&self) -> &ToolId;
    /// The id of its toolset; `builtin` for the built-in ones.
    fn toolset(&self) -> &str;
    /// What a model calls it.
    fn model_name(&self) -> &str;
    /// Whether it can be called.
    fn state(&self) -> State<'_>;
}

/// Whether a tool can be called.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum State<'a> {
    /// It can.
    Ready,
    /// It, its server or its toolset is off.
    Off,
    /// Something is wrong with it: its code, its server, or it is not what was accepted.
    Problem(&'a str),
}

/// A server that a toolset declares.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConfiguredServer {
    /// Its key.
    pub key: ServerKey,
    /// Whether anybody ever saw its tools. Until then a name on it may turn out to be good.
    pub seen: bool,
    /// Whether it is on and said that it has no tools. What else it has comes and goes with its toolset, as skills do.
    pub bare: bool,
}

/// All tools in their order, and what else a list may name.
pub struct Catalogue<'a, T> {
    pub(super) tools: &'a [T],
    pub(super) toolsets: &'a [String],
    pub(super) servers: &'a [ConfiguredServer],
    pub(super) gone: &'a [ToolId],
    pub(super) skilled: &'a [String],
    names: OnceLock<Names>,
}

/// Where each name leads, in small letters.
#[derive(Default)]
struct Names {
    by_id: HashMap<String, Vec<usize>>,
    by_model_name: HashMap<String, Vec<usize>>,
    by_own_name: HashMap<String, Vec<usize>>,
}

impl<'a, T: Listed> Catalogue<'a, T> {
    /// The tools in catalogue order; the ids of all toolsets, those without tools too (`builtin` is one if it has tools); the servers
    /// that are configured; and tools that a server had once and no longer lists, which are known names all the same.
    pub fn new(tools: &'a [T], toolsets: &'a [String], servers: &'a [ConfiguredServer], gone: &'a [ToolId]) -> Self {
        Self { tools, toolsets, servers, gone, skilled: &[], names: OnceLock::new() }
    }

    /// The same, with toolsets that have skills: what has nothing but skills is there too.
    #[must_use]
    pub fn with_skills(self, skilled: &'a [String]) -> Self {
        Self { skilled, ..self }
    }

    /// The tools that have this name: as an id, else as a model sees it, else as their toolset or server calls them. Of names that
    /// differ in case alone, the one that is written exactly so is meant.
    pub(super) fn named(&self, name: &str, is_in: impl Fn(usize) -> bool) -> Vec<usize> {
        let names = self.names.get_or_init(|| self.names());
        let folded = name.to_lowercase();
        let spelled: [fn(&T) -> String; 3] =
            [|tool| tool.id().to_string(), |tool| tool.model_name().to_owned(), |tool| own_name(tool.id()).to_owned()];
        for (map, spelled) in [&names.by_id, &names.by_model_name, &names.by_own_name].into_iter().zip(spelled) {
            let hits: Vec<usize> =
                map.get(&folded).into_iter().flatten().copied().filter(|place| is_in(*place)).collect();
            let exact: Vec<usize> = hits.iter().copied().filter(|place| spelled(&self.tools[*place]) == name).collect();
            match (exact.is_empty(), hits.is_empty()) {
                (false, _) => return exact,
                (true, false) => return hits,
                (true, true) => {}
            }
        }
        Vec::new()
    }

    fn names(&self) -> Names {
        let mut names = Names::default();
        for (place, tool) in self.tools.iter().enumerate() {
            names.by_id.entry(tool.id().to_string().to_lowercase()).or_default().push(place);
            names.by_model_name.entry(tool.model_name().to_lowercase()).or_default().push(place);
            names.by_own_name.entry(own_name(tool.id()).to_lowercase()).or_default().push(place);
        }
        names
    }
}

/// What a tool is called where it comes from.
pub(super) fn own_name(id: &ToolId) -> &str {
    id.override_parts().1
}
