//! The values that placeholders get: those of the executor's own environment that its list allows. Without a list there are none:
//! what is on the machine is the machine's, and a toolset is somebody else's.

use std::collections::BTreeMap;
use std::ffi::OsString;

/// Variables with their values, of which some may be told.
#[derive(Clone)]
pub struct Variables {
    values: BTreeMap<String, String>,
    allowed: Vec<String>,
}

impl std::fmt::Debug for Variables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Variables").field("allowed", &self.allowed).finish_non_exhaustive()
    }
}

impl Variables {
    /// Those of `values` that are named in `allowed`; a name with `*` at its end stands for all that begin so.
    pub fn new(values: impl IntoIterator<Item = (String, String)>, allowed: Vec<String>) -> Self {
        Self { values: values.into_iter().collect(), allowed }
    }

    /// Those of this process.
    pub fn of_this_process(allowed: Vec<String>) -> Self {
        // What is no text is nothing that a toolset could have.
        let text = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
        Self::new(std::env::vars_os().filter_map(text), allowed)
    }

    /// The value of a variable that may be told, unless it is blank.
    pub fn get(&self, name: &str) -> Option<String> {
        self.is_allowed(name).then(|| self.values.get(name).filter(|value| !value.trim().is_empty()).cloned()).flatten()
    }

    /// The value of a variable for what is this machine's own, such as its agents. No toolset is told.
    pub fn of_this_machine(&self, name: &str) -> Option<String> {
        self.values.get(name).filter(|value| !value.is_empty()).cloned()
    }

    /// Why a variable has no value, for whoever looks after this machine.
    pub fn why_not(&self, name: &str) -> String {
        match self.values.get(name) {
            None => format!("the variable {name} is not set on this executor"),
            Some(value) if value.trim().is_empty() => format!("the variable {name} is empty on this executor"),
            Some(_) => {
                format!("the variable {name} is set on this executor, and not on the list of what toolsets may use")
            }
        }
    }

    fn is_allowed(&self, name: &str) -> bool {
        self.allowed.iter().any(|allowed| match allowed.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == allowed,
        })
    }
}
