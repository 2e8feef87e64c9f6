//! How a program is told to reach Kitbag: by an address with a token, or by a process. What the command line prints and what the page
//! shows are made here, so that they are the same.

use super::{Client, Way};

/// What Kitbag is called in other programs.
pub const NAME: &str = "kitbag";

/// Settings that go with every request of a program, by their names in a query.
pub type Settings = [(&'static str, String)];

/// By address, with a token that the server knows. `prefix` is what the names of the server's headers begin with.
pub fn by_address(url: &str, prefix: &str, token: &str, settings: &Settings) -> Way {
    let mut headers = vec![("Authorization".to_owned(), format!("Bearer {token}"))];
    let mut url = url.to_owned();
    for (place, (name, value)) in settings.iter().enumerate() {
        // Where no header is read, the address says the same.
        if prefix.is_empty() {
            url += &format!("{}{name}={}", if place == 0 { '?' } else { '&' }, segment(value));
        } else {
            headers.push((header(prefix, name), value.clone()));
        }
    }
    Way::Http { url, headers }
}

/// By starting `kitbag mcp stdio`. The program may have another idea of where things are: nothing is left to its environment.
pub fn by_process(command: String, data: String, config: Option<String>, settings: &Settings) -> Way {
    let mut args = vec!["mcp".to_owned(), "stdio".to_owned(), "--data".to_owned(), data];
    args.extend(config.into_iter().flat_map(|config| ["--config".to_owned(), config]));
    for (name, value) in settings {
        match (*name, value.as_str()) {
            ("dynamic", "true") => args.push(flag(name)),
            ("dynamic", value) => args.push(format!("{}={value}", flag(name))),
            (_, value) => args.extend([flag(name), value.to_owned()]),
        }
    }
    Way::Stdio { command, args }
}

/// An address at which everybody is listened to is none to dial.
pub fn reachable(base: &str) -> String {
    let at = |any: &str, own: &str| base.strip_prefix(any).map(|port| format!("{own}{port}"));
    at("http://0.0.0.0:", "http://127.0.0.1:")
        .or_else(|| at("http://[::]:", "http://[::1]:"))
        .unwrap_or_else(|| base.to_owned())
}

/// The flag of a setting: `enabled_tools` is `--enabled-tools`.
pub fn flag(setting: &str) -> String {
    format!("--{}", setting.replace('_', "-"))
}

/// `enabled_tools` becomes `X-Mcp-Enabled-Tools`.
fn header(prefix: &str, setting: &str) -> String {
    let capital = |word: &str| word[..1].to_ascii_uppercase() + &word[1..];
    format!("{prefix}{}", setting.split('_').map(capital).collect::<Vec<_>>().join("-"))
}

/// A value as one segment of a path: `a/b` must not become two.
pub fn segment(text: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let encode = |byte: u8| if keep(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    match text {
        // A segment of dots would be resolved away before it is sent.
        "." | ".." => text.replace('.', "%2E"),
        _ => text.bytes().map(encode).collect(),
    }
}

impl Client {
    /// Where it usually keeps the servers of its user, in words: for somebody who pastes.
    pub fn usual_file(self) -> &'static str {
        match self {
            Self::ClaudeCode => "~/.claude.json",
            Self::ClaudeDesktop => "claude_desktop_config.json (Settings › Developer › Edit Config)",
            Self::Cursor => "~/.cursor/mcp.json",
            Self::VsCode => "mcp.json (command “MCP: Open User Configuration”)",
            Self::Codex => "~/.codex/config.toml",
            Self::OpenCode => "~/.config/opencode/opencode.json",
            _ => "its own configuration",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Way, by_address, by_process, reachable, segment};

    #[test]
    fn settings_go_with_every_request() {
        let settings = [("enabled_tools", "a:b,c".to_owned()), ("dynamic", "true".to_owned())];
        let Way::Http { url, headers } = by_address("http://h/mcp", "X-Mcp-", "t", &settings) else { panic!() };
        assert_eq!(url, "http://h/mcp");
        let headers: Vec<String> = headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        assert_eq!(headers, ["Authorization: Bearer t", "X-Mcp-Enabled-Tools: a:b,c", "X-Mcp-Dynamic: true"]);
        let Way::Http { url, headers } = by_address("http://h/mcp", "", "t", &settings) else { panic!() };
        assert_eq!((url.as_str(), headers.len()), ("http://h/mcp?enabled_tools=a%3Ab%2Cc&dynamic=true", 1));
        let Way::Stdio { args, .. } = by_process("k".into(), "/d".into(), Some("/c".into()), &settings) else {
            panic!()
        };
        let wanted = ["mcp", "stdio", "--data", "/d", "--config", "/c", "--enabled-tools", "a:b,c", "--dynamic"];
        assert_eq!(args, wanted);
    }

    #[test]
    fn an_address_that_can_be_dialled() {
        assert_eq!(reachable("http://0.0.0.0:8700"), "http://127.0.0.1:8700");
        assert_eq!(reachable("http://[::]:8700"), "http://[::1]:8700");
        assert_eq!(reachable("http://127.0.0.1:1"), "http://127.0.0.1:1");
        assert_eq!(reachable("http://192.0.2.1:1"), "http://192.0.2.1:1");
    }

    #[test]
    fn segments() {
        assert_eq!(segment("abc-1_2.~"), "abc-1_2.~");
        assert_eq!(segment("a/b?c#d é"), "a%2Fb%3Fc%23d%20%C3%A9");
        assert_eq!(segment(".."), "%2E%2E");
    }
}
