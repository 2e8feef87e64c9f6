//! What a manifest says about Python: which function a tool is, and which interpreter and packages it needs. Nothing is
//! imported or installed here.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::id::text_serde;
use crate::path::WorkPath;

/// Why a text is not an entrypoint.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum EntrypointError {
    /// Not a module and a function.
    #[error("not an entrypoint: write package.module:function, relative to the toolset")]
    Form,
    /// Longer than any module needs.
    #[error("not an entrypoint: it must have at most {most} characters", most = Entrypoint::LONGEST)]
    Long,
    /// A name such as `__import__`. Those are Python's own machinery, not tools.
    #[error("not an entrypoint: names that begin with two underscores are Python's own")]
    Dunder,
}

/// The function that a tool is: `package.module:function`.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Entrypoint {
    text: String,
    colon: usize,
}

impl Entrypoint {
    /// How many characters it may have.
    pub const LONGEST: usize = 255;

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The module, with dots between its names.
    pub fn module(&self) -> &str {
        &self.text[..self.colon]
    }

    /// The function.
    pub fn function(&self) -> &str {
        &self.text[self.colon + 1..]
    }

    /// The files that the module may be, the first that exists counts: below the toolset's folder, then below `tools/`.
    /// A module of Python itself (`os:system`) is none of these files.
    pub fn files(&self) -> Vec<WorkPath> {
        let path = self.module().replace('.', "/");
        let candidates = ["", "tools/"]
            .into_iter()
            .flat_map(|folder| [format!("{folder}{path}.py"), format!("{folder}{path}/__init__.py")]);
        candidates.filter_map(|path| path.parse().ok()).collect()
    }
}

impl FromStr for Entrypoint {
    type Err = EntrypointError;

    fn from_str(text: &str) -> Result<Self, EntrypointError> {
        if text.len() > Self::LONGEST {
            return Err(EntrypointError::Long);
        }
        let (module, function) = text.split_once(':').ok_or(EntrypointError::Form)?;
        for name in module.split('.').chain([function]) {
            let first = |b: u8| b.is_ascii_alphabetic() || b == b'_';
            let mut bytes = name.bytes();
            if !bytes.next().is_some_and(first) || !bytes.all(|b| first(b) || b.is_ascii_digit()) {
                return Err(EntrypointError::Form);
            }
            if name.starts_with("__") {
                return Err(EntrypointError::Dunder);
            }
        }
        Ok(Self { text: text.to_owned(), colon: module.len() })
    }
}

impl fmt::Display for Entrypoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

text_serde!(Entrypoint);

/// What the Python tools of a toolset need.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct PythonNeeds {
    /// Which interpreters will do.
    pub version: Option<PythonVersion>,
    /// Which packages.
    pub dependencies: Vec<Requirement>,
}

impl PythonNeeds {
    /// How many packages there may be.
    pub const MOST: usize = 500;
}

/// A text that says no range of versions.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("not a Python version: write 3.12, >=3.11 or >=3.10,<3.14")]
pub struct PythonVersionError;

/// Which versions of Python will do: one, or conditions with commas between.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct PythonVersion(String);

impl PythonVersion {
    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether an interpreter of this version will do. A condition speaks of as many numbers as it names: `3.12` is every
    /// 3.12.
    pub fn allows(&self, version: [u32; 3]) -> bool {
        self.0.split(',').all(|condition| {
            let condition = condition.trim();
            let end = condition.find(|c: char| c.is_ascii_digit()).unwrap_or(0);
            let (operator, wanted) = (condition[..end].trim(), condition[end..].trim_end_matches(".*"));
            let wanted: Vec<u32> = wanted.split('.').filter_map(|number| number.parse().ok()).collect();
            let named = &version[..wanted.len().min(3)];
            match operator {
                ">=" => named >= wanted.as_slice(),
                "<=" => named <= wanted.as_slice(),
                ">" => named > wanted.as_slice(),
                "<" => named < wanted.as_slice(),
                "!=" => named != wanted.as_slice(),
                // All numbers but the last stay.
                "~=" => {
                    let same = wanted.len().saturating_sub(1).max(1);
                    named >= wanted.as_slice() && version[..same] == wanted[..same]
                }
                _ => named == wanted.as_slice(),
            }
        })
    }
}

impl FromStr for PythonVersion {
    type Err = PythonVersionError;

    fn from_str(text: &str) -> Result<Self, PythonVersionError> {
        let number = |part: &str| !part.is_empty() && part.len() <= 6 && part.bytes().all(|b| b.is_ascii_digit());
        let condition = |text: &str| {
            let text = text.trim();
            let operator = ["===", "==", "!=", "<=", ">=", "~=", "<", ">"].into_iter().find(|o| text.starts_with(*o));
            let version = text[operator.map_or(0, str::len)..].trim_start();
            let version = version.strip_suffix(".*").unwrap_or(version);
            version.split('.').count() <= 3 && version.split('.').all(number)
        };
        if text.len() <= 100 && text.split(',').all(condition) {
            Ok(Self(text.to_owned()))
        } else {
            Err(PythonVersionError)
        }
    }
}

impl fmt::Display for PythonVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

text_serde!(PythonVersion);

/// Why a text is not a requirement.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RequirementError {
    /// It does not begin with the name of a package. An option (`--index-url`) or a path would make the installer do
    /// something else than install a package.
    #[error(
        "not a requirement: it must be one line of at most 500 characters that begins with the name of a package, such as requests>=2.31"
    )]
    Form,
    /// A package from somewhere else than an index or `https`.
    #[error("not a requirement: a package that is named by its address must come from https://")]
    Address,
}

/// One package that is needed, as PEP 508 writes it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Requirement(String);

impl Requirement {
    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Requirement {
    type Err = RequirementError;

    fn from_str(text: &str) -> Result<Self, RequirementError> {
        let end = text.bytes().position(|b| !(b.is_ascii_alphanumeric() || b"._-".contains(&b))).unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
        let named = edge(name.bytes().next()) && edge(name.bytes().next_back());
        let goes_on = |c: char| c.is_ascii_whitespace() || "[(<>=!~;@".contains(c);
        if text.len() > 500 || !named || text.chars().any(char::is_control) || !rest.chars().next().is_none_or(goes_on)
        {
            return Err(RequirementError::Form);
        }
        match rest.split_once('@') {
            Some((_, address)) if !address.trim_start().starts_with("https://") => Err(RequirementError::Address),
            _ => Ok(Self(text.to_owned())),
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

text_serde!(Requirement);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_will_do() {
        for (wanted, version, allowed) in [
            ("3.12", [3, 12, 4], true),
            ("3.12", [3, 11, 9], false),
            ("3", [3, 11, 9], true),
            ("==3.11.*", [3, 11, 9], true),
            ("==3.11.2", [3, 11, 9], false),
            (">=3.11", [3, 11, 0], true),
            (">=3.11", [3, 10, 9], false),
            (">=3.10,<3.14", [3, 13, 1], true),
            (">=3.10, <3.14", [3, 14, 0], false),
            ("!=3.11", [3, 11, 9], false),
            (">3.11", [3, 11, 9], false),
            ("<=3.11", [3, 11, 9], true),
            ("~=3.11", [3, 14, 0], true),
            ("~=3.11", [3, 10, 0], false),
            ("~=3.11.2", [3, 11, 9], true),
            ("~=3.11.2", [3, 12, 0], false),
        ] {
            assert_eq!(wanted.parse::<PythonVersion>().unwrap().allows(version), allowed, "{wanted} {version:?}");
        }
    }

    #[test]
    fn entrypoints() {
        for (text, files) in [
            (
                "tools.files:write_file",
                ["tools/files.py", "tools/files/__init__.py", "tools/tools/files.py", "tools/tools/files/__init__.py"],
            ),
            ("a:b", ["a.py", "a/__init__.py", "tools/a.py", "tools/a/__init__.py"]),
            ("_a.b2:_run", ["_a/b2.py", "_a/b2/__init__.py", "tools/_a/b2.py", "tools/_a/b2/__init__.py"]),
        ] {
            let entrypoint: Entrypoint = text.parse().unwrap();
            let found: Vec<String> = entrypoint.files().iter().map(ToString::to_string).collect();
            assert_eq!(found, files);
            assert_eq!(format!("{}:{}", entrypoint.module(), entrypoint.function()), text);
        }
        for (bad, reason) in [
            ("", EntrypointError::Form),
            ("tools.files", EntrypointError::Form),
            (":run", EntrypointError::Form),
            ("a:", EntrypointError::Form),
            ("..tools:x", EntrypointError::Form),
            (".a:x", EntrypointError::Form),
            ("a..b:x", EntrypointError::Form),
            ("a/b:x", EntrypointError::Form),
            ("a:b:c", EntrypointError::Form),
            ("a:b.c", EntrypointError::Form),
            ("a:1b", EntrypointError::Form),
            ("a b:c", EntrypointError::Form),
            ("é:c", EntrypointError::Form),
            ("tools.a:__import__", EntrypointError::Dunder),
            ("__main__:x", EntrypointError::Dunder),
            ("a.__init__:x", EntrypointError::Dunder),
        ] {
            assert_eq!(bad.parse::<Entrypoint>(), Err(reason), "{bad:?}");
        }
        assert_eq!(format!("{}:b", "a".repeat(300)).parse::<Entrypoint>(), Err(EntrypointError::Long));
    }

    #[test]
    fn python_versions() {
        for good in ["3.12", "3", ">=3.11", ">=3.10,<3.14", ">= 3.10, != 3.11.*", "~=3.12", "==3.12.4", "3.12.*"] {
            assert!(good.parse::<PythonVersion>().is_ok(), "{good}");
        }
        for bad in ["", "3.", "three", ">=", "3.12 ; rm", "-3.12", "3.12,,", "3.1.2.3", "python3.12", "3.12rc1"] {
            assert_eq!(bad.parse::<PythonVersion>(), Err(PythonVersionError), "{bad:?}");
        }
    }

    #[test]
    fn requirements() {
        for good in [
            "requests",
            "requests>=2.31,<3",
            "uvicorn[standard] == 0.30.*",
            "a.b_c-d",
            "x; python_version < '3.12'",
            "pkg @ https://a.example/pkg-1.0-py3-none-any.whl",
            "pkg (>=1)",
        ] {
            assert_eq!(good.parse::<Requirement>().map(|r| r.to_string()), Ok(good.to_owned()));
        }
        for (bad, reason) in [
            ("", RequirementError::Form),
            ("--index-url https://evil.example", RequirementError::Form),
            ("-e .", RequirementError::Form),
            ("./local", RequirementError::Form),
            ("/abs", RequirementError::Form),
            ("https://a.example/x.whl", RequirementError::Form),
            ("a/b", RequirementError::Form),
            ("a\n--index-url x", RequirementError::Form),
            ("a-", RequirementError::Form),
            ("pkg @ file:///etc/passwd", RequirementError::Address),
            ("pkg @ git+ssh://a.example/x", RequirementError::Address),
        ] {
            assert_eq!(bad.parse::<Requirement>(), Err(reason), "{bad:?}");
        }
    }
}
