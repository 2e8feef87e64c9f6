//! Every row of the table, and what is in none.

use kitbag_model::Template;

use super::*;

fn declared() -> BTreeMap<String, Declared> {
    let declared = |has_default, several, fixed: Option<&str>| Declared {
        has_default,
        several,
        fixed: fixed.map(ToOwned::to_owned),
    };
    BTreeMap::from([
        ("api-key".to_owned(), declared(false, false, None)),
        ("port".to_owned(), declared(true, false, None)),
        ("dirs".to_owned(), declared(false, true, None)),
        ("fixed".to_owned(), declared(false, false, Some("x$"))),
    ])
}

#[test]
fn the_table() {
    for (host, text, wanted, remarks) in [
        (Host::Client, "plain $HOME {x} $", "plain $HOME {x} $", 0),
        (Host::Client, "", "", 0),
        (Host::Client, "${VAR}", "${ENV:VAR}", 0),
        (Host::Client, "${env:VAR}", "${ENV:VAR}", 0),
        (Host::Client, "${ENV:VAR}", "${ENV:VAR}", 0),
        (Host::Client, "${my_var}", "${ENV:my_var}", 0),
        (Host::Client, "${VAR:-d}", "${ENV:VAR}", 1),
        (Host::Client, "${env:VAR:-d}", "${ENV:VAR}", 1),
        (Host::Client, "${VAR:-}", "${ENV:VAR}", 1),
        (Host::Client, "a${A}b${B}", "a${ENV:A}b${ENV:B}", 0),
        (Host::Client, "${input:api-key}", "${ENV:API_KEY}", 0),
        (Host::Client, "${input:other}", "${ENV:OTHER}", 1),
        (Host::Client, "${input:port}", "${ENV:PORT}", 1),
        (Host::Client, "${userHome}${/}x${pathSeparator}y", "${ENV:HOME}/x/y", 0),
        (Host::Client, "${workspaceFolder}/a", "${ENV:WORKSPACE_FOLDER}/a", 1),
        (Host::Client, "${workspaceFolderBasename}", "${ENV:WORKSPACE_FOLDER_BASENAME}", 1),
        (Host::Client, "${CLAUDE_PLUGIN_ROOT}/s.ts", "${KITBAG_TOOLSET_DIR}/s.ts", 0),
        (Host::Client, "${CLAUDE_PLUGIN_DATA}", "${ENV:CLAUDE_PLUGIN_DATA}", 1),
        (Host::Client, "${CLAUDE_PROJECT_DIR:-.}", "${ENV:CLAUDE_PROJECT_DIR}", 1),
        (Host::Client, "${DESKTOP}", "${ENV:DESKTOP}", 0),
        (Host::Bundle, "${DESKTOP}/a", "${ENV:HOME}/Desktop/a", 0),
        (Host::Bundle, "${DOCUMENTS}:${DOWNLOADS}", "${ENV:HOME}/Documents:${ENV:HOME}/Downloads", 0),
        (Host::Bundle, "${__dirname}/a..b/.c", "${KITBAG_TOOLSET_DIR}/a..b/.c", 0),
        (Host::Bundle, "--port=${user_config.port}", "--port=${ENV:PORT}", 1),
        (Host::Bundle, "${user_config.dirs}", "${ENV:DIRS}", 1),
        (Host::Registry, "https://{api-key}.example/{port}", "https://${ENV:API_KEY}.example/${ENV:PORT}", 1),
        (Host::Registry, "{\"a\": {}} {fixed} {", "{\"a\": {}} x$ {", 0),
        (Host::Registry, "{fixed}{{}", "x$${{}", 0),
        (Host::Registry, "{unknown}", "${ENV:UNKNOWN}", 1),
        (Host::Registry, "${VAR}", "${ENV:VAR}", 0),
    ] {
        let declared = declared();
        let lowered =
            lower(text, &Scope { host, declared: &declared }).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(lowered.text(), wanted, "{text}");
        assert_eq!(lowered.remarks.len(), remarks, "{text}: {:?}", lowered.remarks);
        let template: Template = wanted.parse().unwrap();
        let names: Vec<&str> = template.names().collect();
        let found: Vec<&str> = lowered
            .parts
            .iter()
            .filter_map(|part| match part {
                Part::Variable(name) => Some(name.as_str()),
                Part::Literal(_) => None,
            })
            .collect();
        assert_eq!(names, found, "{text}");
    }
}

#[test]
fn what_is_refused() {
    let long = format!("${{{}}}", "A".repeat(129));
    for (host, text, wanted) in [
        (Host::Client, "${A", Refusal::Unclosed),
        (Host::Client, "${A:-${B}}", Refusal::Nested),
        (Host::Client, "$${A}", Refusal::Escaped),
        (Host::Client, "${A}$${B}", Refusal::Escaped),
        (Host::Client, "$${/}", Refusal::Escaped),
        (Host::Client, "${}", Refusal::Unknown),
        (Host::Client, "${ENV:}", Refusal::Unknown),
        (Host::Client, "${ENV:1X}", Refusal::Unknown),
        (Host::Client, "${a.b}", Refusal::Unknown),
        (Host::Client, "${command:x}", Refusal::Unknown),
        (Host::Client, "${config:x.y}", Refusal::Unknown),
        (Host::Client, "${input:}", Refusal::Unknown),
        (Host::Client, "${sk-ant-secret}", Refusal::Unknown),
        (Host::Client, &long, Refusal::Unknown),
        (Host::Client, "${KITBAG_TOKEN}", Refusal::Reserved),
        (Host::Client, "${env:kitbag_token}", Refusal::Reserved),
        (Host::Client, "${KITBAG_TOOLSET_DIR}/x", Refusal::Reserved),
        (Host::Client, "${input:kitbag-data}", Refusal::Reserved),
        (Host::Bundle, "${__dirname}/../x", Refusal::Outside),
        (Host::Bundle, "--a=${__dirname}/b/..", Refusal::Outside),
        (Host::Bundle, "${__dirname}/${A}/../../x", Refusal::Outside),
        (Host::Bundle, "${__dirname}\\..\\x", Refusal::Outside),
        (Host::Bundle, "${__dirname}:..", Refusal::Outside),
        (Host::Registry, "{fixed}{port}", Refusal::Escaped),
        (Host::Registry, "{fixed}${__dirname}", Refusal::Escaped),
    ] {
        let declared = declared();
        assert_eq!(lower(text, &Scope { host, declared: &declared }).err(), Some(wanted), "{text}");
    }
}

#[test]
fn what_holds_no_value() {
    let declared = BTreeMap::new();
    let scope = Scope { host: Host::Bundle, declared: &declared };
    for (text, wanted) in [
        ("${A}", true),
        ("Bearer ${A}", true),
        ("token ${A}", true),
        ("${__dirname}", true),
        ("${__dirname}/lib", true),
        ("${HOME}/x", true),
        ("${__dirname}/lib:${__dirname}/more", true),
        ("${__dirname}:${HOME}/x", true),
        ("", false),
        ("x", false),
        ("Bearer x", false),
        ("sk-${A}", false),
        ("Secret ${A}", false),
        ("Bearer${A}", false),
        ("Bearer ${A} ", false),
        ("${A}${B}", false),
        ("${A}/x", false),
        ("${__dirname}x", false),
        ("${__dirname}/lib:secret", false),
        ("${__dirname}/lib:secret:${__dirname}/x", false),
        ("x${__dirname}", false),
    ] {
        assert_eq!(lower(text, &scope).unwrap().holds_no_value(), wanted, "{text}");
    }
    assert_eq!(reference_to("X-Api-Key").unwrap().text(), "${ENV:X_API_KEY}");
    assert_eq!(reference_to("kitbag_x").err(), Some(Refusal::Reserved));
    assert_eq!(literal("${A}").text(), "$${A}");
}
