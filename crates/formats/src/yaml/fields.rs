//! Reading a tree field by field. The reader goes on after a problem, so that people learn of all of them at once.

use std::collections::HashSet;
use std::fmt::Display;
use std::str::FromStr;

use serde_json::{Map, Value as Json};

use super::scalar::to_json;
use super::{Entry, Node, Place, Problem, Problems, Scalar, Value};

/// A key that a map may have, with other spellings of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub name: &'static str,
    pub aliases: &'static [&'static str],
}

impl Key {
    pub(crate) const fn new(name: &'static str) -> Self {
        Self { name, aliases: &[] }
    }

    pub(crate) const fn or(name: &'static str, aliases: &'static [&'static str]) -> Self {
        Self { name, aliases }
    }

    fn is(&self, text: &str) -> bool {
        self.name == text || self.aliases.contains(&text)
    }
}

/// Collects what is wrong with a text.
pub(crate) struct Reader<'s> {
    lines: Vec<&'s str>,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
    /// How many problems there were after the most that are told.
    untold: usize,
    /// Lines that hold what may be a secret. They are not repeated, whatever is wrong there.
    hidden: HashSet<usize>,
}

/// How many problems, and how many warnings, are told. A text can have a hundred thousand, and nobody reads them.
const MOST_TOLD: usize = 100;
/// How many items a list of a manifest may have.
const MOST_ITEMS: usize = 1000;

/// A map, as a set of fields.
pub(crate) struct Fields<'n> {
    /// What the map is, for messages: `tools[0]`.
    pub what: String,
    pub at: Place,
    entries: &'n [Entry],
    keys: &'static [Key],
}

impl<'n> Fields<'n> {
    /// The entry of a known key. A key with no value is as good as absent.
    pub(crate) fn entry(&self, name: &str) -> Option<&'n Entry> {
        let key = self.keys.iter().find(|key| key.name == name);
        let is = |entry: &&Entry| key.map_or(entry.key == name, |key| key.is(&entry.key));
        self.entries.iter().filter(is).find(|entry| !is_null(&entry.value))
    }

    /// The value of a known key.
    pub(crate) fn get(&self, name: &str) -> Option<&'n Node> {
        self.entry(name).map(|entry| &entry.value)
    }

    /// How the field is called in messages.
    pub(crate) fn path(&self, name: &str) -> String {
        if self.what == TOP { name.to_owned() } else { format!("{}.{name}", self.what) }
    }

    /// The entries whose key is none of these.
    pub(crate) fn others(&self, names: &[&str]) -> impl Iterator<Item = &'n Entry> {
        self.entries.iter().filter(move |entry| !names.contains(&entry.key.as_str()))
    }
}

/// What the outermost map is called in messages.
pub(crate) const TOP: &str = "Manifest";

fn is_null(node: &Node) -> bool {
    matches!(&node.value, Value::Scalar { text, plain } if Scalar::of(text, *plain) == Scalar::Null)
}

impl<'s> Reader<'s> {
    pub(crate) fn new(text: &'s str) -> Self {
        // Line breaks as YAML counts them: LF, CR LF, and CR alone.
        let mut lines: Vec<&str> = Vec::new();
        for line in text.split('\n') {
            lines.extend(line.strip_suffix('\r').unwrap_or(line).split('\r'));
        }
        Self { lines, problems: Vec::new(), warnings: Vec::new(), untold: 0, hidden: HashSet::new() }
    }

    pub(crate) fn problem(&mut self, at: Place, message: impl Into<String>) {
        if self.problems.len() < MOST_TOLD {
            self.problems.push(Problem::new(at, message.into(), &self.lines));
        } else {
            self.untold += 1;
        }
    }

    /// A problem with a value that may be a secret: the line is not repeated.
    pub(crate) fn secret_problem(&mut self, at: Place, message: impl Into<String>) {
        if self.problems.len() < MOST_TOLD {
            self.problems.push(Problem::bare(at, message.into()));
        } else {
            self.untold += 1;
        }
    }

    /// The same of a reference to a variable that is none.
    pub(crate) fn placeholder_problem(&mut self, at: Place, message: impl Into<String>) {
        let before = self.problems.len();
        self.secret_problem(at, message);
        self.problems.iter_mut().skip(before).for_each(|problem| problem.placeholder = true);
    }

    /// These lines hold what may be a secret. Problems that are told already are about the same lines sometimes: a server is
    /// often written in one.
    pub(super) fn hide(&mut self, first: usize, last: usize) {
        self.hidden.extend(first..=last);
    }

    pub(crate) fn warn(&mut self, at: Place, message: impl Into<String>) {
        if self.warnings.len() < MOST_TOLD {
            self.warnings.push(Problem::new(at, message.into(), &self.lines));
        }
    }

    pub(crate) fn has_problems(&self) -> bool {
        !self.problems.is_empty()
    }

    pub(crate) fn problem_count(&self) -> usize {
        self.problems.len() + self.untold
    }

    /// The warnings, or the problems in the order of the text.
    pub(crate) fn finish(mut self) -> Result<Vec<Problem>, Problems> {
        let place = |problem: &Problem| (problem.line, problem.column);
        for problem in self.problems.iter_mut().chain(&mut self.warnings) {
            if self.hidden.contains(&problem.line) {
                (problem.source, problem.caret) = (String::new(), 0);
            }
        }
        self.warnings.sort_by_key(place);
        self.problems.sort_by_key(place);
        if let (Some(last), 1..) = (self.problems.last(), self.untold) {
            let at = Place { line: last.line, column: last.column };
            self.problems.push(Problem::bare(at, format!("and {} more problems, which are not shown", self.untold)));
        }
        if self.problems.is_empty() { Ok(self.warnings) } else { Err(Problems(self.problems)) }
    }

    /// The map's fields, after a look for keys that nobody knows.
    pub(crate) fn fields<'n>(&mut self, node: &'n Node, what: &str, keys: &'static [Key]) -> Option<Fields<'n>> {
        let fields = self.any_fields(node, what, keys)?;
        for (index, entry) in fields.entries.iter().enumerate() {
            let Some(key) = keys.iter().find(|key| key.is(&entry.key)) else {
                // Looking for the nearest key takes time that a map of a hundred thousand keys must not get.
                if self.untold > 0 {
                    self.untold += 1;
                    continue;
                }
                let message = format!("{what} has no key \"{}\"{}", shown(&entry.key), hint(&entry.key, keys));
                self.problem(entry.at, message);
                continue;
            };
            if let Some(first) = fields.entries[..index].iter().find(|other| key.is(&other.key)) {
                let message = format!("\"{}\" means the same as \"{}\"; keep one of them", entry.key, first.key);
                self.problem(entry.at, message);
            }
        }
        Some(fields)
    }

    /// The map's fields, whatever they are called.
    pub(crate) fn any_fields<'n>(&mut self, node: &'n Node, what: &str, keys: &'static [Key]) -> Option<Fields<'n>> {
        match &node.value {
            Value::Map(entries) => Some(Fields { what: what.to_owned(), at: node.at, entries, keys }),
            _ => {
                self.wrong_type(node, what, "a map");
                None
            }
        }
    }

    fn wrong_type(&mut self, node: &Node, what: &str, wanted: &str) {
        let found = match &node.value {
            Value::Scalar { text, plain } => Scalar::of(text, *plain).to_string(),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a map".to_owned(),
        };
        self.problem(node.at, format!("{what} must be {wanted}, not {found}"));
    }

    /// A field that must be there.
    pub(crate) fn required<'n>(&mut self, fields: &Fields<'n>, name: &str) -> Option<&'n Node> {
        let found = fields.get(name);
        if found.is_none() {
            self.problem(fields.at, format!("{} missing required field: {name}", fields.what));
        }
        found
    }

    /// A text. A number or a boolean is not one: `1.10` would become `1.1` on its way through other programs.
    pub(crate) fn text<'n>(&mut self, node: &'n Node, what: &str) -> Option<&'n str> {
        match &node.value {
            Value::Scalar { text, plain } => match Scalar::of(text, *plain) {
                Scalar::Text(text) => return Some(text),
                Scalar::Null => self.wrong_type(node, what, "a text"),
                found => {
                    self.problem(
                        node.at,
                        format!("{what} must be a text, not {found}; write it in quotes: \"{text}\""),
                    );
                }
            },
            _ => self.wrong_type(node, what, "a text"),
        }
        None
    }

    /// A text that may be a secret: nothing of it is repeated.
    pub(crate) fn secret_text<'n>(&mut self, node: &'n Node, what: &str) -> Option<&'n str> {
        let found = match &node.value {
            Value::Scalar { text, plain } => match Scalar::of(text, *plain) {
                Scalar::Text(text) => return Some(text),
                Scalar::Bool(_) => "true or false".to_owned(),
                found => found.to_string(),
            },
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a map".to_owned(),
        };
        self.secret_problem(node.at, format!("{what} must be a text, not {found}; write it in quotes"));
        None
    }

    /// The text of a field, if it is there.
    pub(crate) fn text_of<'n>(&mut self, fields: &Fields<'n>, name: &str) -> Option<&'n str> {
        self.text(fields.get(name)?, &fields.path(name))
    }

    /// A text with a rule.
    pub(crate) fn parsed<T: FromStr<Err: Display>>(&mut self, node: &Node, what: &str) -> Option<T> {
        match self.text(node, what)?.parse() {
            Ok(value) => Some(value),
            Err(error) => {
                self.problem(node.at, format!("{what}: {error}"));
                None
            }
        }
    }

    /// A field that is a text with a rule.
    pub(crate) fn parsed_of<T: FromStr<Err: Display>>(&mut self, fields: &Fields<'_>, name: &str) -> Option<T> {
        self.parsed(fields.get(name)?, &fields.path(name))
    }

    /// A field that is true or false.
    pub(crate) fn bool_of(&mut self, fields: &Fields<'_>, name: &str) -> Option<bool> {
        let node = fields.get(name)?;
        if let Value::Scalar { text, plain } = &node.value
            && let Scalar::Bool(value) = Scalar::of(text, *plain)
        {
            return Some(value);
        }
        self.wrong_type(node, &fields.path(name), "true or false");
        None
    }

    /// The items of a field that is a list, each with what it is called in messages; none if the field is absent.
    pub(crate) fn items<'n>(&mut self, fields: &Fields<'n>, name: &str) -> Vec<(&'n Node, String)> {
        let Some(node) = fields.get(name) else { return Vec::new() };
        let path = fields.path(name);
        match &node.value {
            Value::List(items) if items.len() > MOST_ITEMS => {
                self.problem(node.at, format!("{path} must have at most {MOST_ITEMS} items, not {}", items.len()));
                Vec::new()
            }
            Value::List(items) => {
                items.iter().enumerate().map(|(index, item)| (item, format!("{path}[{index}]"))).collect()
            }
            _ => {
                self.wrong_type(node, &path, "a list");
                Vec::new()
            }
        }
    }

    /// A field that is a map from texts to texts, which may be secrets.
    pub(crate) fn texts<'n>(&mut self, fields: &Fields<'n>, name: &str) -> Vec<(&'n Entry, String)> {
        let Some(node) = fields.get(name) else { return Vec::new() };
        let path = fields.path(name);
        let Some(map) = self.any_fields(node, &path, &[]) else { return Vec::new() };
        let mut texts = Vec::new();
        for entry in map.entries {
            let what = format!("{path}.{}", shown(&entry.key));
            match &entry.value.value {
                // An empty value is a text here: there is no field to be absent.
                Value::Scalar { text, plain: true } if text.is_empty() => texts.push((entry, String::new())),
                _ => {
                    if let Some(text) = self.secret_text(&entry.value, &what) {
                        texts.push((entry, text.to_owned()));
                    }
                }
            }
        }
        texts
    }

    /// The value as JSON.
    pub(crate) fn json(&mut self, node: &Node, what: &str) -> Option<Json> {
        match to_json(node) {
            Ok(value) => Some(value),
            Err((at, text)) => {
                self.problem(at.at, format!("{what} has the number {text}, which JSON cannot hold"));
                None
            }
        }
    }

    /// A map as JSON.
    pub(crate) fn json_map(&mut self, node: &Node, what: &str) -> Option<Map<String, Json>> {
        match self.json(node, what)? {
            Json::Object(map) => Some(map),
            _ => {
                self.wrong_type(node, what, "a map");
                None
            }
        }
    }
}

/// A key of somebody else's for a message: short, and with nothing that a terminal acts upon.
fn shown(key: &str) -> String {
    let text: String = key.chars().take(64).flat_map(char::escape_debug).collect();
    if key.chars().count() > 64 { format!("{text}…") } else { text }
}

/// The nearest known key, or all of them.
fn hint(key: &str, keys: &[Key]) -> String {
    let plain = |text: &str| text.to_ascii_lowercase().replace(['-', '_', ' '], "");
    let wanted: String = plain(key).chars().take(64).collect();
    let spellings = keys.iter().flat_map(|known| known.aliases.iter().chain([&known.name]));
    let nearest = spellings.map(|known| (strsim::damerau_levenshtein(&wanted, &plain(known)), *known)).min();
    match nearest {
        Some((distance, known)) if distance <= 2.max(wanted.len() / 3) && distance < known.len() => {
            format!("; did you mean \"{known}\"?")
        }
        _ => {
            let names: Vec<&str> = keys.iter().map(|key| key.name).collect();
            format!("; the keys are {}", names.join(", "))
        }
    }
}
