//! What holds for the servers of organisations that share one Kitbag, which is all but `local`: no value of a variable or a header is
//! written out, and nothing else that looks like a secret is. Everybody who stores a server asks here.
//!
//! What is wrong is named by its place. No value is repeated: it may be the very secret that must not be kept.

use std::collections::BTreeMap;

use crate::export::secret_fields;
use crate::launch::{Launch, LaunchError, LaunchField, LaunchReason, RawLaunch};
use crate::placeholder::{Template, is_strict_placeholder};

/// Everything about a launch that an organisation may not store.
pub fn refused(launch: &Launch) -> Vec<LaunchError> {
    let (values, field): (_, fn(Option<String>) -> LaunchField) = match launch {
        Launch::Stdio { env, .. } => (env, LaunchField::Env),
        Launch::Remote { headers, .. } => (headers, LaunchField::Headers),
    };
    let literal = values.iter().filter(|(_, value)| !is_strict_placeholder(value.as_str()));
    let literal = literal.map(|(name, _)| (field(Some(name.clone())), LaunchReason::NotStrict));
    let secret = secret_fields(launch).into_iter().map(|field| (field, LaunchReason::LooksSecret));
    literal.chain(secret).map(|(field, reason)| LaunchError { field, reason }).collect()
}

/// Everything in env and headers that an organisation may not store, of a launch that is not checked yet. What is refused is replaced, so
/// that nothing else is said of it, whatever else it may be: a line break in a header, a reference that is none.
pub fn screen(raw: &mut RawLaunch) -> Vec<LaunchError> {
    let mut found = Vec::new();
    let mut screen = |values: &mut BTreeMap<String, String>, field: fn(Option<String>) -> LaunchField| {
        for (name, value) in values.iter_mut().filter(|(_, value)| !is_strict_placeholder(value)) {
            found.push(LaunchError { field: field(Some(name.clone())), reason: LaunchReason::NotStrict });
            *value = "${ENV:REFUSED}".to_owned();
        }
    };
    screen(&mut raw.env, LaunchField::Env);
    screen(&mut raw.headers, LaunchField::Headers);
    found
}

/// The same launch with every whole reference in the form that organisations write. For what another program wrote, or what was made of
/// it: it never said which form it means.
pub fn in_strict_form(mut launch: Launch) -> Launch {
    let lower = |values: &mut BTreeMap<String, Template>| {
        for value in values.values_mut() {
            if let Some(strict) = value.in_strict_form() {
                *value = strict;
            }
        }
    };
    match &mut launch {
        Launch::Stdio { env, .. } => lower(env),
        Launch::Remote { headers, .. } => lower(headers),
    }
    launch
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_env(value: &str) -> Result<Launch, Vec<LaunchError>> {
        let env = BTreeMap::from([("TOKEN".to_owned(), value.to_owned())]);
        RawLaunch { command: Some("npx".to_owned()), env, ..RawLaunch::default() }.check()
    }

    fn with_header(value: &str) -> Result<Launch, Vec<LaunchError>> {
        let headers = BTreeMap::from([("X-Key".to_owned(), value.to_owned())]);
        RawLaunch { url: Some("https://mcp.example/".to_owned()), headers, ..RawLaunch::default() }.check()
    }

    /// The ways in which an organisation is refused, if it is: when it is read, or by the policy.
    fn problems(launch: Result<Launch, Vec<LaunchError>>) -> Vec<LaunchError> {
        launch.map_or_else(|problems| problems, |launch| refused(&launch))
    }

    /// The tables of the facts and rows S1 to S3 and S12 of the catalogue of attacks.
    #[test]
    fn values_of_variables_and_headers() {
        let name = |length| format!("${{ENV:{}}}", "A".repeat(length));
        for good in ["${ENV:MY_TOKEN}", "${ENV:1A}", "${ENV:1X}", &name(1), &name(128)] {
            for launch in [with_env(good), with_header(good)] {
                assert_eq!(problems(launch), [], "{good}");
            }
        }
        for bad in [
            "plain-token",
            "Bearer ${ENV:A}",
            " ${ENV:A}",
            "${ENV:A} ",
            "${ENV:A}\n",
            "${ENV:A}\r\nX-Other: b",
            "${ENV:A}\t",
            "${A}",
            "${env:A}",
            "$ENV:A",
            "${ENV:a}",
            "${ENV:}",
            "${ENV:A}${ENV:B}",
            "$${ENV:A}",
            "${ENV:A-B}",
            "${ENV:${ENV:A}}",
            "${ENV:Ä}",
            "${ENV:A",
            "",
            &name(129),
        ] {
            for (launch, field) in [(with_env(bad), "env.TOKEN"), (with_header(bad), "headers.X-Key")] {
                let found = problems(launch);
                assert_eq!(found.iter().map(|one| one.field.to_string()).collect::<Vec<_>>(), [field], "{bad:?}");
                let told = found[0].to_string();
                assert!(bad.trim().len() < 8 || !told.contains(bad.trim()), "{told}");
            }
        }
    }

    /// Row S14, and secrets in arguments.
    #[test]
    fn secrets_elsewhere() {
        let stdio = |args: &[&str], cwd: Option<&str>| {
            let args = args.iter().map(|arg| (*arg).to_owned()).collect();
            let (command, cwd) = (Some("npx".to_owned()), cwd.map(ToOwned::to_owned));
            RawLaunch { command, args, cwd, ..RawLaunch::default() }.check()
        };
        let url = |url: &str| RawLaunch { url: Some(url.to_owned()), ..RawLaunch::default() }.check();
        for (launch, fields) in [
            (stdio(&["-y", "@scope/server"], None), &[][..]),
            (stdio(&["--token=${ENV:T}", "--api-key", "${T}"], Some("/srv")), &[]),
            (stdio(&["--token=abc"], None), &["args[0]"]),
            (stdio(&["x", "--api-key", "abc"], None), &["args[2]"]),
            (stdio(&["ghp_0123456789abcdef", "postgres://u:pw@h/d"], None), &["args[0]", "args[1]"]),
            (stdio(&[], Some("/x/sk-ant-api03-abcdefghijkl")), &["cwd"]),
            (url("https://mcp.example/sse?tenant=7"), &[]),
            (url("https://mcp.example/sse?api_key=${ENV:K}"), &[]),
            (url("https://mcp.example/sse?api_key=abc"), &["url"]),
            (url("https://user:pw@mcp.example/"), &["url"]),
            (url("https://user@mcp.example/"), &["url"]),
            (url("https://mcp.example/aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY/sse"), &["url"]),
        ] {
            let found = problems(launch);
            assert_eq!(found.iter().map(|one| one.field.to_string()).collect::<Vec<_>>(), fields);
        }
    }

    #[test]
    fn what_others_wrote_gets_the_form_of_organisations() {
        for (text, strict) in
            [("${A}", "${ENV:A}"), ("${ENV:A}", "${ENV:A}"), ("${a}", "${a}"), ("x ${A}", "x ${A}"), ("x", "x")]
        {
            for launch in [with_env(text), with_header(text)] {
                let templates = in_strict_form(launch.unwrap());
                assert_eq!(templates.templates().last().unwrap().as_str(), strict);
            }
        }
    }
}
