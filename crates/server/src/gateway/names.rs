//! What the servers behind us call their prompts and resources, and what clients see. Where there is one server, its own words are
//! used; where there are many, each says whose it is, in a way that can be taken back.

use kitbag_model::ServerKey;

/// How the address of a server's resource begins where there are many.
const SCHEME: &str = "kitbag-mcp:";

/// A server's resource, or the pattern of some.
pub(super) fn resource(server: &ServerKey, uri: &str) -> String {
    format!("{SCHEME}{server}/{uri}")
}

/// Whose resource this is, and what its server calls it.
pub(super) fn resource_of(uri: &str) -> Option<(ServerKey, &str)> {
    let (server, uri) = uri.strip_prefix(SCHEME)?.split_once('/')?;
    Some((server.parse().ok()?, uri))
}

/// A server's prompt.
pub(super) fn prompt(server: &ServerKey, name: &str) -> String {
    format!("{server}/{name}")
}

/// Whose prompt this is, and what its server calls it.
pub(super) fn prompt_of(name: &str) -> Option<(ServerKey, &str)> {
    let (server, name) = name.split_once('/')?;
    Some((server.parse().ok()?, name))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn names_can_be_taken_back() {
        let server: ServerKey = "files~disk".parse().unwrap();
        for own in ["file:///a/b?c=d#e", "test://x/{id}/data", "ui://x", "", "a/b"] {
            let (found, uri) = resource_of(&resource(&server, own)).map(|(key, uri)| (key, uri.to_owned())).unwrap();
            assert_eq!((found, uri.as_str()), (server.clone(), own));
            let (found, name) = prompt_of(&prompt(&server, own)).map(|(key, name)| (key, name.to_owned())).unwrap();
            assert_eq!((found, name.as_str()), (server.clone(), own));
        }
        for other in ["file:///x", "kitbag-mcp:", "kitbag-mcp:a/b", "kitbag-mcp:a~b", "workspace:///a"] {
            assert_eq!(resource_of(other), None, "{other}");
        }
    }
}
