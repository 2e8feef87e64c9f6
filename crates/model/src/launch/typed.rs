//! How long what somebody types may be. Less than what a manifest may have: a form is read by people before they say yes to it.

use super::check::{LaunchError, LaunchField, LaunchReason, RawLaunch};

const LONGEST_COMMAND: usize = 200;
const MOST_ARGS: usize = 50;
const LONGEST_ARG: usize = 200;
const LONGEST_URL: usize = 2000;

impl RawLaunch {
    /// Everything that is too long, too many or empty for a launch that somebody typed. What else is wrong, [`RawLaunch::check`] tells.
    pub fn too_large(&self) -> Vec<LaunchError> {
        let mut found = Vec::new();
        let mut size = |field: LaunchField, has: usize, least: usize, most: usize, of: &'static str| {
            if !(least..=most).contains(&has) {
                found.push(LaunchError { field, reason: LaunchReason::Size { least, most, of } });
            }
        };
        let count = |text: &str| text.chars().count();
        if let Some(command) = &self.command {
            size(LaunchField::Command, count(command), 1, LONGEST_COMMAND, "characters");
        }
        size(LaunchField::Args(None), self.args.len(), 0, MOST_ARGS, "items");
        for (index, arg) in self.args.iter().enumerate().take(MOST_ARGS) {
            size(LaunchField::Args(Some(index)), count(arg), 1, LONGEST_ARG, "characters");
        }
        if let Some(url) = &self.url {
            size(LaunchField::Url, count(url), 1, LONGEST_URL, "characters");
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths() {
        let stdio = |command: usize, args: usize, arg: usize| RawLaunch {
            command: Some("c".repeat(command)),
            args: vec!["ü".repeat(arg); args],
            ..RawLaunch::default()
        };
        let url =
            |length: usize| RawLaunch { url: Some(format!("{:a<length$}", "https://a/")), ..RawLaunch::default() };
        for (raw, fields) in [
            (stdio(1, 0, 0), &[][..]),
            (stdio(200, 50, 200), &[]),
            (stdio(201, 50, 200), &["command"]),
            (stdio(0, 1, 0), &["command", "args[0]"]),
            (stdio(1, 1, 201), &["args[0]"]),
            (stdio(1, 51, 1), &["args"]),
            (url(2000), &[]),
            (url(2001), &["url"]),
        ] {
            let found: Vec<String> = raw.too_large().iter().map(|one| one.field.to_string()).collect();
            assert_eq!(found, fields);
        }
    }
}
