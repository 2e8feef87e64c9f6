//! Addresses in what servers behind us answer, where they have to say whose they are. Only what is renamed is written anew: all around
//! it stays the text that it came as, so that numbers, unknown fields and their order survive.

use kitbag_mcp::shallow::Shallow;
use kitbag_model::ServerKey;
use serde_json::value::{RawValue, to_raw_value};

use super::names;

/// Says of the address behind a name whose it is. False if there is none.
pub(super) fn address(object: &mut Shallow, name: &str, server: &ServerKey) -> bool {
    let Some(own) = object.text(name) else { return false };
    object.set_value(name, &names::resource(server, &own).into());
    true
}

/// Changes the objects of a list that is behind a name. False if nothing is changed.
pub(super) fn each(object: &mut Shallow, name: &str, change: impl Fn(&mut Shallow) -> bool) -> bool {
    let Some(mut list) = object.parse::<Vec<Box<RawValue>>>(name) else { return false };
    let mut changed = false;
    for entry in &mut list {
        if let Some(mut read) = Shallow::read(entry).filter(|_| entry.get().starts_with('{'))
            && change(&mut read)
        {
            *entry = read.raw();
            changed = true;
        }
    }
    put(object, name, changed.then_some(list))
}

/// Changes the object that is behind a name. False if nothing is changed.
pub(super) fn within(object: &mut Shallow, name: &str, change: impl Fn(&mut Shallow) -> bool) -> bool {
    let read = object.get(name).and_then(Shallow::read);
    put(object, name, read.and_then(|mut read| change(&mut read).then_some(read)))
}

/// The links in a list of content behind a name, or in the one piece of content that is there.
pub(super) fn links(object: &mut Shallow, name: &str, server: &ServerKey) -> bool {
    let link = |block: &mut Shallow| match block.text("type").as_deref() {
        Some("resource_link") => address(block, "uri", server),
        Some("resource") => within(block, "resource", |resource| address(resource, "uri", server)),
        _ => false,
    };
    each(object, name, link) || within(object, name, link)
}

/// A result with what is changed of it.
pub(super) fn result(raw: Box<RawValue>, change: impl Fn(&mut Shallow) -> bool) -> Box<RawValue> {
    let Some(mut read) = Shallow::read(&raw) else { return raw };
    if change(&mut read) { read.raw() } else { raw }
}

fn put<T: serde::Serialize>(object: &mut Shallow, name: &str, value: Option<T>) -> bool {
    let raw = value.and_then(|value| to_raw_value(&value).ok());
    raw.map(|raw| object.set(name, raw)).is_some()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beside_an_address_stays_as_it_came() {
        let server: ServerKey = "a~b".parse().unwrap();
        for (from, to) in [
            (
                r#"{"n":123456789012345678901234567890,"content":[{"type":"text","text":"\u00e9"},{"type":"resource_link","uri":"x://y","size":1.0000000000000000001}]}"#,
                r#"{"n":123456789012345678901234567890,"content":[{"type":"text","text":"\u00e9"},{"type":"resource_link","uri":"kitbag-mcp:a~b/x://y","size":1.0000000000000000001}]}"#,
            ),
            (
                r#"{"content":{"type":"resource","resource":{"uri":"x://y","z":1e400}}}"#,
                r#"{"content":{"type":"resource","resource":{"uri":"kitbag-mcp:a~b/x://y","z":1e400}}}"#,
            ),
            (r#"{"content": [ {"type":"text"}, 5 ]}"#, r#"{"content": [ {"type":"text"}, 5 ]}"#),
            (
                r#"{"content":[{"type":"resource","resource":{"text":"x"}}]}"#,
                r#"{"content":[{"type":"resource","resource":{"text":"x"}}]}"#,
            ),
        ] {
            let raw = RawValue::from_string(from.to_owned()).unwrap();
            assert_eq!(result(raw, |read| links(read, "content", &server)).get(), to);
        }
    }
}
