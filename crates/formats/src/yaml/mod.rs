//! The part of YAML that configuration needs, with the place of every value: maps, lists and scalars.
//!
//! Whatever makes one text mean two things, or a small text a large value, is refused: anchors, aliases, tags, duplicate
//! keys, merge keys, several documents. What a scalar means (a text, a number) is decided by whoever reads the field.

mod emit;
mod fields;
mod problem;
mod scalar;

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Span};

pub(crate) use emit::emit;
pub(crate) use fields::{Fields, Key, Reader, TOP};
pub use problem::{Problem, Problems};
pub(crate) use scalar::Scalar;

/// How many bytes a document may have.
pub(crate) const LARGEST: usize = 1024 * 1024;
/// How deep lists and maps may be inside each other.
const DEEPEST: usize = 64;

/// A place in the text, both counted from 1.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Place {
    pub line: usize,
    pub column: usize,
}

impl From<Span> for Place {
    fn from(span: Span) -> Self {
        Self { line: span.start.line(), column: span.start.col() + 1 }
    }
}

/// A value and where it begins.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub at: Place,
    pub value: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Scalar { text: String, plain: bool },
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A key of a map with its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub key: String,
    pub at: Place,
    pub value: Node,
}

/// A collection that is not closed yet.
enum Open {
    List(Place, Vec<Node>),
    Map(Place, MapBuilder),
}

#[derive(Default)]
struct MapBuilder {
    entries: Vec<Entry>,
    seen: HashMap<String, Place>,
    key: Option<(String, Place)>,
}

/// Reads one document. Problems that leave the rest readable are told to the reader, and the value is given all the same;
/// none is given after one that does not.
pub(crate) fn parse(text: &str, reader: &mut Reader<'_>) -> Option<Node> {
    if let Some(place) = unprintable(text) {
        // What the line is about is not known yet, so it may be a secret.
        reader.secret_problem(place, "a control character; YAML is text and has none but tabs and line breaks");
        return None;
    }
    let mut builder = Builder { reader, open: Vec::new(), root: None, documents: 0 };
    for event in Parser::new_from_str(text) {
        match event {
            Ok((event, span)) => {
                if builder.is_secretive() {
                    builder.reader.hide(span.start.line(), span.end.line());
                }
                builder.event(event, span.into())?;
            }
            Err(error) => {
                let place = Place { line: error.marker().line(), column: error.marker().col() + 1 };
                builder.problem(place, format!("this is not YAML: {}", error.info()));
                return None;
            }
        }
    }
    builder.root
}

/// The first character that YAML does not allow. The parser takes a NUL for the end of the text, so that what stands
/// behind one would be read by other programs only.
fn unprintable(text: &str) -> Option<Place> {
    let bad = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{85}');
    let at = text.find(bad)?;
    let before = &text[..at];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    Some(Place { line: before.matches('\n').count() + 1, column: before[line_start..].chars().count() + 1 })
}

struct Builder<'r, 's> {
    reader: &'r mut Reader<'s>,
    open: Vec<Open>,
    root: Option<Node>,
    documents: usize,
}

/// Keys whose values may be secrets. Lines inside them are not repeated, whatever is wrong there.
const SECRETIVE: [&str; 4] = ["args", "env", "headers", "url"];

impl Builder<'_, '_> {
    /// Whether what comes now is inside a value that may be a secret.
    fn is_secretive(&self) -> bool {
        self.open.iter().any(|open| match open {
            Open::Map(_, map) => map.key.as_ref().is_some_and(|(key, _)| SECRETIVE.contains(&key.as_str())),
            Open::List(..) => false,
        })
    }

    fn problem(&mut self, at: Place, message: impl Into<String>) {
        if self.is_secretive() {
            self.reader.secret_problem(at, message);
        } else {
            self.reader.problem(at, message);
        }
    }

    /// Takes one event; none when it makes no sense to go on.
    fn event(&mut self, event: Event<'_>, at: Place) -> Option<()> {
        match event {
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    self.problem(at, "a second document; there must be one only");
                    return None;
                }
            }
            Event::Alias(_) => {
                self.problem(at, "aliases (*name) are not supported; write the value out");
                self.value(Node { at, value: Value::Scalar { text: String::new(), plain: true } });
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse(anchor, tag.is_some(), at);
                let plain = style == ScalarStyle::Plain;
                self.value(Node { at, value: Value::Scalar { text: text.into_owned(), plain } });
            }
            Event::SequenceStart(anchor, tag) => {
                self.refuse(anchor, tag.is_some(), at);
                self.begin(Open::List(at, Vec::new()), at)?;
            }
            Event::MappingStart(anchor, tag) => {
                self.refuse(anchor, tag.is_some(), at);
                self.begin(Open::Map(at, MapBuilder::default()), at)?;
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop()? {
                Open::List(at, items) => self.value(Node { at, value: Value::List(items) }),
                Open::Map(at, map) => self.value(Node { at, value: Value::Map(map.entries) }),
            },
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
        }
        Some(())
    }

    fn refuse(&mut self, anchor: usize, tagged: bool, at: Place) {
        if anchor != 0 {
            self.problem(at, "anchors (&name) are not supported; write the value out where it is needed");
        }
        if tagged {
            self.problem(at, "tags (!name) are not supported; remove it");
        }
    }

    fn begin(&mut self, open: Open, at: Place) -> Option<()> {
        if self.open.len() >= DEEPEST {
            self.problem(at, format!("nested deeper than {DEEPEST} levels"));
            return None;
        }
        self.open.push(open);
        Some(())
    }

    /// Puts a finished value where it belongs.
    fn value(&mut self, node: Node) {
        let complaint = match self.open.last_mut() {
            None => {
                self.root = Some(node);
                None
            }
            Some(Open::List(_, items)) => {
                items.push(node);
                None
            }
            Some(Open::Map(_, map)) => map.take(node),
        };
        if let Some((at, message)) = complaint {
            self.problem(at, message);
        }
    }
}

impl MapBuilder {
    /// Takes a key, or the value of the last one; gives back what is wrong with it.
    fn take(&mut self, node: Node) -> Option<(Place, String)> {
        let Some((key, at)) = self.key.take() else {
            let Value::Scalar { text, .. } = node.value else {
                self.key = Some((String::new(), node.at));
                return Some((node.at, "a key must be a text, not a list or a map".to_owned()));
            };
            self.key = Some((text, node.at));
            return None;
        };
        if key == "<<" {
            return Some((at, "merge keys (<<) are not supported; write the values out".to_owned()));
        }
        if let Some(first) = self.seen.get(&key) {
            let shown: String = key.chars().take(64).collect();
            return Some((at, format!("the key \"{shown}\" is there twice; the first one is in line {}", first.line)));
        }
        self.seen.insert(key.clone(), at);
        // A value that is left out has its place somewhere behind; the key is what can be seen.
        let left_out = matches!(&node.value, Value::Scalar { text, plain: true } if text.is_empty());
        let value = if left_out { Node { at, ..node } } else { node };
        self.entries.push(Entry { key, at, value });
        None
    }
}

#[cfg(test)]
mod tests;
