//! A toolset under another id. What it says of its own tools follows; what it says of its servers' tools stays.

use crate::name::ToolsetId;
use crate::override_key::OverrideKey;
use crate::toolset::Definition;

/// An id under which the toolset would be another one.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("cannot be called {0}: its overrides would mean other tools than they do; choose another id")]
pub struct NotItsId(pub ToolsetId);

impl Definition {
    /// The same toolset under another id. The key of an override names the toolset or one of its servers, so an id that a server has,
    /// or that a pattern for servers fits, would make an override reach further than its author meant: such an id is refused.
    pub fn called(mut self, id: ToolsetId) -> Result<Self, NotItsId> {
        if self.id == id {
            return Ok(self);
        }
        let is_server = |id: &ToolsetId| self.servers.iter().any(|server| server.id.as_str() == id.as_str());
        let spreads = |key: &OverrideKey| key.reaches(id.as_str()) && !key.reaches(self.id.as_str());
        if is_server(&id) || self.overrides.iter().any(|(key, _)| spreads(key)) {
            return Err(NotItsId(id));
        }
        let mut overrides = Vec::with_capacity(self.overrides.len());
        for (key, over) in self.overrides {
            if key.reaches(id.as_str()) || !key.reaches(self.id.as_str()) {
                overrides.push((key, over));
                continue;
            }
            let moved = key.moved_to(&id);
            // A key may mean a server too: one that is called as the toolset was, or one that its pattern fits.
            if self.servers.iter().any(|server| key.reaches(server.id.as_str())) {
                overrides.push((key, over.clone()));
            }
            if !overrides.iter().any(|(known, _)| *known == moved) {
                overrides.push((moved, over));
            }
        }
        self.overrides = overrides;
        self.id = id;
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::RawLaunch;
    use crate::overrides::Override;
    use crate::toolset::{McpServer, Permissions};

    fn definition(servers: &[&str], keys: &[&str]) -> Definition {
        let server = |id: &&str| McpServer {
            id: id.parse().unwrap(),
            launch: RawLaunch { command: Some("x".to_owned()), ..RawLaunch::default() }.check().unwrap(),
            enabled: true,
            requires_confirmation: None,
            description: None,
        };
        let id: ToolsetId = "app".parse().unwrap();
        let over = |name: &str| Override { name: Some(name.to_owned()), ..Override::default() };
        let key = |text: &&str| (OverrideKey::parse(text, &id).unwrap(), over(text));
        Definition {
            name: "App".parse().unwrap(),
            version: "1.0.0".parse().unwrap(),
            description: None,
            tools: Vec::new(),
            overrides: keys.iter().map(key).collect(),
            servers: servers.iter().map(server).collect(),
            containers: Vec::new(),
            skills: Vec::new(),
            python: crate::PythonNeeds::default(),
            permissions: Permissions::default(),
            id,
        }
    }

    #[test]
    fn keys_follow_the_id() {
        for (servers, keys, id, expected) in [
            (&["gh"][..], &["read", "gh:search", "*:write"][..], "mine", &["mine:read", "gh:search", "*:write"][..]),
            (&[], &["app:a:b", "ap*:x"], "mine", &["mine:a:b", "mine:x"]),
            (&["app"], &["app:x"], "app-1", &["app:x", "app-1:x"]),
            (&["apt"], &["ap*:x", "a*:y"], "mine", &["ap*:x", "mine:x", "a*:y", "mine:y"]),
            (&[], &["ap*:x"], "apple", &["ap*:x"]),
            (&["gh"], &["x"], "app", &["app:x"]),
        ] {
            let moved = definition(servers, keys).called(id.parse().unwrap()).unwrap();
            let found: Vec<&str> = moved.overrides.iter().map(|(key, _)| key.as_str()).collect();
            assert_eq!((moved.id.as_str(), found.as_slice()), (id, expected), "{keys:?}");
        }
    }

    #[test]
    fn no_override_reaches_further_than_before() {
        for (servers, keys, id) in [(&["gh"][..], &[][..], "gh"), (&["gh"], &["g*:x"], "git")] {
            let id: ToolsetId = id.parse().unwrap();
            assert_eq!(definition(servers, keys).called(id.clone()), Err(NotItsId(id)));
        }
    }
}
