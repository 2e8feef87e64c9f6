//! Servers, put together from texts that other programs wrote.
//!
//! Here is the rule for secrets: the values of variables and headers must be references. One that is written out is refused,
//! or, if the importer wishes so, replaced by a reference and forgotten.

use std::collections::HashMap;

use kitbag_model::launch::LaunchField;
use kitbag_model::{McpServer, RawLaunch, ServerId};

use super::lower::{self, Lowered, Scope};
use super::name::{self, Ids};
use super::notes::{Notes, shown};
use crate::bundle::Code;
use crate::import::Options;

/// The most servers that one file may have.
const MOST_SERVERS: usize = 1000;

pub(super) struct Builder<'n> {
    pub notes: &'n mut Notes,
    options: Options,
    ids: Ids<ServerId>,
    /// What each variable stands for that took the place of a value, so that two values do not get one variable. This is
    /// dropped with the builder and must not be shown.
    replaced: HashMap<String, String>,
    pub servers: Vec<McpServer>,
}

/// A server that is being read.
pub(super) struct Draft {
    /// Where it stands in its file, for messages: `mcpServers.github`.
    pub place: String,
    /// What it is called there.
    pub name: String,
    pub launch: RawLaunch,
    pub enabled: bool,
    pub description: Option<String>,
}

impl Draft {
    pub(super) fn new(place: impl Into<String>, name: &str) -> Self {
        Self {
            place: place.into(),
            name: name.to_owned(),
            launch: RawLaunch::default(),
            enabled: true,
            description: None,
        }
    }
}

/// The two places whose values may be secrets.
#[derive(Clone, Copy)]
pub(super) enum Secretive {
    Env,
    Headers,
}

impl<'n> Builder<'n> {
    pub(super) fn new(notes: &'n mut Notes, options: Options) -> Self {
        Self { notes, options, ids: Ids::servers(), replaced: HashMap::new(), servers: Vec::new() }
    }

    /// A text with its references replaced; none after a problem.
    pub(super) fn lowered(&mut self, place: &str, text: &str, scope: &Scope<'_>) -> Option<Lowered> {
        match lower::lower(text, scope) {
            Ok(lowered) => {
                for remark in &lowered.remarks {
                    self.notes.warn(format!("{place}: {remark}"));
                }
                Some(lowered)
            }
            Err(refusal) => {
                self.notes.problem_of(Code::InvalidMcpPlaceholder, format!("{place} {refusal}"));
                None
            }
        }
    }

    /// As [`Self::lowered`], as text.
    pub(super) fn text(&mut self, place: &str, text: &str, scope: &Scope<'_>) -> Option<String> {
        self.lowered(place, text, scope).map(|lowered| lowered.text())
    }

    /// A value of a variable or a header, which must be a reference.
    pub(super) fn value(&mut self, draft: &mut Draft, kind: Secretive, key: &str, text: &str, scope: &Scope<'_>) {
        let place = match kind {
            Secretive::Env => format!("{}.env.{}", draft.place, shown(key)),
            Secretive::Headers => format!("{}.headers.{}", draft.place, shown(key)),
        };
        let Some(lowered) = self.lowered(&place, text, scope) else { return };
        let value = if lowered.is_empty() {
            self.notes.warn(format!("{place} is empty and is left out"));
            return;
        } else if lowered.holds_no_value() {
            lowered.text()
        } else if self.options.replace_literals {
            let Some(value) = self.replacement(draft, &place, key, text) else { return };
            value
        } else {
            let message = format!(
                "{place} has its value written out, which may be a secret; write a reference such as ${{{}}} instead, or \
                 import with the values replaced by references",
                name::variable(key).unwrap_or_else(|| "NAME".to_owned())
            );
            self.notes.problem_of(Code::InvalidMcpPlaceholder, message);
            return;
        };
        self.set(draft, kind, key, value);
    }

    /// A value that its user is asked for elsewhere.
    pub(super) fn asked(&mut self, draft: &mut Draft, kind: Secretive, key: &str) {
        match lower::reference_to(key) {
            Ok(reference) => self.set(draft, kind, key, reference.text()),
            Err(refusal) => {
                let message = format!("{}: {} {refusal}", draft.place, shown(key));
                self.notes.problem_of(Code::InvalidMcpPlaceholder, message);
            }
        }
    }

    fn set(&mut self, draft: &mut Draft, kind: Secretive, key: &str, value: String) {
        let map = match kind {
            Secretive::Env => &mut draft.launch.env,
            Secretive::Headers => &mut draft.launch.headers,
        };
        if map.insert(key.to_owned(), value).is_some() {
            self.notes.problem(format!("{}: {} is there twice", draft.place, shown(key)));
        }
    }

    /// The reference that takes the place of a value. Two values never share a variable: one server would get the
    /// other's secret.
    fn replacement(&mut self, draft: &Draft, place: &str, key: &str, text: &str) -> Option<String> {
        let own = format!("{}_{key}", draft.name);
        let numbered = (2_usize..1000).map(|number| format!("{own}_{number}"));
        for candidate in [key.to_owned(), own.clone()].into_iter().chain(numbered) {
            let Some(variable) = name::variable(&candidate) else { continue };
            let free = self.replaced.get(&variable).is_none_or(|value| value == text);
            match lower::reference_to(&candidate) {
                Ok(reference) if free => {
                    self.notes.warn(format!("{place}: the value is not taken; set the variable {variable}"));
                    self.replaced.insert(variable, text.to_owned());
                    return Some(reference.text());
                }
                _ => {}
            }
        }
        let message = format!("{place} has its value written out, and no variable can be named after it");
        self.notes.problem_of(Code::InvalidMcpPlaceholder, message);
        None
    }

    /// The program to start. Programs cannot have references, so one that has is started by `env`, which does nothing else.
    pub(super) fn command(&mut self, draft: &mut Draft, text: &str, scope: &Scope<'_>) {
        let place = format!("{}.command", draft.place);
        let Some(lowered) = self.lowered(&place, text, scope) else { return };
        if lowered.has_references() {
            draft.launch.command = Some("env".to_owned());
            draft.launch.args.insert(0, lowered.text());
        } else {
            draft.launch.command = Some(text.to_owned());
        }
    }

    /// Checks the whole and takes it.
    pub(super) fn finish(&mut self, draft: Draft) {
        let Draft { place, name, launch, enabled, description } = draft;
        if self.servers.len() >= MOST_SERVERS {
            if self.servers.len() == MOST_SERVERS {
                self.notes.problem(format!("there are more than {MOST_SERVERS} servers; that many are allowed"));
            }
            return;
        }
        self.look_for_secrets(&place, &launch.args);
        match launch.check() {
            Ok(launch) => {
                let id = self.ids.take(&name, "server");
                if id.as_str() != name {
                    self.notes.warn(format!("{place}: the server is called {id} here"));
                }
                let description = description.as_deref().and_then(name::description).map(|(text, _)| text);
                self.servers.push(McpServer { id, launch, enabled, requires_confirmation: None, description });
            }
            Err(errors) => {
                for error in errors {
                    let message = match &error.field {
                        LaunchField::Server => format!("{place} {}", error.reason),
                        LaunchField::Env(Some(key)) => format!("{place}.env.{} {}", shown(key), error.reason),
                        LaunchField::Headers(Some(key)) => format!("{place}.headers.{} {}", shown(key), error.reason),
                        LaunchField::Type => format!("{place}.type: {}", error.reason),
                        field => format!("{place}.{field} {}", error.reason),
                    };
                    let is_of_placeholders = error.reason.is_of_placeholders();
                    let code = if is_of_placeholders { Code::InvalidMcpPlaceholder } else { Code::InvalidManifest };
                    self.notes.problem_of(code, message);
                }
            }
        }
    }

    /// Arguments are shown and exported, so a secret among them is told about. It is told by its place alone.
    fn look_for_secrets(&mut self, place: &str, args: &[String]) {
        let mut flag_before = false;
        for (index, arg) in args.iter().enumerate() {
            let (flag, value) = arg.split_once('=').unwrap_or((arg, ""));
            let written_out = |text: &str| !text.is_empty() && !text.contains("${") && !text.starts_with('-');
            if (flag_before && written_out(arg)) || (is_secret_flag(flag) && written_out(value)) || is_secret(arg) {
                self.notes.warn(format!(
                    "{place}.args[{index}] looks like a secret; everybody who sees the server sees it: use a variable"
                ));
            }
            flag_before = is_secret_flag(arg);
        }
    }
}

fn is_secret_flag(flag: &str) -> bool {
    let Some(word) = flag.strip_prefix('-') else { return false };
    let word = word.trim_start_matches('-').to_ascii_lowercase().replace('_', "-");
    word.split('-').any(|part| matches!(part, "token" | "secret" | "password" | "passwd" | "apikey"))
        || word.ends_with("api-key")
        || word.ends_with("access-key")
}

/// Whether it begins as keys of well-known services do, or is a header with one.
fn is_secret(text: &str) -> bool {
    let header = text.split_once(':').filter(|(name, _)| {
        let name = name.to_ascii_lowercase();
        name == "authorization" || name.ends_with("api-key") || name.ends_with("-token")
    });
    match header {
        Some((_, value)) => !value.trim().is_empty() && !value.contains("${"),
        None => ["sk-", "ghp_", "gho_", "github_pat_", "xoxb-", "xoxp-", "AKIA", "AIza", "glpat-", "hf_"]
            .iter()
            .any(|prefix| text.starts_with(prefix) && text.len() >= prefix.len() + 12),
    }
}
