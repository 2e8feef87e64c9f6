//! The `WWW-Authenticate` header: what a server wants before it answers (RFC 9110, 11.6.1; RFC 6750, 3; RFC 9728, 5.1).

use super::scopes;

/// What a server says about the token that it wants.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Challenge {
    /// Where its metadata is. A stranger's word.
    pub resource_metadata: Option<String>,
    /// What the token must be good for.
    pub scopes: Vec<String>,
    /// What was wrong with the one it got, such as `invalid_token` or `insufficient_scope`.
    pub error: Option<String>,
}

impl Challenge {
    /// Reads a header, which may hold several challenges. Only that for bearer tokens counts; what cannot be read is left out.
    pub fn parse(header: &str) -> Self {
        let mut found = Self::default();
        let mut bearer = false;
        let mut rest = Scanner(header);
        while let Some(word) = rest.word() {
            match rest.value() {
                // A word without a value begins a challenge of another scheme.
                None => bearer = word.eq_ignore_ascii_case("bearer"),
                Some(value) if bearer => found.take(word, value),
                Some(_) => {}
            }
        }
        found
    }

    /// Whether the token was good, but not for this.
    pub fn is_insufficient_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }

    fn take(&mut self, name: &str, value: String) {
        if name.eq_ignore_ascii_case("resource_metadata") {
            self.resource_metadata.get_or_insert(value);
        } else if name.eq_ignore_ascii_case("scope") {
            self.scopes = scopes::union(&self.scopes, &scopes::parse(&value));
        } else if name.eq_ignore_ascii_case("error") {
            self.error.get_or_insert(value);
        }
    }
}

/// What is left of a header.
struct Scanner<'a>(&'a str);

impl<'a> Scanner<'a> {
    /// The next token, past blanks, commas and whatever is none.
    fn word(&mut self) -> Option<&'a str> {
        loop {
            self.0 = self.0.trim_start_matches([' ', '\t', ',']);
            let end = self.0.find(|letter: char| !is_token(letter)).unwrap_or(self.0.len());
            let (word, rest) = self.0.split_at(end);
            if !word.is_empty() {
                self.0 = rest;
                return Some(word);
            }
            // Something that belongs nowhere: pass over one letter of it.
            let mut letters = rest.chars();
            letters.next()?;
            self.0 = letters.as_str();
        }
    }

    /// The value behind a word, if it has one.
    fn value(&mut self) -> Option<String> {
        let rest = self.0.trim_start_matches([' ', '\t']).strip_prefix('=')?.trim_start_matches([' ', '\t']);
        let Some(quoted) = rest.strip_prefix('"') else {
            let end = rest.find([' ', '\t', ',']).unwrap_or(rest.len());
            let (value, rest) = rest.split_at(end);
            self.0 = rest;
            return Some(value.to_owned());
        };
        let mut value = String::new();
        let mut letters = quoted.chars();
        while let Some(letter) = letters.next() {
            match letter {
                '"' => break,
                '\\' => value.extend(letters.next()),
                other => value.push(other),
            }
        }
        self.0 = letters.as_str();
        Some(value)
    }
}

fn is_token(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_as_servers_send_them() {
        let read = Challenge::parse(
            r#"Bearer error="insufficient_scope", scope="a b", resource_metadata="https://x.example/meta""#,
        );
        assert_eq!(read.resource_metadata.as_deref(), Some("https://x.example/meta"));
        assert_eq!(read.scopes, ["a", "b"]);
        assert!(read.is_insufficient_scope());
        for header in [
            r#"Basic realm="x, scope=\"nope\"", Bearer scope=read"#,
            r#"Bearer realm="", scope="read", Basic scope="nope""#,
            r#"bearer SCOPE = "read""#,
            r#"DPoP scope="nope", Bearer scope="read read""#,
            r#",, Bearer  scope="read",,"#,
            r#"Negotiate abc==, Bearer scope="read""#,
        ] {
            assert_eq!(Challenge::parse(header).scopes, ["read"], "{header}");
        }
    }

    #[test]
    fn the_first_address_counts() {
        let read =
            Challenge::parse(r#"Bearer resource_metadata="https://a.example", resource_metadata="https://b.example""#);
        assert_eq!(read.resource_metadata.as_deref(), Some("https://a.example"));
    }

    #[test]
    fn whatever_it_is_nothing_breaks() {
        for header in
            ["", "Bearer", "=", "\"", "Bearer scope=", "Bearer scope=\"", "Bearer scope=\"\\", "é=\"ü\" Bearer ö"]
        {
            let read = Challenge::parse(header);
            assert!(read.scopes.is_empty() && read.error.is_none(), "{header}: {read:?}");
        }
        assert_eq!(Challenge::parse("Bearer scope=\"a\u{7}b \u{e9} ok\\\"x c\"").scopes, ["c"]);
    }

    proptest::proptest! {
        #[test]
        fn any_header_is_read(header in ".*") {
            Challenge::parse(&header);
        }

        #[test]
        fn what_is_quoted_comes_out_as_it_was(value in "[ -~]{0,40}", before in "(Basic realm=\"x\", |Negotiate YWI=, |)") {
            let quoted = value.replace('\\', "\\\\").replace('"', "\\\"");
            let header = format!("{before}Bearer error=\"{quoted}\", resource_metadata=\"{quoted}\"");
            let read = Challenge::parse(&header);
            proptest::prop_assert_eq!(read.error.as_deref(), Some(value.as_str()));
            proptest::prop_assert_eq!(read.resource_metadata.as_deref(), Some(value.as_str()));
        }
    }
}
