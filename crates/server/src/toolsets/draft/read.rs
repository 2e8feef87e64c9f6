//! From JSON to a draft.

use kitbag_formats::bundle::made_skill;
use kitbag_formats::skill;
use kitbag_model::{Description, ServerId, SkillId};
use serde_json::Value;

use super::fields::Fields;
use super::{Draft, DraftProblem, DraftServer, DraftSkill};
use crate::api::error::Code;

/// How long what somebody says of a toolset or a server may be.
const LONGEST_DESCRIPTION: usize = 2000;
/// No toolset has more servers or skills.
const MOST: usize = 200;

const SERVER_FIELDS: &str =
    "id, serverType, command, args, cwd, env, url, headers, enabled, requiresConfirmation, description";

/// A draft as it came: texts that may be anything.
pub(crate) struct RawDraft {
    pub(crate) id: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) description: Option<Option<String>>,
    pub(crate) visibility: Option<String>,
    pub(crate) servers: Option<Vec<Value>>,
    pub(crate) skills: Option<Vec<Value>>,
    pub(crate) trust: Option<bool>,
}

impl Draft {
    /// Reads what came. What is wrong with it is part of the draft: whoever completes it tells that with the rest.
    pub(crate) fn read(raw: RawDraft) -> Self {
        let mut draft = Self { trust: raw.trust, ..Self::default() };
        let problems = &mut draft.problems;
        draft.id = parsed("id", raw.id, problems);
        draft.name = parsed("name", raw.name, problems);
        draft.description = raw.description.map(|text| described("description", text, problems));
        if raw.visibility.as_deref() == Some("public") {
            let message = "is private or org; a toolset becomes public by publishing it";
            problems.push(DraftProblem::new(Code::BadRequest, "visibility", message));
        } else {
            draft.visibility = parsed("visibility", raw.visibility, problems);
        }
        draft.servers = raw.servers.map(|values| servers(values, problems));
        draft.skills = raw.skills.map(|values| skills(values, problems));
        draft
    }
}

fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(
    field: &str,
    text: Option<String>,
    problems: &mut Vec<DraftProblem>,
) -> Option<T> {
    match text?.parse() {
        Ok(value) => Some(value),
        Err(error) => {
            problems.push(DraftProblem::new(Code::BadRequest, field, error));
            None
        }
    }
}

fn described(field: &str, text: Option<String>, problems: &mut Vec<DraftProblem>) -> Option<Description> {
    let text = text.filter(|text| !text.is_empty())?;
    let has = text.chars().count();
    if has > LONGEST_DESCRIPTION {
        let message = format!("must have at most {LONGEST_DESCRIPTION} characters, not {has}");
        problems.push(DraftProblem::new(Code::BadRequest, field, message));
        return None;
    }
    parsed(field, Some(text), problems)
}

fn servers(values: Vec<Value>, problems: &mut Vec<DraftProblem>) -> Vec<DraftServer> {
    let mut servers: Vec<DraftServer> = Vec::new();
    if values.len() > MOST {
        problems.push(DraftProblem::new(Code::BadRequest, "mcpServers", format!("must have at most {MOST} entries")));
        return servers;
    }
    for (index, value) in values.into_iter().enumerate() {
        let at = format!("mcpServers[{index}]");
        let Some(server) = server(at.clone(), value, problems) else { continue };
        if servers.iter().any(|other| other.id == server.id) {
            let message = format!("there are two servers called {}; names are unique in a toolset", server.id);
            problems.push(DraftProblem::new(Code::McpServerNameConflict, format!("{at}.id"), message));
        }
        servers.push(server);
    }
    servers
}

fn server(at: String, value: Value, problems: &mut Vec<DraftProblem>) -> Option<DraftServer> {
    let mut fields = Fields::of(at.clone(), value, problems)?;
    let id: Option<ServerId> = fields.needed(&["id", "name"]);
    let description = fields.text(&["description"]);
    let server_type = fields.text(&["serverType", "transport", "type"]);
    let (command, args, cwd) = (fields.text(&["command"]), fields.texts("args"), fields.text(&["cwd"]));
    let (env, url, headers) = (fields.values("env"), fields.text(&["url"]), fields.values("headers"));
    let (enabled, requires_confirmation) = (fields.bool("enabled"), fields.bool("requiresConfirmation"));
    fields.finish(SERVER_FIELDS);
    let description = described(&format!("{at}.description"), description, problems);
    let id = id?;
    Some(DraftServer {
        at,
        id,
        server_type,
        command,
        args,
        cwd,
        url,
        env,
        headers,
        enabled,
        requires_confirmation,
        description,
    })
}

fn skills(values: Vec<Value>, problems: &mut Vec<DraftProblem>) -> Vec<DraftSkill> {
    let code = Code::InvalidSkillBundle;
    let mut skills: Vec<DraftSkill> = Vec::new();
    if values.len() > MOST {
        problems.push(DraftProblem::new(code, "agentSkills", format!("must have at most {MOST} entries")));
        return skills;
    }
    for (index, value) in values.into_iter().enumerate() {
        let at = format!("agentSkills[{index}]");
        let Some(skill) = skill(at.clone(), value, problems) else { continue };
        if skills.iter().any(|other| other.id == skill.id) {
            let message = format!("there are two skills {}; ids are unique in a toolset", skill.id);
            problems.push(DraftProblem::new(code, format!("{at}.id"), message));
        }
        skills.push(skill);
    }
    skills
}

/// A skill with its files, or only what is said of one whose files stay.
fn skill(at: String, value: Value, problems: &mut Vec<DraftProblem>) -> Option<DraftSkill> {
    let code = Code::InvalidSkillBundle;
    let enabled = value.get("enabled").and_then(Value::as_bool);
    if value.get("files").is_none_or(Value::is_null) && value.is_object() {
        return kept(at, value, problems);
    }
    let mut wrong = |field: String, message: String| problems.push(DraftProblem::new(code, field, message));
    let bundle = match skill::Bundle::from_json(&value) {
        Ok(bundle) => bundle,
        Err(errors) => {
            errors.iter().for_each(|error| wrong(at.clone(), error.to_string()));
            return None;
        }
    };
    match made_skill(&bundle) {
        Ok((skill, _)) => {
            Some(DraftSkill { at, id: bundle.id.clone(), enabled, whole: Some(Box::new((bundle, skill))) })
        }
        Err(findings) => {
            for finding in findings {
                let place = match (finding.line, finding.column) {
                    (Some(line), Some(column)) => format!("SKILL.md:{line}:{column}"),
                    _ => "SKILL.md".to_owned(),
                };
                wrong(format!("{at}.files"), format!("{place}: {}", finding.message));
            }
            None
        }
    }
}

/// A skill whose files stay: what stands beside its id and its switch is what its `SKILL.md` says anyway.
fn kept(at: String, value: Value, problems: &mut Vec<DraftProblem>) -> Option<DraftSkill> {
    let mut found = Vec::new();
    let mut fields = Fields::of(at.clone(), value, &mut found)?;
    let id: Option<SkillId> = fields.needed(&["id"]);
    let enabled = fields.bool("enabled");
    for ignored in ["format", "name", "description", "entry", "path"] {
        let _ = fields.text(&[ignored]);
    }
    fields.finish("id, enabled and files");
    problems.extend(found.into_iter().map(|problem| DraftProblem { code: Code::InvalidSkillBundle, ..problem }));
    Some(DraftSkill { at, id: id?, enabled, whole: None })
}
