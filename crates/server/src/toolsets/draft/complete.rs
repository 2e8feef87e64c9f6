//! A draft put together with what is installed: what the toolset is made of from now on, or everything that is wrong with that.

use std::collections::{BTreeMap, BTreeSet};

use kitbag_formats::skill;
use kitbag_model::launch::LaunchField;
use kitbag_model::{
    ContentHash, FileKind, Installed, Launch, LaunchError, McpServer, OrgId, RawLaunch, ServerId, Skill, SkillId,
    SkillRef, ToolsetFile, WorkPath,
};

use super::{Draft, DraftProblem, DraftServer, DraftSkill};
use crate::api::error::Code;
use crate::toolsets::Values;
use crate::toolsets::error::launch_code;
use crate::toolsets::install::judged;

/// A file that somebody wrote.
pub(in crate::toolsets) struct Written {
    pub(in crate::toolsets) file: ToolsetFile,
    pub(in crate::toolsets) bytes: Vec<u8>,
    /// How deep the folder of its skill is.
    depth: usize,
}

/// What a toolset is made of from now on.
pub(in crate::toolsets) struct Completed {
    pub(in crate::toolsets) servers: Vec<McpServer>,
    pub(in crate::toolsets) skills: Vec<Skill>,
    /// Files of the toolset that stay.
    pub(in crate::toolsets) kept: Vec<ToolsetFile>,
    /// Files that come.
    pub(in crate::toolsets) written: Vec<Written>,
    /// Servers that are new, or would start something else.
    pub(in crate::toolsets) relaunched: Vec<ServerId>,
    /// Servers whose own switch follows what the toolset says again.
    pub(in crate::toolsets) switched_servers: Vec<ServerId>,
    /// The same of skills.
    pub(in crate::toolsets) switched_skills: Vec<SkillId>,
}

impl Completed {
    /// All files, by path.
    pub(in crate::toolsets) fn files(&self) -> Vec<ToolsetFile> {
        let mut files: Vec<ToolsetFile> =
            self.kept.iter().chain(self.written.iter().map(|one| &one.file)).cloned().collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files
    }

    /// The skills that a manifest lists.
    pub(in crate::toolsets) fn listed(&self) -> Vec<SkillRef> {
        self.skills.iter().filter(|skill| skill.listed).map(|skill| skill.reference.clone()).collect()
    }
}

impl Draft {
    /// What the toolset is made of if this is put in place of `before`, which has these files.
    pub(in crate::toolsets) fn complete(
        &mut self,
        org: &OrgId,
        before: Option<&Installed>,
        files: Vec<ToolsetFile>,
    ) -> Result<Completed, Vec<DraftProblem>> {
        let mut problems = std::mem::take(&mut self.problems);
        let mut made = Completed {
            servers: Vec::new(),
            skills: Vec::new(),
            kept: files,
            written: Vec::new(),
            relaunched: Vec::new(),
            switched_servers: Vec::new(),
            switched_skills: Vec::new(),
        };
        match self.servers.take() {
            Some(drafts) => drafts.into_iter().for_each(|draft| made.server(org, before, draft, &mut problems)),
            None => made.servers = before.iter().flat_map(|one| &one.servers).map(|one| one.server.clone()).collect(),
        }
        match self.skills.take() {
            Some(drafts) => made.all_skills(before, drafts, &mut problems),
            None => made.skills = before.iter().flat_map(|one| &one.skills).map(|one| one.skill.clone()).collect(),
        }
        if problems.is_empty() { Ok(made) } else { Err(problems) }
    }
}

impl Completed {
    fn server(
        &mut self,
        org: &OrgId,
        before: Option<&Installed>,
        draft: DraftServer,
        problems: &mut Vec<DraftProblem>,
    ) {
        let there = before.and_then(|one| one.server(draft.id.as_str()));
        let raw = stored(&draft, there.map(|one| RawLaunch::from(&one.server.launch)), problems);
        let unchanged = |launch: &Launch| there.is_some_and(|one| one.server.launch == *launch);
        let Some(launch) = checked(org, &draft.at, raw, unchanged, problems) else { return };
        let mut server = McpServer {
            id: draft.id,
            launch,
            enabled: draft.enabled.unwrap_or(true),
            requires_confirmation: draft.requires_confirmation,
            description: draft.description,
        };
        if let Some(there) = there {
            // Shown is what holds after a person's switch. Whoever sends that back has not said anything.
            let same = draft.enabled.is_none_or(|enabled| enabled == there.is_enabled());
            if same {
                server.enabled = there.server.enabled;
            } else {
                self.switched_servers.push(server.id.clone());
            }
            let asks = |said: Option<bool>| said.unwrap_or(true);
            if asks(server.requires_confirmation) == asks(there.server.requires_confirmation) {
                server.requires_confirmation = there.server.requires_confirmation;
            }
        }
        if there.is_none_or(|there| there.server.fingerprint() != server.fingerprint()) {
            self.relaunched.push(server.id.clone());
        }
        self.servers.push(server);
    }

    fn all_skills(&mut self, before: Option<&Installed>, drafts: Vec<DraftSkill>, problems: &mut Vec<DraftProblem>) {
        let there = |id: &SkillId| before.and_then(|one| one.skills.iter().find(|one| one.skill.reference.id == *id));
        let stays = |id: &SkillId| drafts.iter().any(|draft| draft.id == *id && draft.whole.is_none());
        let old = before.iter().flat_map(|one| &one.skills).map(|one| &one.skill.reference);
        let (stay, go): (Vec<&SkillRef>, Vec<&SkillRef>) = old.partition(|reference| stays(&reference.id));
        let modes: BTreeSet<WorkPath> =
            self.kept.iter().filter(|file| file.executable).map(|file| file.path.clone()).collect();
        self.kept.retain(|file| !goes(&file.path, &stay, &go));
        for draft in drafts {
            let known = there(&draft.id);
            let Some(whole) = draft.whole else {
                let Some(known) = known else {
                    let message = "there is no such skill whose files could stay; give its files";
                    problems.push(DraftProblem::new(Code::InvalidSkillBundle, format!("{}.files", draft.at), message));
                    continue;
                };
                let mut skill = known.skill.clone();
                if draft.enabled.is_some_and(|enabled| enabled != known.is_enabled()) {
                    skill.reference.enabled = draft.enabled.unwrap_or(true);
                    self.switched_skills.push(draft.id);
                }
                self.skills.push(skill);
                continue;
            };
            let (bundle, mut skill) = *whole;
            if let Some(known) = known {
                skill.reference.path = known.skill.reference.path.clone();
                skill.listed = known.skill.listed;
                let same = draft.enabled.is_none_or(|enabled| enabled == known.is_enabled());
                if same {
                    skill.reference.enabled = known.skill.reference.enabled;
                } else {
                    self.switched_skills.push(draft.id);
                }
            }
            let folder = skill.reference.path.clone();
            let stray = self.kept.iter().find(|file| is_inside(&file.path, &folder)).filter(|_| known.is_none());
            if let Some(stray) = stray {
                let message =
                    format!("the toolset has a file {} that is no skill's; give the skill another id", stray.path);
                problems.push(DraftProblem::new(Code::InvalidSkillBundle, format!("{}.id", draft.at), message));
            }
            self.write(&draft.at, &folder, bundle, &modes, problems);
            self.skills.push(skill);
        }
        self.tidy(problems);
    }

    /// No path is there twice, and none is a file and a folder. A skill in the folder of another is the one that says what its files are.
    fn tidy(&mut self, problems: &mut Vec<DraftProblem>) {
        self.written.sort_by(|a, b| a.file.path.cmp(&b.file.path).then(b.depth.cmp(&a.depth)));
        self.written.dedup_by(|later, first| later.file.path == first.file.path);
        let written: BTreeSet<WorkPath> = self.written.iter().map(|one| one.file.path.clone()).collect();
        self.kept.retain(|file| !written.contains(&file.path));
        let all: BTreeSet<WorkPath> = self.files().into_iter().map(|file| file.path).collect();
        let clash = |path: &&WorkPath| {
            let above = path.as_str().match_indices('/').map(|(at, _)| &path.as_str()[..at]);
            above.into_iter().any(|folder| all.contains(folder))
        };
        for path in all.iter().filter(clash) {
            let message = format!("{path} is in a folder that is a file");
            problems.push(DraftProblem::new(Code::InvalidSkillBundle, "agentSkills", message));
        }
    }

    /// Puts the files of a skill into its folder.
    fn write(
        &mut self,
        at: &str,
        folder: &WorkPath,
        bundle: skill::Bundle,
        modes: &BTreeSet<WorkPath>,
        problems: &mut Vec<DraftProblem>,
    ) {
        let mut wrong = |message: String| {
            problems.push(DraftProblem::new(Code::InvalidSkillBundle, format!("{at}.files"), message));
        };
        for (path, bytes) in bundle.files {
            match WorkPath::below(folder.as_str(), path.as_str()) {
                Ok(path) => {
                    let file = ToolsetFile {
                        kind: FileKind::of(&path),
                        sha256: ContentHash::of(&bytes),
                        size: bytes.len() as u64,
                        executable: modes.contains(&path),
                        path,
                    };
                    self.written.push(Written { file, bytes, depth: folder.as_str().len() });
                }
                Err(error) => wrong(format!("{path}: {error}")),
            }
        }
    }
}

fn is_inside(path: &WorkPath, folder: &WorkPath) -> bool {
    path.as_str().strip_prefix(folder.as_str()).is_some_and(|rest| rest.starts_with('/'))
}

/// Whether a file goes with a skill: the innermost folder of a skill that it is in is one that goes. What tools and pages are made of stays
/// wherever it is.
fn goes(path: &WorkPath, stay: &[&SkillRef], go: &[&SkillRef]) -> bool {
    let inside = |reference: &&&SkillRef| is_inside(path, &reference.path);
    let deepest = |all: &[&SkillRef]| all.iter().filter(inside).map(|one| one.path.as_str().len()).max();
    matches!(FileKind::of(path), FileKind::Asset) && deepest(go) > deepest(stay)
}

/// How a server is reached, with the values that stay in place of those that are not given.
fn stored(draft: &DraftServer, there: Option<RawLaunch>, problems: &mut Vec<DraftProblem>) -> RawLaunch {
    let there = there.unwrap_or_default();
    let mut filled = |field: &str, given: &Values, there: &BTreeMap<String, String>| {
        let mut values = BTreeMap::new();
        for (name, value) in given {
            match value.as_ref().or_else(|| there.get(name)) {
                Some(value) => drop(values.insert(name.clone(), value.clone())),
                None => {
                    let message = "there is no value that could stay; give one";
                    problems.push(DraftProblem::new(Code::BadRequest, format!("{}.{field}.{name}", draft.at), message));
                }
            }
        }
        values
    };
    RawLaunch {
        env: filled("env", &draft.env, &there.env),
        headers: filled("headers", &draft.headers, &there.headers),
        server_type: draft.server_type.clone(),
        command: draft.command.clone(),
        args: draft.args.clone(),
        cwd: draft.cwd.clone(),
        url: draft.url.clone(),
    }
}

/// The launch, if nothing is wrong with it. How long its parts are is asked of what somebody typed, not of what was there before.
fn checked(
    org: &OrgId,
    at: &str,
    raw: RawLaunch,
    unchanged: impl Fn(&Launch) -> bool,
    problems: &mut Vec<DraftProblem>,
) -> Option<Launch> {
    let long = raw.too_large();
    let (launch, mut found) = judged(org, raw);
    if !launch.as_ref().is_some_and(unchanged) {
        let is_told = |one: &LaunchError| found.iter().any(|other| other.field == one.field);
        let new: Vec<LaunchError> = long.into_iter().filter(|one| !is_told(one)).collect();
        found.extend(new);
    }
    for LaunchError { field, reason } in &found {
        let code = launch_code(reason);
        let field = match field {
            LaunchField::Server => at.to_owned(),
            LaunchField::Type => format!("{at}.serverType"),
            field => format!("{at}.{field}"),
        };
        problems.push(DraftProblem::new(code, field, reason));
    }
    launch.filter(|_| found.is_empty())
}
