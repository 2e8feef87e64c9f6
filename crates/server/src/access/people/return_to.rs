//! Where somebody goes after signing in: a place of this server, whatever a link says. Anything else would make our name vouch for
//! somebody else's page.

const LONGEST: usize = 512;

/// The place that was asked for, if it is one of ours; else the start.
pub(crate) fn checked(asked: Option<&str>) -> String {
    asked.filter(|text| is_ours(text)).unwrap_or("/").to_owned()
}

/// Browsers read `\` as `/` and skip tabs and line breaks, so those are nowhere in it; two slashes at the front begin a host.
fn is_ours(text: &str) -> bool {
    let plain = text.bytes().all(|byte| matches!(byte, 0x21..=0x7e) && byte != b'\\');
    text.len() <= LONGEST && plain && text.starts_with('/') && !text.starts_with("//")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_places_of_ours() {
        for good in ["/", "/chats/1", "/settings?tab=people#x", "/toolsets/a%20b"] {
            assert_eq!(checked(Some(good)), good);
        }
        for bad in [
            "",
            "chats",
            "//evil.example",
            "//evil.example/chats",
            "/\\evil.example",
            "\\\\evil.example",
            "https://evil.example",
            "javascript:alert(1)",
            " /chats",
            "/\t/evil.example",
            "/a\r\nset-cookie: x",
            "/ü",
            &format!("/{}", "a".repeat(600)),
        ] {
            assert_eq!(checked(Some(bad)), "/", "{bad:?}");
        }
        assert_eq!(checked(None), "/");
    }
}
