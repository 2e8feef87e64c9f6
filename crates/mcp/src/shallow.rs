//! An object of JSON of which only the outermost names are looked at. What is behind them stays the text that it came as, so
//! that numbers, unknown fields and their order survive.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

/// Names and what is behind them, in order.
#[derive(Clone, Debug, Default)]
pub struct Shallow(Vec<(String, Box<RawValue>)>);

impl Shallow {
    /// Reads an object; anything else is none.
    pub fn read(raw: &RawValue) -> Option<Self> {
        serde_json::from_str(raw.get()).ok()
    }

    /// What is behind a name.
    pub fn get(&self, name: &str) -> Option<&RawValue> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| &**value)
    }

    /// What is behind a name, as a value. None too if it cannot be that.
    pub fn parse<'a, T: Deserialize<'a>>(&'a self, name: &str) -> Option<T> {
        serde_json::from_str(self.get(name)?.get()).ok()
    }

    /// The text behind a name.
    pub fn text(&self, name: &str) -> Option<String> {
        self.parse(name)
    }

    /// Takes a name away.
    pub fn remove(&mut self, name: &str) -> Option<Box<RawValue>> {
        let at = self.0.iter().position(|(key, _)| key == name)?;
        Some(self.0.remove(at).1)
    }

    /// Puts something behind a name, where it was if it was there.
    pub fn set(&mut self, name: &str, value: Box<RawValue>) {
        match self.0.iter_mut().find(|(key, _)| key == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// The same for a value.
    pub fn set_value(&mut self, name: &str, value: &Value) {
        if let Ok(raw) = to_raw_value(value) {
            self.set(name, raw);
        }
    }

    /// All of it.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), &**value))
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As text again.
    pub fn raw(&self) -> Box<RawValue> {
        to_raw_value(self).unwrap_or_else(|_| RawValue::NULL.to_owned())
    }
}

impl FromIterator<(String, Box<RawValue>)> for Shallow {
    fn from_iter<I: IntoIterator<Item = (String, Box<RawValue>)>>(entries: I) -> Self {
        Self(entries.into_iter().collect())
    }
}

impl Serialize for Shallow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Shallow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Names;
        impl<'de> Visitor<'de> for Names {
            type Value = Shallow;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Shallow, A::Error> {
                let mut found = Vec::new();
                while let Some(entry) = map.next_entry::<String, Box<RawValue>>()? {
                    // Two readers might take different ones of two.
                    if found.iter().any(|(name, _)| *name == entry.0) {
                        return Err(serde::de::Error::custom(format!("the key {:?} is there twice", entry.0)));
                    }
                    found.push(entry);
                }
                Ok(Shallow(found))
            }
        }
        deserializer.deserialize_map(Names)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_is_inside_survives() {
        let text = r#"{"b":1.0000000000000000000000001,"a":{"z":1,  "y":[ ]},"c":"é\u00e9"}"#;
        let mut object: Shallow = serde_json::from_str(text).unwrap();
        assert_eq!(object.raw().get(), text);
        object.set_value("a", &Value::Null);
        object.set_value("d", &Value::Bool(true));
        object.remove("c");
        assert_eq!(object.raw().get(), r#"{"b":1.0000000000000000000000001,"a":null,"d":true}"#);
        assert!(serde_json::from_str::<Shallow>(r#"{"a":1,"a":2}"#).is_err());
        assert!(serde_json::from_str::<Shallow>("[]").is_err());
    }
}
