//! Paths inside a workspace or a toolset: relative, of plain names, with `/` between. A value of this type cannot lead
//! out of the folder it is joined to, whatever the operating system makes of it.

use std::borrow::Borrow;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::id::text_serde;

/// Why a text is not a path of a workspace.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PathError {
    /// Nothing at all.
    #[error("the path is empty")]
    Empty,
    /// It begins with `/`.
    #[error("the path must be relative to the workspace")]
    Absolute,
    /// It has a name that is empty, `.` or `..`.
    #[error("the path must not have an empty, \".\" or \"..\" part")]
    Dots,
    /// A backslash or a NUL. Backslashes separate names on some systems, so a name with one means two things.
    #[error("the path must not have a backslash or a NUL")]
    Character,
    /// A name of more than 255 bytes, which no file system keeps.
    #[error("a name in the path has more than 255 bytes")]
    LongName,
    /// More than 4,095 bytes, which the kernel takes no path of.
    #[error("the path has more than 4095 bytes")]
    Long,
}

/// A checked relative path.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct WorkPath(String);

impl WorkPath {
    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last name.
    pub fn name(&self) -> &str {
        self.0.rsplit_once('/').map_or(&self.0, |(_, name)| name)
    }

    /// The folder it is in; none at the top.
    pub fn parent(&self) -> Option<&str> {
        self.0.rsplit_once('/').map(|(parent, _)| parent)
    }

    /// Its names, from the top.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }

    /// Below a folder of this name.
    pub fn below(folder: &str, name: &str) -> Result<Self, PathError> {
        // Walks make one of these for every file, so nothing is copied twice.
        let mut text = String::with_capacity(folder.len() + 1 + name.len());
        if !folder.is_empty() {
            text.push_str(folder);
            text.push('/');
        }
        text.push_str(name);
        check(&text).map(|()| Self(text))
    }
}

impl FromStr for WorkPath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        check(text).map(|()| Self(text.to_owned()))
    }
}

fn check(text: &str) -> Result<(), PathError> {
    if text.is_empty() {
        return Err(PathError::Empty);
    }
    if text.starts_with('/') {
        return Err(PathError::Absolute);
    }
    if text.len() > 4095 {
        return Err(PathError::Long);
    }
    if text.bytes().any(|byte| byte == 0 || byte == b'\\') {
        return Err(PathError::Character);
    }
    for part in text.split('/') {
        match part {
            "" | "." | ".." => return Err(PathError::Dots),
            part if part.len() > 255 => return Err(PathError::LongName),
            _ => {}
        }
    }
    Ok(())
}

impl AsRef<Path> for WorkPath {
    fn as_ref(&self) -> &Path {
        Path::new(&self.0)
    }
}

impl Borrow<str> for WorkPath {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WorkPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

text_serde!(WorkPath);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        for good in ["a", "a/b", ".hidden", "..foo", "a b/ü/👋", "a\nb", "...", &"a".repeat(255), "C:x", "-rf"] {
            assert_eq!(good.parse::<WorkPath>().map(|path| path.to_string()), Ok(good.to_owned()));
        }
        let longest = "a/".repeat(2047) + "a";
        assert_eq!(longest.parse::<WorkPath>().map(|path| path.as_str().len()), Ok(4095));
        let long = longest + "a";
        for (bad, reason) in [
            ("", PathError::Empty),
            ("/a", PathError::Absolute),
            ("a//b", PathError::Dots),
            ("a/", PathError::Dots),
            (".", PathError::Dots),
            ("..", PathError::Dots),
            ("a/../b", PathError::Dots),
            ("./a", PathError::Dots),
            ("a\\b", PathError::Character),
            ("a\0", PathError::Character),
            (&"a".repeat(256), PathError::LongName),
            (&long, PathError::Long),
        ] {
            assert_eq!(bad.parse::<WorkPath>(), Err(reason), "{bad:?}");
        }
    }

    #[test]
    fn parts() {
        let path: WorkPath = "a/b/c.txt".parse().expect("a good path");
        assert_eq!((path.name(), path.parent(), path.parts().count()), ("c.txt", Some("a/b"), 3));
        assert_eq!(WorkPath::below("", "x").map(|path| path.to_string()), Ok("x".to_owned()));
        assert_eq!(WorkPath::below("a", "..").map(|path| path.to_string()), Err(PathError::Dots));
    }
}
