//! The one table by which other programs' placeholders become references to variables.
//!
//! | there | here |
//! |---|---|
//! | `${VAR}`, `${env:VAR}`, `${ENV:VAR}` | `${ENV:VAR}` |
//! | `${VAR:-default}` | `${ENV:VAR}`; the default is dropped |
//! | `${input:some-id}`, `${user_config.some_id}`, `{some_id}` in a registry entry | `${ENV:SOME_ID}` |
//! | `${__dirname}`, `${CLAUDE_PLUGIN_ROOT}` | `${KITBAG_TOOLSET_DIR}`, the toolset's own folder |
//! | `${userHome}`; in an MCP bundle `${DESKTOP}`, `${DOCUMENTS}`, `${DOWNLOADS}` | `${ENV:HOME}` and the folder below it |
//! | `${/}`, `${pathSeparator}` | `/` |
//! | `${workspaceFolder}`, `${CLAUDE_PROJECT_DIR}` and other words that only an editor knows | a variable that somebody must set |
//!
//! Everything else in `${…}` is refused, `$${` too: some programs take it for an escape and some do not. So is a reference to
//! `KITBAG_…`: those are this program's own, and a file from elsewhere has no business with them.

use std::collections::BTreeMap;

use kitbag_model::placeholder::is_variable;

use super::name;

/// The variable that stands for the toolset's own folder. No user's variable can be mistaken for it: Kitbag resolves none
/// that begins with `KITBAG_` from the environment.
pub(crate) const TOOLSET_DIR: &str = "KITBAG_TOOLSET_DIR";
/// Words before a secret in a header. They are no secret themselves.
const SCHEMES: [&str; 6] = ["bearer", "basic", "token", "apikey", "api-key", "key"];

/// Who reads such texts elsewhere.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum Host {
    /// A program with a list of servers.
    Client,
    /// A program that installs MCP bundles.
    Bundle,
    /// A program that installs from the registry; `{curly}` parts are its placeholders.
    Registry,
}

/// What a file says of a value that its user is asked for.
#[derive(Default)]
pub(super) struct Declared {
    pub has_default: bool,
    /// Whether it can be several values.
    pub several: bool,
    /// What it always is. Registry entries have such.
    pub fixed: Option<String>,
}

/// What a text can refer to.
pub(super) struct Scope<'a> {
    pub host: Host,
    pub declared: &'a BTreeMap<String, Declared>,
}

/// Why a text cannot be taken. Nothing of the text is repeated.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("has \"${{\" without \"}}\"")]
    Unclosed,
    #[error("has \"${{\" inside \"${{…}}\"; write one variable for the whole")]
    Nested,
    #[error("has \"$${{\", which means different things to different programs; write ${{NAME}} for a variable")]
    Escaped,
    #[error("has a \"${{…}}\" that is no reference to a variable; write ${{NAME}} or ${{env:NAME}}")]
    Unknown,
    #[error("refers to a variable that begins with KITBAG_; those are Kitbag's own")]
    Reserved,
    #[error("has a path that leads out of the toolset's folder; \"..\" is not allowed there")]
    Outside,
}

#[derive(Debug, Eq, PartialEq)]
enum Part {
    Literal(String),
    Variable(String),
}

/// A text with its references replaced.
#[derive(Debug, Default)]
pub(super) struct Lowered {
    parts: Vec<Part>,
    /// What was lost on the way.
    pub remarks: Vec<String>,
}

/// Replaces the references of a text.
pub(super) fn lower(text: &str, scope: &Scope<'_>) -> Result<Lowered, Refusal> {
    let mut lowered = Lowered::default();
    let mut rest = text;
    while let Some(at) = next(rest, scope.host) {
        lowered.literal(&rest[..at]);
        if let Some(inside) = rest[at..].strip_prefix("${") {
            if rest[..at].ends_with('$') {
                return Err(Refusal::Escaped);
            }
            let end = inside.find('}').ok_or(Refusal::Unclosed)?;
            lowered.reference(&inside[..end], scope)?;
            rest = &inside[end + 1..];
        } else {
            rest = &rest[at + 1..];
            match rest.find('}').filter(|end| is_curly_name(&rest[..*end])) {
                Some(end) => {
                    lowered.asked(&rest[..end], scope, "the variable")?;
                    rest = &rest[end + 1..];
                }
                None => lowered.literal("{"),
            }
        }
    }
    lowered.literal(rest);
    lowered.check()?;
    Ok(lowered)
}

/// A literal text. It holds no reference, whatever it looks like.
pub(super) fn literal(text: &str) -> Lowered {
    let mut lowered = Lowered::default();
    lowered.literal(text);
    lowered
}

/// A reference to the variable for a key.
pub(super) fn reference_to(key: &str) -> Result<Lowered, Refusal> {
    let mut lowered = Lowered::default();
    lowered.variable(&name::variable(key).ok_or(Refusal::Unknown)?)?;
    Ok(lowered)
}

/// Where the next placeholder may begin.
fn next(text: &str, host: Host) -> Option<usize> {
    match host {
        Host::Registry => text.find('{').map(|at| if text[..at].ends_with('$') { at - 1 } else { at }),
        Host::Client | Host::Bundle => text.find("${"),
    }
}

fn is_curly_name(text: &str) -> bool {
    let good = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    text.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_') && text.bytes().all(good)
}

impl Lowered {
    fn literal(&mut self, text: &str) {
        match self.parts.last_mut() {
            _ if text.is_empty() => {}
            Some(Part::Literal(before)) => before.push_str(text),
            _ => self.parts.push(Part::Literal(text.to_owned())),
        }
    }

    fn variable(&mut self, name: &str) -> Result<(), Refusal> {
        if name.to_ascii_uppercase().starts_with("KITBAG_") {
            return Err(Refusal::Reserved);
        }
        // A dollar sign before a reference would turn it into an escape.
        if matches!(self.parts.last(), Some(Part::Literal(text)) if text.ends_with('$')) {
            return Err(Refusal::Escaped);
        }
        self.parts.push(Part::Variable(name.to_owned()));
        Ok(())
    }

    /// What stands between the braces.
    fn reference(&mut self, inside: &str, scope: &Scope<'_>) -> Result<(), Refusal> {
        if inside.contains("${") {
            return Err(Refusal::Nested);
        }
        let (word, default) = inside.split_once(":-").map_or((inside, false), |(word, _)| (word, true));
        let below_home = |folder: &str| Some(folder.to_owned()).filter(|_| scope.host == Host::Bundle);
        let folder = match word {
            "DESKTOP" => below_home("/Desktop"),
            "DOCUMENTS" => below_home("/Documents"),
            "DOWNLOADS" => below_home("/Downloads"),
            _ => None,
        };
        match word {
            "__dirname" | "CLAUDE_PLUGIN_ROOT" => {
                if matches!(self.parts.last(), Some(Part::Literal(text)) if text.ends_with('$')) {
                    return Err(Refusal::Escaped);
                }
                self.parts.push(Part::Variable(TOOLSET_DIR.to_owned()));
                return Ok(());
            }
            "userHome" => self.variable("HOME")?,
            "/" | "pathSeparator" => self.literal("/"),
            "workspaceFolder" | "workspaceRoot" => self.elsewhere("WORKSPACE_FOLDER")?,
            "workspaceFolderBasename" => self.elsewhere("WORKSPACE_FOLDER_BASENAME")?,
            "CLAUDE_PLUGIN_DATA" | "CLAUDE_PROJECT_DIR" => self.elsewhere(word)?,
            _ => {
                let key = word.strip_prefix("input:").or_else(|| word.strip_prefix("user_config."));
                let plain = word.strip_prefix("env:").or_else(|| word.strip_prefix("ENV:")).unwrap_or(word);
                match (key, folder) {
                    (Some(key), _) => self.asked(key, scope, "the input")?,
                    (None, Some(folder)) => {
                        self.variable("HOME")?;
                        self.literal(&folder);
                    }
                    (None, None) if is_variable(plain) => {
                        if default {
                            self.remarks.push(format!("the default of {plain} is not taken; set the variable {plain}"));
                        }
                        self.variable(plain)?;
                    }
                    (None, None) => return Err(Refusal::Unknown),
                }
            }
        }
        Ok(())
    }

    /// Something that the other program knows by itself and that has to be said here.
    fn elsewhere(&mut self, name: &str) -> Result<(), Refusal> {
        self.remarks.push(format!("there is no open project here; set the variable {name}"));
        self.variable(name)
    }

    /// Something that the other program asks its user for.
    fn asked(&mut self, key: &str, scope: &Scope<'_>, what: &str) -> Result<(), Refusal> {
        let variable = name::variable(key).ok_or(Refusal::Unknown)?;
        let found = scope.declared.get(key);
        let key = super::shown(key);
        match found {
            Some(Declared { fixed: Some(text), .. }) => {
                self.literal(text);
                return Ok(());
            }
            Some(declared) => {
                if declared.has_default {
                    self.remarks.push(format!("the default of {what} {key} is not taken; set the variable {variable}"));
                }
                if declared.several {
                    self.remarks.push(format!("{what} {key} can be several values elsewhere; here it is one"));
                }
            }
            None => self.remarks.push(format!("{what} {key} is not declared; set the variable {variable}")),
        }
        self.variable(&variable)
    }

    /// Whether the toolset's folder is left again by the path that follows it.
    fn check(&self) -> Result<(), Refusal> {
        let folder = self.parts.iter().position(|part| matches!(part, Part::Variable(name) if name == TOOLSET_DIR));
        let out = |part: &Part| match part {
            Part::Literal(text) => text.split(['/', '\\', ':', ';', ',', '=', ' ']).any(|name| name == ".."),
            Part::Variable(_) => false,
        };
        match folder {
            Some(at) if self.parts[at..].iter().any(out) => Err(Refusal::Outside),
            _ => Ok(()),
        }
    }

    /// As it is written here.
    pub(super) fn text(&self) -> String {
        let part = |part: &Part| match part {
            Part::Literal(text) => text.replace("${", "$${"),
            Part::Variable(name) if name == TOOLSET_DIR => format!("${{{name}}}"),
            Part::Variable(name) => format!("${{ENV:{name}}}"),
        };
        self.parts.iter().map(part).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    pub(super) fn has_references(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Variable(_)))
    }

    /// Whether nothing in it can be a secret: one reference, one behind the name of a scheme, or paths below a known folder.
    pub(super) fn holds_no_value(&self) -> bool {
        match self.parts.as_slice() {
            [Part::Variable(_)] => true,
            [Part::Literal(scheme), Part::Variable(_)] if scheme.ends_with(' ') => {
                SCHEMES.iter().any(|known| known.eq_ignore_ascii_case(scheme.trim_end()))
            }
            parts => is_paths(parts),
        }
    }
}

/// Whether it is a list of paths, each below the toolset's or the user's folder.
fn is_paths(parts: &[Part]) -> bool {
    let folder = |part: &Part| matches!(part, Part::Variable(name) if name == TOOLSET_DIR || name == "HOME");
    let pairs = parts.chunks(2);
    !parts.is_empty()
        && pairs.enumerate().all(|(index, pair)| {
            let last = (index + 1) * 2 >= parts.len();
            match pair {
                [first] => folder(first),
                [first, Part::Literal(path)] => {
                    folder(first)
                        && (path.starts_with('/') || path == ":")
                        && if last {
                            !path.contains(':')
                        } else {
                            path.ends_with(':') && path.matches(':').count() == 1
                        }
                }
                _ => false,
            }
        })
}

#[cfg(test)]
mod tests;
