//! The tables `[organizations.default]` and `[organizations.<id>]` of `kitbag.toml`: what organisations other than `local` may have.

use std::collections::BTreeMap;

use kitbag_model::OrgId;
use kitbag_server::{OrganizationRules, OrganizationsRules};
use serde::Deserialize;

use super::allowed;
use crate::failure::Failure;

/// The table whose name stands for all that are not named.
const DEFAULT: &str = "default";

/// What the names of our own variables begin with.
const OURS: &str = "KITBAG_";

/// The tables, by name.
pub(super) type Tables = BTreeMap<String, Table>;

/// The keys of one of them.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    calls_per_minute: Option<u64>,
    concurrent_calls: Option<u64>,
    workspace_bytes: Option<u64>,
    executors_in_flight: Option<u64>,
    queued_runs: Option<u64>,
    variables: Option<Vec<String>>,
    variables_prefix: Option<String>,
    egress_allow: Option<Vec<String>>,
}

/// What the tables say.
pub(super) fn read(tables: Tables, queued_runs: Option<u64>) -> Result<OrganizationsRules, Failure> {
    if queued_runs == Some(0) {
        return Err(Failure::wrong_use("max-queued-runs must be at least 1"));
    }
    let mut rules = OrganizationsRules { queued_runs, ..OrganizationsRules::default() };
    for (name, table) in tables {
        let read = table.read(&name)?;
        if name == DEFAULT {
            rules.default = read;
            continue;
        }
        let wrong = |why: &str| Failure::wrong_use(format!("organizations.{name}: {why}"));
        let org: OrgId = name.parse().map_err(|error: kitbag_model::IdError| wrong(&error.to_string()))?;
        if org == OrgId::local() {
            return Err(wrong("`local` is the operator's own, and what the server's other settings say holds for it"));
        }
        rules.each.insert(org, read);
    }
    Ok(rules)
}

impl Table {
    fn read(self, name: &str) -> Result<OrganizationRules, Failure> {
        let wrong = |key: &str, why: &str| Failure::wrong_use(format!("organizations.{name}.{key}: {why}"));
        for (key, number) in [
            ("calls_per_minute", self.calls_per_minute),
            ("concurrent_calls", self.concurrent_calls),
            ("workspace_bytes", self.workspace_bytes),
            ("executors_in_flight", self.executors_in_flight),
            ("queued_runs", self.queued_runs),
        ] {
            if number == Some(0) {
                return Err(wrong(key, "must be at least 1; without the key what is said of all holds"));
            }
        }
        let prefix = self.variables_prefix.unwrap_or_default();
        if !prefix.is_empty() && !is_name(&prefix) {
            return Err(wrong("variables_prefix", "must have letters, digits and _, and no digit first"));
        }
        for variable in self.variables.iter().flatten() {
            if !is_name(variable) {
                let why = format!("{variable:?} is no name of a variable: write letters, digits and _");
                return Err(wrong("variables", &why));
            }
            if is_ours(variable) || is_ours(&format!("{prefix}{variable}")) {
                let why = format!("{variable:?} would be a variable of Kitbag's own, which may hold its keys");
                return Err(wrong("variables", &why));
            }
        }
        Ok(OrganizationRules {
            calls_per_minute: self.calls_per_minute,
            concurrent_calls: self.concurrent_calls,
            workspace_bytes: self.workspace_bytes,
            executors_in_flight: self.executors_in_flight,
            queued_runs: self.queued_runs,
            variables: self.variables,
            variables_prefix: (!prefix.is_empty()).then_some(prefix),
            egress_allow: self.egress_allow.map(allowed).transpose()?,
        })
    }
}

fn is_name(text: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.bytes().all(known) && text.bytes().next().is_some_and(|byte| !byte.is_ascii_digit())
}

/// Upper and lower case alike: on some systems they are the same variable.
fn is_ours(name: &str) -> bool {
    name.get(..OURS.len()).is_some_and(|start| start.eq_ignore_ascii_case(OURS))
}
