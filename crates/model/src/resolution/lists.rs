//! The four settings as values, read from the texts in which they are written everywhere: flags, variables, headers, queries.

use super::problem::{Problem, Problems, Setting};

/// The settings as they are written.
#[derive(Clone, Copy, Debug, Default)]
pub struct RawLists<'a> {
    /// Toolset ids, or `all`.
    pub toolsets: Option<&'a str>,
    /// Tools beside them.
    pub enabled_tools: Option<&'a str>,
    /// Tools to take away.
    pub disabled_tools: Option<&'a str>,
    /// Yes or no.
    pub dynamic: Option<&'a str>,
}

/// The settings. A list that is absent says nothing; one that is empty says "none".
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Lists {
    /// Toolset ids, or `all`. Absent means all.
    pub toolsets: Option<Vec<String>>,
    /// Tools beside those of the toolsets.
    pub enabled_tools: Option<Vec<String>>,
    /// Tools to take away, whatever put them in.
    pub disabled_tools: Option<Vec<String>>,
    /// Whether meta tools are listed in place of the tools.
    pub dynamic: Option<bool>,
}

impl Lists {
    /// How many entries a list may have.
    pub const MOST: usize = 512;

    /// Reads the texts. Which names there are is not looked at here.
    pub fn parse(raw: RawLists<'_>) -> Result<Self, Problems> {
        let mut problems = Problems::default();
        let dynamic = raw.dynamic.map(|text| yes_or_no(Setting::Dynamic, text)).transpose();
        let dynamic = dynamic.unwrap_or_else(|problem| {
            problems.add(problem);
            None
        });
        let toolsets = raw.toolsets.map(split);
        let (enabled_tools, disabled_tools) = (raw.enabled_tools.map(split), raw.disabled_tools.map(split));
        let lists = Self { toolsets, enabled_tools, disabled_tools, dynamic };
        let mut wrong = lists.problems();
        problems.0.into_iter().for_each(|problem| wrong.add(problem));
        wrong.none_or(lists)
    }

    /// The same for lists whose entries stand alone, where a comma is part of a name.
    pub fn checked(self) -> Result<Self, Problems> {
        self.problems().none_or(self)
    }

    /// Entries as they are compared: trimmed, none empty, each once.
    pub fn entries<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<String> {
        let mut entries: Vec<String> = Vec::new();
        for entry in texts.map(str::trim).filter(|entry| !entry.is_empty()) {
            if !entries.iter().any(|known| known == entry) {
                entries.push(entry.to_owned());
            }
        }
        entries
    }

    /// What is wrong with how the lists are written.
    fn problems(&self) -> Problems {
        let mut problems = Problems::default();
        for (setting, list) in [
            (Setting::Toolsets, &self.toolsets),
            (Setting::EnabledTools, &self.enabled_tools),
            (Setting::DisabledTools, &self.disabled_tools),
        ] {
            let Some(entries) = list else { continue };
            if entries.len() > Self::MOST {
                problems.add(Problem::TooMany { setting, has: entries.len() });
            }
            for name in entries.iter().filter(|entry| entry.starts_with('-')) {
                problems.add(Problem::TakesAway { setting, name: name.clone() });
            }
        }
        problems
    }

    /// Whether none of the three lists says anything.
    pub fn say_nothing(&self) -> bool {
        self.toolsets.is_none() && self.enabled_tools.is_none() && self.disabled_tools.is_none()
    }
}

/// The entries of a list, each once. `Foo` and `foo` stay two: two tools of one server may be called so.
fn split(text: &str) -> Vec<String> {
    let mut entries: Vec<String> = Vec::new();
    for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let entry = decoded(entry);
        if !entries.contains(&entry) {
            entries.push(entry);
        }
    }
    entries
}

/// A name may hold a comma, which is written `%2C` in a list; `%` itself is `%25`. What is no such sequence stays as it is.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        let pair = behind.first_chunk::<2>().filter(|_| *first == b'%');
        let byte = pair.and_then(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
        // `+7` is a number to the parser and no sequence to us.
        match byte.filter(|_| behind[0].is_ascii_hexdigit()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

fn yes_or_no(setting: Setting, text: &str) -> Result<bool, Problem> {
    match text.trim().to_ascii_lowercase().as_str() {
        "yes" | "y" | "true" | "1" => Ok(true),
        "no" | "n" | "false" | "0" | "" => Ok(false),
        _ => Err(Problem::NotBool { setting, value: text.to_owned() }),
    }
}
