//! From a launch, whose texts refer to variables, to an endpoint, which can be started or dialled. Where the values come from
//! is the caller's; that none of them comes out again is the [`Redactor`]'s.
//!
//! A launch was checked when it was written, but a value may bring in what the text did not have (a line break that adds a
//! header, a URL of another scheme), so the result is checked again. No error repeats a value.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use kitbag_model::export::looks_like_a_secret;
use kitbag_model::launch::LaunchField;
use kitbag_model::{EnvNotSet, Launch, Template};
use url::Url;

use crate::endpoint::Endpoint;

mod redactor;
#[cfg(test)]
mod tests;

pub use redactor::Redactor;

/// The one variable of our own that resolves: the folder of the server's toolset.
pub const TOOLSET_DIR: &str = "KITBAG_TOOLSET_DIR";

/// Variables of our own. They hold our token, our database's address and our master key.
const OURS: &str = "KITBAG_";

/// A launch with its variables resolved.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// What to start or dial.
    pub endpoint: Endpoint,
    /// Masks what went into it.
    pub redactor: Redactor,
}

/// Why a launch cannot be used as it is.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ResolveError {
    /// A variable has no value.
    #[error(transparent)]
    EnvNotSet(#[from] EnvNotSet),
    /// With its values it became something that is not allowed.
    #[error("with the values of its variables, {field} {reason}")]
    Refused {
        /// Which part.
        field: LaunchField,
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// Resolves `launch` for a toolset whose files are in `folder`. The first variable without a value is told in a fixed order:
/// arguments, folder, environment; URL, headers.
pub fn resolve(
    launch: &Launch,
    folder: Option<&Path>,
    variables: impl Fn(&str) -> Option<String>,
) -> Result<Resolved, ResolveError> {
    let mut filler = Filler { folder, variables, seen: BTreeMap::new(), literals: Vec::new() };
    let endpoint = match launch {
        Launch::Stdio { command, args, cwd, env } => filler.stdio(command, args, cwd.as_ref(), env)?,
        Launch::Remote { kind, url, headers } => {
            Endpoint::Remote { kind: *kind, url: filler.url(url)?, headers: filler.headers(headers)? }
        }
    };
    Ok(Resolved { endpoint, redactor: filler.redactor() })
}

/// Fills in values and remembers them.
struct Filler<'a, F> {
    folder: Option<&'a Path>,
    variables: F,
    seen: BTreeMap<String, String>,
    literals: Vec<String>,
}

impl<F: Fn(&str) -> Option<String>> Filler<'_, F> {
    fn text(&mut self, template: &Template) -> Result<String, EnvNotSet> {
        template.resolve(|name| {
            if name == TOOLSET_DIR {
                return self.folder.and_then(Path::to_str).map(str::to_owned);
            }
            // Upper and lower case alike: on some systems they are the same variable.
            if name.get(..OURS.len()).is_some_and(|start| start.eq_ignore_ascii_case(OURS)) {
                return None;
            }
            let value = (self.variables)(name).filter(|value| !value.is_empty())?;
            self.seen.insert(name.to_owned(), value.clone());
            Some(value)
        })
    }

    fn stdio(
        &mut self,
        command: &str,
        args: &[Template],
        cwd: Option<&Template>,
        env: &BTreeMap<String, Template>,
    ) -> Result<Endpoint, ResolveError> {
        let mut filled = Vec::with_capacity(args.len());
        for (index, arg) in args.iter().enumerate() {
            filled.push(without_nul(self.text(arg)?, || LaunchField::Args(Some(index)))?);
        }
        let cwd = cwd.map(|cwd| self.cwd(cwd)).transpose()?;
        let mut variables = Vec::with_capacity(env.len());
        for (name, value) in env {
            let text = without_nul(self.text(value)?, || LaunchField::Env(Some(name.clone())))?;
            self.note_literal(name, value);
            variables.push((name.clone(), text));
        }
        Ok(Endpoint::Stdio { command: command.to_owned(), args: filled, cwd, env: variables, fence: None })
    }

    fn cwd(&mut self, template: &Template) -> Result<PathBuf, ResolveError> {
        let path = PathBuf::from(without_nul(self.text(template)?, || LaunchField::Cwd)?);
        match self.folder {
            _ if path.is_absolute() => Ok(path),
            // A toolset that wants to be somewhere else has to say where, for whoever trusts it to see.
            Some(_) if climbs(&path) => {
                Err(refused(LaunchField::Cwd, "leads out of the toolset's folder; write it as an absolute path"))
            }
            Some(folder) => Ok(folder.join(path)),
            None => {
                Err(refused(LaunchField::Cwd, "is not absolute, and the server has no toolset's folder to start from"))
            }
        }
    }

    fn url(&mut self, template: &Template) -> Result<Url, ResolveError> {
        let text = self.text(template)?;
        let wrong = |reason| refused(LaunchField::Url, reason);
        if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(wrong("has spaces, line breaks or other control characters"));
        }
        let url = Url::parse(&text).map_err(|_| wrong("is not a URL"))?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(wrong("must begin with http:// or https:// and name a host"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong("must not have a user name or password"));
        }
        Ok(url)
    }

    fn headers(&mut self, headers: &BTreeMap<String, Template>) -> Result<Vec<(String, String)>, ResolveError> {
        let mut filled = Vec::with_capacity(headers.len());
        for (name, value) in headers {
            let text = self.text(value)?;
            if text.chars().any(|c| c.is_control() && c != '\t') {
                let field = LaunchField::Headers(Some(name.clone()));
                return Err(refused(field, "has line breaks or other control characters"));
            }
            self.note_literal(name, value);
            filled.push((name.clone(), text));
        }
        Ok(filled)
    }

    /// What is written out is a secret too when its name says so.
    fn note_literal(&mut self, name: &str, value: &Template) {
        let is_secret =
            |text: &&str| name.eq_ignore_ascii_case("authorization") || looks_like_a_secret(&format!("{name}={text}"));
        if let Some(text) = value.as_literal().filter(is_secret) {
            // `Bearer abc`: it is the last word that must not be seen, however it is introduced.
            let word = text.rsplit(' ').next().unwrap_or(text);
            self.literals.extend([text.to_owned(), word.to_owned()]);
        }
    }

    fn redactor(self) -> Redactor {
        let named = self.seen.iter().map(|(name, value)| {
            let secret = looks_like_a_secret(&format!("{name}={value}"));
            (value.clone(), secret)
        });
        Redactor::new(named.chain(self.literals.into_iter().map(|text| (text, true))))
    }
}

fn refused(field: LaunchField, reason: &'static str) -> ResolveError {
    ResolveError::Refused { field, reason }
}

/// Whether a relative path leads out of the folder that it starts from.
fn climbs(path: &Path) -> bool {
    let mut depth = 0_usize;
    for part in path.components() {
        match part {
            Component::ParentDir if depth == 0 => return true,
            Component::ParentDir => depth -= 1,
            Component::Normal(_) => depth += 1,
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    false
}

fn without_nul(text: String, field: impl FnOnce() -> LaunchField) -> Result<String, ResolveError> {
    if text.contains('\0') { Err(refused(field(), "has a NUL")) } else { Ok(text) }
}
