//! Toolsets as they are installed: what a bundle brought, what a person changed about it, and what a person trusts.

use crate::container::{Container, InstalledContainer};
use crate::hash::{ContentHash, Hasher};
use crate::id::UserId;
use crate::name::{LocalToolId, ServerKey, ToolsetId};
use crate::override_key::OverrideKey;
use crate::overrides::Override;
use crate::path::WorkPath;
use crate::pin::PinPolicy;
use crate::published::{AdoptedFrom, PublicSlug};
use crate::python::PythonNeeds;
use crate::time::Timestamp;
use crate::tool_id::ToolId;
use crate::toolset::{
    Definition, Description, DisplayName, FileKind, McpServer, Permissions, PythonTool, SkillRef, SourceType,
    Visibility,
};
use crate::version::Version;

/// What is known of a toolset without its parts.
#[derive(Clone, Debug, PartialEq)]
pub struct Toolset {
    /// Its id.
    pub id: ToolsetId,
    /// What people call it.
    pub name: DisplayName,
    /// Its version.
    pub version: Version,
    /// What it is for.
    pub description: Option<Description>,
    /// Whether any of its tools is there at all.
    pub enabled: bool,
    /// Whether it was made for one MCP server that a person added.
    pub user_mcp: bool,
    /// When it was first installed.
    pub installed_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// How it came here.
    pub source_type: SourceType,
    /// From where.
    pub source_ref: Option<String>,
    /// Who sees it.
    pub visibility: Visibility,
    /// What it is published as, while it is.
    pub public_slug: Option<PublicSlug>,
    /// Since when it is published as it is.
    pub published_at: Option<Timestamp>,
    /// The published toolset that it is a copy of.
    pub adopted_from: Option<AdoptedFrom>,
    /// Who made it, where that was a person.
    pub created_by: Option<UserId>,
    /// Who changed it last, where that was a person.
    pub updated_by: Option<UserId>,
    /// Which set of files is its own; none if it has no files.
    pub generation: Option<String>,
}

impl Toolset {
    /// Whether it is published now. Then it stays as it is until it is taken back.
    pub fn is_published(&self) -> bool {
        self.visibility == Visibility::Public || self.published_at.is_some()
    }
}

/// A file of a toolset.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ToolsetFile {
    /// Where it is, below the toolset's folder.
    pub path: WorkPath,
    /// What it is for.
    pub kind: FileKind,
    /// The hash of its content.
    pub sha256: ContentHash,
    /// How many bytes it has.
    pub size: u64,
    /// Whether it may be executed.
    pub executable: bool,
}

/// A skill of a toolset.
#[derive(Clone, Debug, PartialEq)]
pub struct Skill {
    /// Which, where, and whether the bundle wants it used.
    pub reference: SkillRef,
    /// Whether the manifest lists it. If not, it was found by its folder.
    pub listed: bool,
    /// What it calls itself.
    pub name: String,
    /// When it is to be used.
    pub description: Option<String>,
}

/// What is to be installed.
#[derive(Clone, Debug)]
pub struct Install {
    /// The toolset. Its `skills` are those that the manifest lists.
    pub definition: Definition,
    /// Its skills, those that are not listed too.
    pub skills: Vec<Skill>,
    /// Its files.
    pub files: Vec<ToolsetFile>,
    /// How it came here.
    pub source_type: SourceType,
    /// From where.
    pub source_ref: Option<String>,
    /// Which set of files is its own.
    pub generation: Option<String>,
    /// Whether it is made for one MCP server that a person added.
    pub user_mcp: bool,
    /// Who sees it, if there is none of its id yet.
    pub visibility: Visibility,
    /// The published toolset that it is a copy of.
    pub adopted_from: Option<AdoptedFrom>,
    /// Who installs it, where that is a person.
    pub by: Option<UserId>,
}

/// A server of an installed toolset.
#[derive(Clone, Debug, PartialEq)]
pub struct InstalledServer {
    /// What the bundle says.
    pub server: McpServer,
    /// What a person said about its being used.
    pub user_enabled: Option<bool>,
    /// When it was first declared.
    pub created_at: Timestamp,
    /// What a person trusted it to be.
    pub trusted: Option<ContentHash>,
    /// What a person said is to happen when it changes its tools.
    pub pin_policy: Option<PinPolicy>,
    /// Whether every call of its tools is recorded before it runs, and again before its end is told.
    pub strict_records: bool,
    /// When its tools were last listed; none: never.
    pub tools_seen_at: Option<Timestamp>,
    /// What was agreed on when it was last connected.
    pub agreed: Option<AgreedRevision>,
    /// Whether a person wants its process in the sandbox.
    pub sandbox: bool,
}

/// The revision of the protocol that was agreed on with a server.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AgreedRevision {
    /// The revision.
    pub revision: String,
    /// The fingerprint of the launch that worked.
    pub launch: ContentHash,
    /// When it was found out.
    pub at: Timestamp,
    /// The names of what it said that it can; none: nobody looked yet.
    pub offers: Option<Vec<String>>,
}

/// For how many seconds it is remembered what was agreed on. The same launch may bring a newer program, which may speak a newer revision.
const REVISION_HOLDS: u32 = 7 * 24 * 60 * 60;

impl InstalledServer {
    /// Whether it is used.
    pub fn is_enabled(&self) -> bool {
        self.user_enabled.unwrap_or(self.server.enabled)
    }

    /// The revision of the protocol that was agreed on with what would be started now, not too long ago.
    pub fn last_revision(&self, now: Timestamp) -> Option<&str> {
        let agreed = self.agreed.as_ref().filter(|_| !self.is_relaunched())?;
        (now < agreed.at.plus_seconds(REVISION_HOLDS)).then_some(agreed.revision.as_str())
    }

    /// What it said that it can when it was last connected, if what would be started now is what said so.
    pub fn last_offers(&self) -> Option<&[String]> {
        self.agreed.as_ref().filter(|_| !self.is_relaunched())?.offers.as_deref()
    }

    /// Whether what it was when it was last connected is not what would be started now: its tools may be others.
    pub fn is_relaunched(&self) -> bool {
        self.agreed.as_ref().is_some_and(|agreed| agreed.launch != self.server.launch.fingerprint())
    }

    /// Whether it may be started: what a person trusted is what would be started.
    pub fn is_trusted(&self) -> bool {
        self.trusted == Some(self.server.fingerprint())
    }
}

/// A skill of an installed toolset.
#[derive(Clone, Debug, PartialEq)]
pub struct InstalledSkill {
    /// What the bundle says.
    pub skill: Skill,
    /// What a person said about its being used.
    pub user_enabled: Option<bool>,
}

impl InstalledSkill {
    /// Whether it is used.
    pub fn is_enabled(&self) -> bool {
        self.user_enabled.unwrap_or(self.skill.reference.enabled)
    }
}

/// A toolset with its parts, but without its files.
#[derive(Clone, Debug, PartialEq)]
pub struct Installed {
    /// What is known of it.
    pub toolset: Toolset,
    /// Its Python tools.
    pub tools: Vec<PythonTool>,
    /// The MCP servers it declares.
    pub servers: Vec<InstalledServer>,
    /// The containers it declares.
    pub containers: Vec<InstalledContainer>,
    /// Its skills.
    pub skills: Vec<InstalledSkill>,
    /// The overrides it brought.
    pub bundle_overrides: Vec<(OverrideKey, Override)>,
    /// The overrides that a person set.
    pub user_overrides: Vec<(OverrideKey, Override)>,
    /// What its Python tools need.
    pub python: PythonNeeds,
    /// What its tools may do.
    pub permissions: Permissions,
    /// What a person trusted the toolset itself to say about questions before calls.
    pub trusted: Option<ContentHash>,
}

impl Installed {
    /// Whether a person trusts it as it is now.
    pub fn is_trusted(&self) -> bool {
        self.trusted == Some(self.fingerprint())
    }

    /// What trust in the toolset itself is bound to.
    pub fn fingerprint(&self) -> ContentHash {
        let containers = self.containers.iter().map(|one| &one.container);
        trust_fingerprint(&self.toolset.id, &self.tools, containers, &self.bundle_overrides, self.permissions)
    }

    /// The key of one of its servers.
    pub fn server_key(&self, server: &McpServer) -> ServerKey {
        ServerKey { toolset: self.toolset.id.clone(), server: server.id.clone() }
    }

    /// What happens when one of its servers changes its tools.
    pub fn pin_policy(&self, server: &InstalledServer) -> PinPolicy {
        server.pin_policy.unwrap_or(PinPolicy::default_for(self.toolset.user_mcp))
    }

    /// A container by its id.
    pub fn container(&self, id: &str) -> Option<&InstalledContainer> {
        self.containers.iter().find(|one| one.container.id.as_str() == id)
    }

    /// A server by its id.
    pub fn server(&self, id: &str) -> Option<&InstalledServer> {
        self.servers.iter().find(|server| server.server.id.as_str() == id)
    }

    /// The toolset that a copy would be made from: what the bundle said with what a person changed on top.
    pub fn merged(&self) -> Definition {
        Definition {
            id: self.toolset.id.clone(),
            name: self.toolset.name.clone(),
            version: self.toolset.version.clone(),
            description: self.toolset.description.clone(),
            tools: self.tools.clone(),
            overrides: merged_overrides(&self.bundle_overrides, &self.user_overrides),
            servers: self
                .servers
                .iter()
                .map(|one| McpServer { enabled: one.is_enabled(), ..one.server.clone() })
                .collect(),
            containers: self.containers.iter().map(|one| one.container.clone()).collect(),
            skills: self.skills.iter().filter_map(listed_skill).collect(),
            python: self.python.clone(),
            permissions: self.permissions,
        }
    }
}

/// A skill as a manifest must list it: because it did, or because a folder alone does not say that it is off.
fn listed_skill(skill: &InstalledSkill) -> Option<SkillRef> {
    let reference = SkillRef { enabled: skill.is_enabled(), ..skill.skill.reference.clone() };
    (skill.skill.listed || !reference.enabled).then_some(reference)
}

/// A person's overrides on top of those of the bundle, property by property.
fn merged_overrides(
    bundle: &[(OverrideKey, Override)],
    user: &[(OverrideKey, Override)],
) -> Vec<(OverrideKey, Override)> {
    let mut merged = bundle.to_vec();
    for (key, over) in user {
        match merged.iter_mut().find(|(known, _)| known == key) {
            Some((_, under)) => under.put_on_top(over),
            None => merged.push((key.clone(), over.clone())),
        }
    }
    merged
}

/// What trust in a toolset itself is bound to: which questions its overrides take away, of which of its tools that want one,
/// and what its tools may do. Whatever a new version adds to that needs a new yes.
pub fn trust_fingerprint<'a>(
    id: &ToolsetId,
    tools: &'a [PythonTool],
    containers: impl IntoIterator<Item = &'a Container>,
    overrides: &[(OverrideKey, Override)],
    permissions: Permissions,
) -> ContentHash {
    let unasked: Vec<&OverrideKey> = unasked(overrides).collect();
    let of_python = tools.iter().map(|tool| (&tool.id, tool.requires_confirmation));
    let of_containers = containers.into_iter().flat_map(|one| &one.tools);
    let of_containers = of_containers.map(|tool| (&tool.id, tool.requires_confirmation));
    let tool_id = |tool: &LocalToolId| ToolId::Toolset { toolset: id.clone(), tool: tool.clone() };
    let asks = of_python.chain(of_containers).filter(|(_, asks)| *asks == Some(true)).map(|(tool, _)| tool_id(tool));
    let reached = asks.filter(|tool| unasked.iter().any(|key| key.matches(tool)));
    let mut lines: Vec<String> = reached.map(|tool| format!("reached {tool}\n")).collect();
    lines.extend(unasked.iter().map(|key| format!("unasked {key}\n")));
    lines.sort();
    let mut hasher = Hasher::default();
    hasher.update(b"kitbag toolset trust 1\n");
    lines.iter().for_each(|line| hasher.update(line.as_bytes()));
    hasher.update(format!("network {} listen {}\n", permissions.network, permissions.listen).as_bytes());
    hasher.finish()
}

/// The overrides that take a question before calls away.
pub fn unasked(overrides: &[(OverrideKey, Override)]) -> impl Iterator<Item = &OverrideKey> {
    overrides.iter().filter(|(_, over)| over.requires_confirmation == Some(false)).map(|(key, _)| key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> OverrideKey {
        OverrideKey::parse(text, &"app".parse().unwrap()).unwrap()
    }

    #[test]
    fn what_a_person_said_goes_on_top() {
        let bundle = vec![
            (key("a"), Override { name: Some("A".into()), enabled: Some(false), ..Override::default() }),
            (key("b"), Override { name: Some("B".into()), ..Override::default() }),
        ];
        let user = vec![
            (key("c"), Override { name: Some("C".into()), ..Override::default() }),
            (key("a"), Override { enabled: Some(true), ..Override::default() }),
        ];
        let merged = merged_overrides(&bundle, &user);
        let names: Vec<_> =
            merged.iter().map(|(key, over)| (key.as_str(), over.name.as_deref(), over.enabled)).collect();
        assert_eq!(names, [("app:a", Some("A"), Some(true)), ("app:b", Some("B"), None), ("app:c", Some("C"), None)]);
    }

    #[test]
    fn trust_is_bound_to_what_lowers_the_guard() {
        let says =
            |text: &str, asks| (key(text), Override { requires_confirmation: Some(asks), ..Override::default() });
        let (asks, silent, all) = (says("a", true), says("b", false), says("*", false));
        let tool = |id: &str, asks| PythonTool {
            id: id.parse().unwrap(),
            entrypoint: "tools.a:b".parse().unwrap(),
            name: None,
            description: None,
            input_schema: None,
            requires_confirmation: asks,
            enabled: true,
        };
        let of = |tools: &[PythonTool], overrides: &[(OverrideKey, Override)], network| {
            let permissions = Permissions { network, listen: false };
            trust_fingerprint(&"app".parse().unwrap(), tools, [], overrides, permissions)
        };
        let base = of(&[], &[], false);
        assert_eq!(of(&[], std::slice::from_ref(&asks), false), base);
        assert_ne!(of(&[], std::slice::from_ref(&silent), false), base);
        assert_ne!(of(&[], &[], true), base);
        assert_eq!(of(&[], &[asks.clone(), silent.clone()], false), of(&[], &[silent, asks], false));
        // A pattern must not spread to a tool that wants to be asked about and came later.
        let before = of(&[tool("x", None)], std::slice::from_ref(&all), false);
        assert_eq!(of(&[tool("x", None), tool("y", None)], std::slice::from_ref(&all), false), before);
        assert_ne!(of(&[tool("x", None), tool("wipe", Some(true))], std::slice::from_ref(&all), false), before);
    }
}
