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

    /// Reads the texts. What their entries name is looked at with a catalogue at hand, which tells of all that are wrong together: names
    /// of nothing, and entries that take away.
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
        let mut wrong = lists.too_long();
        problems.0.into_iter().for_each(|problem| wrong.add(problem));
        wrong.none_or(lists)
    }

    /// The same for lists whose entries stand alone, where a comma is part of a name.
    pub fn checked(self) -> Result<Self, Problems> {
        let mut problems = self.too_long();
        for (setting, entries) in self.each() {
            entries.iter().filter_map(|entry| takes_away(setting, entry)).for_each(|problem| problems.add(problem));
        }
        problems.none_or(self)
    }

    fn each(&self) -> impl Iterator<Item = (Setting, &Vec<String>)> {
        let all = [
            (Setting::Toolsets, &self.toolsets),
            (Setting::EnabledTools, &self.enabled_tools),
            (Setting::DisabledTools, &self.disabled_tools),
        ];
        all.into_iter().filter_map(|(setting, list)| Some((setting, list.as_ref()?)))
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

    fn too_long(&self) -> Problems {
        let long = self.each().filter(|(_, entries)| entries.len() > Self::MOST);
        Problems(long.map(|(setting, entries)| Problem::TooMany { setting, has: entries.len() }).collect())
    }

    /// Whether none of the three lists says anything.
    pub fn say_nothing(&self) -> bool {
        self.toolsets.is_none() && self.enabled_tools.is_none() && self.disabled_tools.is_none()
    }
}

/// What is wrong with an entry that takes away, where none can.
pub(super) fn takes_away(setting: Setting, entry: &str) -> Option<Problem> {
    entry.starts_with('-').then(|| Problem::TakesAway { setting, name: entry.to_owned() })
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
