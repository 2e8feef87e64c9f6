//! Texts with references to environment variables: `${VAR}` and `${ENV:VAR}`. `$${` is a literal `${`.
//!
//! A text is cut into parts once, where it enters, so that a malformed reference is refused there and never reaches a
//! process or a server as it stands. Where the values come from is not known here.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::id::text_serde;

/// Why a text is not a template.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PlaceholderError {
    /// A `${` that no `}` follows.
    #[error(
        "\"${{\" without \"}}\": write ${{NAME}} or ${{ENV:NAME}} for a variable, $${{ for the characters themselves"
    )]
    Unclosed,
    /// Something between the braces that is not the name of a variable. It is not repeated: it may be a secret that was put
    /// there by mistake.
    #[error(
        "what is between the braces is no variable: write ${{NAME}} or ${{ENV:NAME}}, where NAME matches \
         ^[A-Za-z_][A-Za-z0-9_]{{0,127}}$, or $${{ for the characters themselves"
    )]
    Malformed,
}

/// A variable that has no value, or an empty one.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("MCP_ENV_NOT_SET:{name}")]
pub struct EnvNotSet {
    /// The variable.
    pub name: String,
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
enum Part {
    Literal(String),
    Variable(String),
}

/// A text that may refer to environment variables.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Template {
    text: String,
    parts: Vec<Part>,
}

impl Template {
    /// A text that refers to nothing: every `${` in it is written so that it stays one.
    pub fn literal(text: &str) -> Self {
        let parts = if text.is_empty() { Vec::new() } else { vec![Part::Literal(text.to_owned())] };
        Self { text: text.replace("${", "$${"), parts }
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The variables it refers to, in order, each as often as it occurs.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Variable(name) => Some(name.as_str()),
            Part::Literal(_) => None,
        })
    }

    /// Whether it is one reference and nothing else, so that it holds no secret itself.
    pub fn is_whole(&self) -> bool {
        matches!(self.parts.as_slice(), [Part::Variable(_)])
    }

    /// The same reference in the strict form, if it is one reference and its name fits there. Both forms mean the same.
    pub fn in_strict_form(&self) -> Option<Self> {
        let [Part::Variable(name)] = self.parts.as_slice() else { return None };
        is_shared_variable(name).then(|| Self { text: format!("${{ENV:{name}}}"), parts: self.parts.clone() })
    }

    /// The text itself, if it refers to nothing.
    pub fn as_literal(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [Part::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// The text with a value for each variable. What a value holds is not looked at again.
    pub fn resolve(&self, mut lookup: impl FnMut(&str) -> Option<String>) -> Result<String, EnvNotSet> {
        let mut resolved = String::new();
        for part in &self.parts {
            match part {
                Part::Literal(text) => resolved.push_str(text),
                Part::Variable(name) => match lookup(name).filter(|value| !value.is_empty()) {
                    Some(value) => resolved.push_str(&value),
                    None => return Err(EnvNotSet { name: name.clone() }),
                },
            }
        }
        Ok(resolved)
    }
}

/// Whether a text is what organisations that share one server must write for every value: `${ENV:NAME}` and nothing
/// else, the name in capitals, digits and underscores.
pub fn is_strict_placeholder(text: &str) -> bool {
    let name = text.strip_prefix("${ENV:").and_then(|rest| rest.strip_suffix('}'));
    name.is_some_and(is_shared_variable)
}

/// Whether organisations that share one server may refer to a variable of this name.
fn is_shared_variable(name: &str) -> bool {
    (1..=128).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

impl FromStr for Template {
    type Err = PlaceholderError;

    fn from_str(text: &str) -> Result<Self, PlaceholderError> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find("${") {
            if rest[..at].ends_with('$') {
                literal.push_str(&rest[..at - 1]);
                literal.push_str("${");
                rest = &rest[at + 2..];
                continue;
            }
            literal.push_str(&rest[..at]);
            let inside = &rest[at + 2..];
            let end = inside.find('}').ok_or(PlaceholderError::Unclosed)?;
            let name = match inside[..end].strip_prefix("ENV:") {
                // What the strict form allows is a reference everywhere, a digit in front included.
                Some(name) if is_variable(name) || is_shared_variable(name) => name,
                None if is_variable(&inside[..end]) => &inside[..end],
                _ => return Err(PlaceholderError::Malformed),
            };
            if !literal.is_empty() {
                parts.push(Part::Literal(std::mem::take(&mut literal)));
            }
            parts.push(Part::Variable(name.to_owned()));
            rest = &inside[end + 1..];
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(Part::Literal(literal));
        }
        Ok(Self { text: text.to_owned(), parts })
    }
}

/// Whether a text can be the name of a variable.
pub fn is_variable(name: &str) -> bool {
    let first = |b: u8| b.is_ascii_alphabetic() || b == b'_';
    let mut bytes = name.bytes();
    name.len() <= 128 && bytes.next().is_some_and(first) && bytes.all(|b| first(b) || b.is_ascii_digit())
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

text_serde!(Template);

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(name: &str) -> Option<String> {
        match name {
            "A" => Some("1".to_owned()),
            "B_2" => Some("${A}".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    #[test]
    fn templates() {
        for (text, names, whole, resolved) in [
            ("", &[][..], false, Ok("")),
            ("plain $HOME $5 $ {A} }", &[], false, Ok("plain $HOME $5 $ {A} }")),
            ("${A}", &["A"], true, Ok("1")),
            ("${ENV:A}", &["A"], true, Ok("1")),
            ("${ENV}", &["ENV"], true, Err("MCP_ENV_NOT_SET:ENV")),
            ("${ENV:1X}", &["1X"], true, Err("MCP_ENV_NOT_SET:1X")),
            ("Bearer ${ENV:A}", &["A"], false, Ok("Bearer 1")),
            (" ${A}", &["A"], false, Ok(" 1")),
            ("${A}\n", &["A"], false, Ok("1\n")),
            ("${A}${ENV:B_2}", &["A", "B_2"], false, Ok("1${A}")),
            ("${MISSING}${EMPTY}", &["MISSING", "EMPTY"], false, Err("MCP_ENV_NOT_SET:MISSING")),
            ("x${EMPTY}", &["EMPTY"], false, Err("MCP_ENV_NOT_SET:EMPTY")),
            ("$${A}", &[], false, Ok("${A}")),
            ("$${", &[], false, Ok("${")),
            ("$$${A}", &[], false, Ok("$${A}")),
            ("$${A}${A}$", &["A"], false, Ok("${A}1$")),
            ("é${A}é", &["A"], false, Ok("é1é")),
        ] {
            let template: Template = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(template.names().collect::<Vec<_>>(), names, "{text}");
            assert_eq!(template.is_whole(), whole, "{text}");
            let found = template.resolve(lookup).map_err(|error| error.to_string());
            assert_eq!(found, resolved.map(ToOwned::to_owned).map_err(ToOwned::to_owned), "{text}");
            assert_eq!(template.to_string(), text);
        }
    }

    #[test]
    fn malformed() {
        let long = format!("${{ENV:{}}}", "A".repeat(129));
        for bad in [
            "${ENV:}",
            "${}",
            "${ENV:1x}",
            "${1X}",
            "${env:X}",
            "${A:-b}",
            "${input:x}",
            "${A B}",
            "${a.b}",
            "${é}",
            "${${A}}",
            &long,
        ] {
            assert!(matches!(bad.parse::<Template>(), Err(PlaceholderError::Malformed)), "{bad}");
        }
        for bad in ["${", "x${A", "${A}${"] {
            assert_eq!(bad.parse::<Template>(), Err(PlaceholderError::Unclosed), "{bad}");
        }
        let message = "${sk-ant-0123456789012345678901234567890}".parse::<Template>().unwrap_err().to_string();
        assert!(!message.contains("sk-ant"), "{message}");
    }

    #[test]
    fn literals_stay_literals() {
        for text in ["", "a", "${A}", "$${A}", "x$", "${", "$$${"] {
            let template = Template::literal(text);
            assert_eq!(template.as_literal(), Some(text));
            assert_eq!(template.as_str().parse::<Template>(), Ok(template), "{text}");
        }
        assert_eq!("${A}".parse::<Template>().unwrap().as_literal(), None);
    }

    #[test]
    fn strict_placeholders() {
        let name = |length| format!("${{ENV:{}}}", "A".repeat(length));
        for good in ["${ENV:MY_TOKEN}", "${ENV:1A}", "${ENV:_}", &name(128)] {
            assert!(is_strict_placeholder(good), "{good}");
        }
        for bad in [
            "${ENV:a}",
            "${ENV:}",
            "Bearer ${ENV:A}",
            " ${ENV:A}",
            "${ENV:A} ",
            "${ENV:A}\n",
            "${A}",
            "${env:A}",
            "$ENV:A",
            "$${ENV:A}",
            "${ENV:A}${ENV:B}",
            "",
            &name(129),
        ] {
            assert!(!is_strict_placeholder(bad), "{bad:?}");
        }
    }

    /// What is strict is also a template, or an organisation could save what it can never read again.
    #[test]
    fn what_is_strict_is_a_reference() {
        let longest = format!("${{ENV:{}}}", "0".repeat(128));
        for text in ["${ENV:MY_TOKEN}", "${ENV:1A}", "${ENV:_}", &longest] {
            let template: Template = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert!(template.is_whole(), "{text}");
            assert_eq!(template.in_strict_form(), Some(template), "{text}");
        }
        for (text, strict) in [
            ("${A}", Some("${ENV:A}")),
            ("${a}", None),
            ("Bearer ${A}", None),
            ("$${A}", None),
            ("a", None),
            ("", None),
        ] {
            let template: Template = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(template.in_strict_form().as_ref().map(Template::as_str), strict, "{text}");
        }
    }
}
