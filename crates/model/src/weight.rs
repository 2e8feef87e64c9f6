//! What can be said of a JSON text before anybody reads it: how heavy it is, for a few bytes of text can be very many of memory,
//! and whether one of its objects says two things under one name.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// What an object counts, in values.
const OBJECT: u64 = 8;

/// How much memory a text will need when it is read, in values. An object needs far more than its few bytes of text.
pub fn json_weight(json: &[u8]) -> u64 {
    let (mut weight, mut quoted, mut escaped) = (0, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'{' if !quoted => weight += OBJECT,
            b'[' | b',' if !quoted => weight += 1,
            _ => {}
        }
    }
    weight
}

/// A key that an object of this text has twice, whichever object it is. Two readers could take two values for it.
pub fn repeated_key(json: &[u8]) -> Option<String> {
    let read: Result<Unrepeated, _> = serde_json::from_slice(json);
    let message = read.err()?.to_string();
    let rest = message.strip_prefix(REPEATED)?;
    Some(rest.rsplit_once(" at line ").map_or(rest, |(key, _)| key).to_owned())
}

const REPEATED: &str = "repeated key: ";

/// Any JSON in which no object has a key twice.
struct Unrepeated;

impl<'de> Deserialize<'de> for Unrepeated {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Unrepeated)
    }
}

impl<'de> Visitor<'de> for Unrepeated {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        let mut seen = HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            if seen.contains(&key) {
                return Err(A::Error::custom(format_args!("{REPEATED}{key}")));
            }
            seen.insert(key);
            map.next_value::<Unrepeated>()?;
        }
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self, A::Error> {
        while list.next_element::<Unrepeated>()?.is_some() {}
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_there_once() {
        for (json, key) in [
            (r#"{"a": 1, "b": {"a": [1, null, true, 1.5, "x"]}}"#, None),
            (r#"{"a": 1, "a": 1}"#, Some("a")),
            (r#"{"a": [{"b": {"x y": 1, "x y": 2}}]}"#, Some("x y")),
            (r#"{"a": 1, "\u0061": 2}"#, Some("a")),
            ("{\"a\": ", None),
        ] {
            assert_eq!(repeated_key(json.as_bytes()).as_deref(), key, "{json}");
        }
    }
}
