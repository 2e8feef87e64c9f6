//! The tools of a turn, under the names that models see. Of many tools a model gets a search instead of all their schemas, and those that it
//! found from then on: what it does not need costs it nothing.

use std::collections::{BTreeSet, HashMap};

use kitbag_llm::ToolSpec;
use kitbag_model::ToolId;
use kitbag_model::tool_search::{Indexed, ToolSearch};
use serde_json::{Value, json};

use crate::toolsets::Tool;

/// What the search is called.
pub(crate) const SEARCH: &str = "search_tools";

/// So many are found, and unless the model says how many.
const MOST: usize = 20;
const USUAL: usize = 5;

/// Of what was found a model has the newest at once, up to so many bytes of schemas: a long conversation with many searches must not
/// become what the search is there to avoid.
const MOST_FOUND_BYTES: usize = 8 * 1024;

/// About so many bytes the wires put around each tool.
const WRAPPING: usize = 80;

/// About so many bytes of JSON are a token.
const BYTES_A_TOKEN: usize = 4;

/// The tools of a turn.
pub(crate) struct Toolbox {
    tools: Vec<(ToolId, ToolSpec)>,
    by_name: HashMap<String, usize>,
    /// The search and what it found, what was found last at the end; none if the model has everything at once.
    search: Option<(ToolSearch, Vec<usize>)>,
    /// How many bytes all schemas have.
    bytes: usize,
}

impl Toolbox {
    /// All of these at once if they are no more than so many bytes.
    pub(crate) fn new(tools: &[Tool], most_bytes: usize) -> Self {
        let specs: Vec<(ToolId, ToolSpec)> = tools.iter().map(|tool| (tool.id.clone(), spec(tool))).collect();
        let bytes = specs.iter().map(|(_, spec)| size(spec)).sum();
        let by_name = specs.iter().enumerate().map(|(place, (_, spec))| (spec.name.clone(), place)).collect();
        let search = (bytes > most_bytes).then(|| (index(tools), Vec::new()));
        Self { tools: specs, by_name, search, bytes }
    }

    /// What the model is told now.
    pub(crate) fn specs(&self) -> Vec<ToolSpec> {
        match &self.search {
            None => self.tools.iter().map(|(_, spec)| spec.clone()).collect(),
            Some((_, found)) => {
                let found = self.newest(found).into_iter().map(|place| self.tools[place].1.clone());
                std::iter::once(search_spec(self.tools.len())).chain(found).collect()
            }
        }
    }

    /// Of what was found the newest, as much as the model may have, in the order of all tools. The very newest is always there, however
    /// large it is; what is left out can still be called by who remembers it.
    fn newest(&self, found: &[usize]) -> BTreeSet<usize> {
        let mut taken = 0;
        let fits = |place: &&usize| {
            let is_first = taken == 0;
            taken += size(&self.tools[**place].1);
            is_first || taken <= MOST_FOUND_BYTES
        };
        found.iter().rev().take_while(fits).copied().collect()
    }

    /// The tool that the model means. One that it has not looked for is there, too: it may know it from before.
    pub(crate) fn find(&self, name: &str) -> Option<&ToolId> {
        self.by_name.get(name).map(|place| &self.tools[*place].0)
    }

    /// Whether a name is that of the search.
    pub(crate) fn is_search(&self, name: &str) -> bool {
        self.search.is_some() && name == SEARCH
    }

    /// Looks for tools. What is found can be called from the next step on.
    pub(crate) fn look(&mut self, arguments: &Value) -> Result<Vec<Value>, String> {
        let question = arguments.get("query").and_then(Value::as_str).filter(|query| !query.trim().is_empty());
        let question = question.ok_or_else(|| "`query` must be a text that says what the tool should do".to_owned())?;
        let most = arguments.get("limit").and_then(Value::as_u64).and_then(|most| usize::try_from(most).ok());
        let most = most.unwrap_or(USUAL).clamp(1, MOST);
        let Some((search, found)) = &mut self.search else { return Ok(Vec::new()) };
        let places: Vec<usize> = search.find(question, most).into_iter().map(|one| one.place).collect();
        // The best comes last, as the newest.
        add(found, places.iter().rev().copied());
        let told = |place: &usize| {
            let spec = &self.tools[*place].1;
            json!({ "name": spec.name, "description": spec.description })
        };
        Ok(places.iter().map(told).collect())
    }

    /// Tools that were found in an earlier turn of this conversation are there at once.
    pub(crate) fn remember<'a>(&mut self, names: impl IntoIterator<Item = &'a str>) {
        let places = names.into_iter().filter_map(|name| self.by_name.get(name).copied());
        if let Some((_, found)) = &mut self.search {
            add(found, places);
        }
    }

    /// What is told of it: how much there is, how much of it the model gets, and what that saves in each step.
    pub(crate) fn told(&self) -> Value {
        let sent: usize = self.specs().iter().map(size).sum();
        json!({
            "count": self.tools.len(), "bytes": self.bytes, "sentBytes": sent, "searched": self.search.is_some(),
            "savedTokens": self.bytes.saturating_sub(sent) / BYTES_A_TOKEN,
        })
    }
}

/// Adds what was found; what was there is the newest now.
fn add(found: &mut Vec<usize>, places: impl Iterator<Item = usize>) {
    for place in places {
        found.retain(|known| *known != place);
        found.push(place);
    }
}

fn spec(tool: &Tool) -> ToolSpec {
    let description = tool.effective.description.value.clone().unwrap_or_default();
    ToolSpec { name: tool.model_name.clone(), description, schema: tool.input_schema.clone() }
}

fn size(spec: &ToolSpec) -> usize {
    WRAPPING + spec.name.len() + spec.description.len() + spec.schema.to_string().len()
}

fn search_spec(tools: usize) -> ToolSpec {
    ToolSpec {
        name: SEARCH.to_owned(),
        description: format!(
            "There are {tools} tools that are not listed here. Finds those that fit a task, best first; what it finds can be called from then on. \
             Search whenever a task may need a tool that is not listed."
        ),
        schema: json!({
            "type": "object",
            "properties": {
                "query": { "type": "string", "description": "What the tool should do, in words." },
                "limit": { "type": "integer", "minimum": 1, "maximum": MOST, "description": "How many at most." },
            },
            "required": ["query"],
        }),
    }
}

fn index(tools: &[Tool]) -> ToolSearch {
    let names: Vec<[&str; 2]> =
        tools.iter().map(|tool| [tool.model_name.as_str(), tool.effective.name.value.as_str()]).collect();
    ToolSearch::new(tools.iter().zip(&names).map(|(tool, names)| Indexed {
        names,
        description: tool.effective.description.value.as_deref().unwrap_or_default(),
        input_schema: Some(&tool.input_schema),
    }))
}
