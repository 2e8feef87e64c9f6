//! Reading a `SKILL.md`: YAML between two lines of `---`, then Markdown.

use std::collections::BTreeMap;

use kitbag_model::SkillId;
use serde_json::{Map, Value as Json};

use super::{LARGEST_FILE, Read, Skill, Strictness};
use crate::yaml::{Fields, Key, Node, Place, Problem, Problems, Reader, Scalar, Value, parse};

/// The fields that the specification has.
pub(super) const KEYS: &[Key] = &[
    Key::new("name"),
    Key::new("description"),
    Key::new("license"),
    Key::new("compatibility"),
    Key::new("metadata"),
    Key::new("allowed-tools"),
];
const LONGEST_DESCRIPTION: usize = 1024;
const LONGEST_COMPATIBILITY: usize = 500;
/// How many bytes the front matter may have. All of it is put before a model that only looks for skills.
const LARGEST_FRONT: usize = 64 * 1024;

/// Reads a `SKILL.md`. `folder` is the name of the folder it is in, which its name must be.
pub fn read(bytes: &[u8], folder: Option<&str>, strictness: Strictness) -> Result<Read, Problems> {
    let text = text_of(bytes).map_err(|problem| Problems(vec![problem]))?;
    let stripped = text.strip_prefix('\u{feff}');
    let text = stripped.unwrap_or(text);
    let (front, body) = split(text).map_err(|problem| Problems(vec![problem]))?;
    // The line of the opening dashes is kept as an empty one, so that places count as in the file.
    let front = format!("\n{front}");
    let mut reader = Reader::new(&front);
    let mut parts = Parts { reader: &mut reader, strictness };
    if stripped.is_some() {
        parts.flaw(START, "the file begins with a byte order mark; save it as plain UTF-8");
    }
    let skill = parse(&front, parts.reader).and_then(|root| parts.skill(&root, folder, body));
    let warnings = reader.finish()?;
    let skill = skill.ok_or_else(|| Problems(vec![Problem::bare(START, NO_FRONT.to_owned())]))?;
    Ok(Read { skill, warnings })
}

const START: Place = Place { line: 1, column: 1 };
const NO_FRONT: &str =
    "SKILL.md must begin with front matter that has name and description: a line ---, the fields, a line ---";

fn text_of(bytes: &[u8]) -> Result<&str, Problem> {
    if bytes.len() > LARGEST_FILE {
        return Err(Problem::bare(
            START,
            format!("SKILL.md has {} bytes; at most {LARGEST_FILE} are allowed", bytes.len()),
        ));
    }
    std::str::from_utf8(bytes).map_err(|error| {
        let line = bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
        Problem::bare(Place { line, column: 1 }, "SKILL.md is not UTF-8 text".to_owned())
    })
}

/// The front matter without its dashes, and the rest.
fn split(text: &str) -> Result<(&str, &str), Problem> {
    let dashes = |line: &str| line.trim_end() == "---";
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().filter(|line| dashes(line)).ok_or_else(|| Problem::bare(START, NO_FRONT.to_owned()))?;
    let mut end = first.len();
    for line in lines {
        if dashes(line) {
            return Ok((&text[first.len()..end], &text[end + line.len()..]));
        }
        end += line.len();
        if end > LARGEST_FRONT {
            break;
        }
    }
    let message = format!("the front matter has no closing line --- within {LARGEST_FRONT} bytes");
    Err(Problem::bare(START, message))
}

struct Parts<'r, 's> {
    reader: &'r mut Reader<'s>,
    strictness: Strictness,
}

impl Parts<'_, '_> {
    /// Something that the specification forbids and that a skill can live with.
    fn flaw(&mut self, at: Place, message: impl Into<String>) {
        match self.strictness {
            Strictness::Strict => self.reader.problem(at, message),
            Strictness::Lenient => self.reader.warn(at, message),
        }
    }

    fn skill(&mut self, root: &Node, folder: Option<&str>, body: &str) -> Option<Skill> {
        if matches!(&root.value, Value::Scalar { text, plain: true } if text.is_empty()) {
            return None;
        }
        let fields = self.reader.any_fields(root, "the front matter", KEYS)?;
        let known: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
        for entry in fields.others(&known) {
            let message = format!(
                "\"{}\" is no field of SKILL.md; the fields are {}; what is yours goes into metadata",
                entry.key.escape_debug(),
                known.join(", ")
            );
            self.flaw(entry.at, message);
        }
        let name = self.name(&fields, folder);
        let description = self.description(&fields);
        let license = self.optional(&fields, "license");
        let compatibility = self.compatibility(&fields);
        let metadata = self.metadata(&fields);
        let allowed_tools = self.allowed_tools(&fields);
        let mut front_matter = match verbatim(root) {
            Json::Object(map) => map,
            _ => Map::new(),
        };
        let (name, description) = (name?, description?);
        for (key, text) in [("name", &name), ("description", &description)] {
            front_matter.insert(key.to_owned(), text.as_str().into());
        }
        let body = body.trim().to_owned();
        Some(Skill { name, description, license, compatibility, allowed_tools, metadata, front_matter, body })
    }

    /// The text of a field. Every scalar is a text here, also one that looks like a number.
    fn scalar<'n>(fields: &Fields<'n>, name: &str) -> Option<(&'n str, Place)> {
        let entry = fields.others(&[]).find(|entry| entry.key == name)?;
        match &entry.value.value {
            Value::Scalar { text, .. } => Some((text.trim(), entry.value.at)),
            _ => Some(("", entry.value.at)),
        }
    }

    fn name(&mut self, fields: &Fields<'_>, folder: Option<&str>) -> Option<String> {
        let Some((name, at)) = Self::scalar(fields, "name").filter(|(name, _)| !name.is_empty()) else {
            let message = "the front matter has no name";
            return match folder.filter(|_| self.strictness == Strictness::Lenient) {
                Some(folder) => {
                    self.reader
                        .warn(fields.at, format!("{message}; the folder's name is taken: {}", folder.escape_debug()));
                    Some(folder.to_owned())
                }
                None => {
                    self.reader.problem(fields.at, message);
                    None
                }
            };
        };
        if let Err(error) = name.parse::<SkillId>() {
            self.flaw(at, format!("name: {error}"));
        }
        if let Some(folder) = folder.filter(|folder| *folder != name) {
            self.flaw(at, format!("name must be the name of the folder, {}", folder.escape_debug()));
        }
        Some(name.to_owned())
    }

    fn description(&mut self, fields: &Fields<'_>) -> Option<String> {
        let Some((text, at)) = Self::scalar(fields, "description").filter(|(text, _)| !text.is_empty()) else {
            let message = "the front matter has no description; without one no model knows when to use the skill";
            self.reader.problem(fields.at, message);
            return None;
        };
        self.length(at, "description", text, LONGEST_DESCRIPTION);
        Some(text.to_owned())
    }

    fn length(&mut self, at: Place, what: &str, text: &str, most: usize) {
        let has = text.chars().count();
        if has > most {
            self.flaw(at, format!("{what} must have at most {most} characters, not {has}"));
        }
    }

    /// A field that must be a text where it is there.
    fn optional(&mut self, fields: &Fields<'_>, name: &str) -> Option<String> {
        let (text, at) = Self::scalar(fields, name)?;
        if text.is_empty() {
            self.flaw(at, format!("{name} must be a text and not empty"));
            return None;
        }
        Some(text.to_owned())
    }

    fn compatibility(&mut self, fields: &Fields<'_>) -> Option<String> {
        let text = self.optional(fields, "compatibility")?;
        let at = fields.get("compatibility").map_or(fields.at, |node| node.at);
        self.length(at, "compatibility", &text, LONGEST_COMPATIBILITY);
        Some(text)
    }

    fn metadata(&mut self, fields: &Fields<'_>) -> BTreeMap<String, String> {
        let Some(node) = fields.get("metadata") else { return BTreeMap::new() };
        let Value::Map(entries) = &node.value else {
            self.flaw(node.at, "metadata must be a map from texts to texts");
            return BTreeMap::new();
        };
        let mut metadata = BTreeMap::new();
        for entry in entries {
            match &entry.value.value {
                Value::Scalar { text, .. } => {
                    metadata.insert(entry.key.clone(), text.clone());
                }
                _ => self.flaw(entry.at, format!("metadata.{} must be a text", entry.key.escape_debug())),
            }
        }
        metadata
    }

    /// Words with spaces between, or a list. A space inside parentheses belongs to its word: `Bash(git add *)`.
    fn allowed_tools(&mut self, fields: &Fields<'_>) -> Vec<String> {
        let Some(node) = fields.get("allowed-tools") else { return Vec::new() };
        match &node.value {
            Value::Scalar { text, .. } => words(text),
            Value::List(items) => {
                let mut tools = Vec::new();
                for item in items {
                    match &item.value {
                        Value::Scalar { text, .. } => tools.push(text.clone()),
                        _ => self.flaw(item.at, "allowed-tools must be a text or a list of texts"),
                    }
                }
                tools
            }
            Value::Map(_) => {
                self.flaw(node.at, "allowed-tools must be a text or a list of texts");
                Vec::new()
            }
        }
    }
}

fn words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut depth) = (Vec::new(), String::new(), 0_usize);
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && (c.is_whitespace() || c == ',') {
            words.extend(Some(std::mem::take(&mut word)).filter(|word| !word.is_empty()));
        } else {
            word.push(c);
        }
    }
    words.extend(Some(word).filter(|word| !word.is_empty()));
    words
}

/// A value as JSON; a number that JSON does not have stays the text it is.
fn verbatim(node: &Node) -> Json {
    match &node.value {
        Value::Scalar { text, plain } => match Scalar::of(text, *plain) {
            Scalar::Null => Json::Null,
            Scalar::Bool(value) => value.into(),
            Scalar::Number(value) => Json::Number(value),
            Scalar::OddNumber(text) | Scalar::Text(text) => text.into(),
        },
        Value::List(items) => items.iter().map(verbatim).collect(),
        Value::Map(entries) => {
            Json::Object(entries.iter().map(|entry| (entry.key.clone(), verbatim(&entry.value))).collect())
        }
    }
}
