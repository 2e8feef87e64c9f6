//! How servers want to be used, in their own words, told to clients of an address that several may be behind.

use kitbag_model::{OrgId, ServerKey};

use super::menu::Menu;
use crate::app::App;

/// So much of one of several is told, and of all of them: a model reads it before anything else.
const MOST: usize = 4000;
const MOST_OF_ALL: usize = 16_000;

/// What the servers of a menu say, as far as they are known. Those of the only one are passed on as they are.
pub(super) fn of(app: &App, org: &OrgId, menu: &Menu) -> Option<String> {
    let said = |server: &ServerKey| app.servers().state(org, server)?.instructions;
    match menu.servers.as_slice() {
        [only] if menu.plain => said(only),
        servers => joined(servers.iter().filter_map(|server| Some((server.to_string(), said(server)?)))),
    }
}

/// Several, each under the name of its server. What is too long ends early and says so.
fn joined(said: impl Iterator<Item = (String, String)>) -> Option<String> {
    let (mut all, mut left) = (String::new(), MOST_OF_ALL);
    for (server, text) in said.filter(|(_, text)| !text.trim().is_empty()) {
        let most = left.min(MOST);
        if most == 0 {
            break;
        }
        let shown: String = text.trim().chars().take(most).collect();
        left -= shown.chars().count();
        let is_cut = shown.len() < text.trim().len();
        let rest = if is_cut { "\n(The rest is left out here; the server's own endpoint has it.)" } else { "" };
        let gap = if all.is_empty() { "" } else { "\n\n" };
        all.push_str(&format!("{gap}## Server {server}\n\n{shown}{rest}"));
    }
    (!all.is_empty()).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_all(said: &[(&str, &str)]) -> Option<String> {
        joined(said.iter().map(|(server, text)| ((*server).to_owned(), (*text).to_owned())))
    }

    #[test]
    fn each_stands_under_its_servers_name_and_none_takes_all_the_room() {
        assert_eq!(of_all(&[("a~a", " \n")]), None);
        let two = of_all(&[("a~a", "Look first.\n"), ("b~b", ""), ("c~c", "Then leap.")]);
        assert_eq!(two.as_deref(), Some("## Server a~a\n\nLook first.\n\n## Server c~c\n\nThen leap."));
        let long = "é".repeat(MOST + 1);
        let all = of_all(&[("a~a", long.as_str()), ("b~b", "short")]).unwrap_or_default();
        assert_eq!(all.matches('é').count(), MOST);
        assert!(all.contains("left out") && all.ends_with("## Server b~b\n\nshort"));
        let many: Vec<(&str, &str)> = (0..9).map(|_| ("a~a", long.as_str())).collect();
        assert_eq!(of_all(&many).unwrap_or_default().matches('é').count(), MOST_OF_ALL);
    }
}
