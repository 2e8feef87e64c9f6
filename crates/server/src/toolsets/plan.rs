//! What installing a bundle would change.

use std::cmp::Ordering;

use kitbag_formats::bundle::Bundle;
use kitbag_model::{Installed, Launch, McpServer, ServerKey, Version};

/// What would change.
pub(crate) struct Plan {
    pub(crate) change: VersionChange,
    /// The version that is installed.
    pub(crate) installed: Option<Version>,
    pub(crate) tools: Changes,
    pub(crate) servers: Changes,
    pub(crate) skills: Changes,
    /// What would start once it is trusted.
    pub(crate) launches: Vec<PlannedLaunch>,
}

/// A server that the bundle declares.
pub(crate) struct PlannedLaunch {
    pub(crate) key: ServerKey,
    pub(crate) launch: Launch,
    /// Whether a person has trusted exactly this before.
    pub(crate) trusted: bool,
}

/// Ids that come, go, and are other than before.
#[derive(Default)]
pub(crate) struct Changes {
    pub(crate) added: Vec<String>,
    pub(crate) removed: Vec<String>,
    pub(crate) changed: Vec<String>,
}

/// How the bundle's version compares.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum VersionChange {
    Install,
    Upgrade,
    Reinstall,
    Downgrade,
}

impl VersionChange {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Install => "install",
            Self::Upgrade => "upgrade",
            Self::Reinstall => "reinstall",
            Self::Downgrade => "downgrade",
        }
    }
}

impl Plan {
    pub(crate) fn new(bundle: &Bundle, installed: Option<&Installed>) -> Self {
        let definition = &bundle.definition;
        let change = match installed.map(|one| definition.version.precedence(&one.toolset.version)) {
            None => VersionChange::Install,
            Some(Ordering::Greater) => VersionChange::Upgrade,
            Some(Ordering::Equal) => VersionChange::Reinstall,
            Some(Ordering::Less) => VersionChange::Downgrade,
        };
        let old_servers: Vec<&McpServer> =
            installed.iter().flat_map(|one| &one.servers).map(|one| &one.server).collect();
        let old_skills: Vec<_> = installed.iter().flat_map(|one| &one.skills).map(|one| &one.skill).collect();
        let trusted = |server: &McpServer| {
            let known = installed.and_then(|one| one.server(server.id.as_str()));
            known.is_some_and(|known| known.trusted == Some(server.fingerprint()))
        };
        let launch = |server: &McpServer| PlannedLaunch {
            key: ServerKey { toolset: definition.id.clone(), server: server.id.clone() },
            launch: server.launch.clone(),
            trusted: trusted(server),
        };
        let mut tools =
            compare(installed.iter().flat_map(|one| &one.tools).collect(), definition.tools.iter().collect(), |tool| {
                tool.id.to_string()
            });
        let contained = compare(
            installed.iter().flat_map(|one| &one.containers).flat_map(|one| &one.container.tools).collect(),
            definition.containers.iter().flat_map(|one| &one.tools).collect(),
            |tool| tool.id.to_string(),
        );
        tools.added.extend(contained.added);
        tools.removed.extend(contained.removed);
        tools.changed.extend(contained.changed);
        Self {
            change,
            installed: installed.map(|one| one.toolset.version.clone()),
            tools,
            servers: compare(old_servers, definition.servers.iter().collect(), |server| server.id.to_string()),
            skills: compare(old_skills, bundle.skills.iter().collect(), |skill| skill.reference.id.to_string()),
            launches: definition.servers.iter().map(launch).collect(),
        }
    }
}

fn compare<T: PartialEq>(old: Vec<&T>, new: Vec<&T>, id: impl Fn(&T) -> String) -> Changes {
    let mut changes = Changes::default();
    for one in &new {
        match old.iter().find(|known| id(known) == id(one)) {
            None => changes.added.push(id(one)),
            Some(known) if known != one => changes.changed.push(id(one)),
            Some(_) => {}
        }
    }
    changes.removed = old.iter().map(|one| id(one)).filter(|gone| new.iter().all(|one| id(one) != *gone)).collect();
    changes
}
