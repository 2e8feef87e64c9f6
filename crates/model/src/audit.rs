//! The audit: who did what to what, and what one may ask of it.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use crate::id::{AuditId, TokenId, UserId};
use crate::time::Timestamp;

/// Declares the actions, each with the name that it has in the audit.
macro_rules! actions {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)+) => {
        /// What may be done that leaves a line: something, a dot, and what became of it. `docs/audit.md` has what their details say.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub enum Action {
            $($(#[$doc])* $variant,)+
        }

        impl Action {
            /// All of them, by name.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// As it is written in the audit.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

actions! {
    /// Somebody tried to change what they may not change.
    AccessRefused = "access.refused",
    /// A run of an agent was asked for.
    AgentRunAsked = "agent_run.asked",
    /// A run of an agent was ended before its time.
    AgentRunCancelled = "agent_run.cancelled",
    /// The audit was taken along.
    AuditExported = "audit.exported",
    /// Old lines of the audit were removed.
    AuditTrimmed = "audit.trimmed",
    /// A chat was deleted with everything in it.
    ChatDeleted = "chat.deleted",
    /// A chat that nobody touched for as long as the organisation says was deleted.
    ChatExpired = "chat.expired",
    /// A machine became an executor.
    ExecutorPaired = "executor.paired",
    /// A way in for an executor was made.
    ExecutorPairingCreated = "executor.pairing_created",
    /// An executor was taken out.
    ExecutorRevoked = "executor.revoked",
    /// An executor has another name or other labels.
    ExecutorUpdated = "executor.updated",
    /// Somebody came in by an invitation.
    InvitationAccepted = "invitation.accepted",
    /// A way in was made.
    InvitationCreated = "invitation.created",
    /// A way in was taken back.
    InvitationDeleted = "invitation.deleted",
    /// An MCP server was added by hand, or taken over from another program.
    McpServerAdded = "mcp_server.added",
    /// How Kitbag is known to a server's authorization server is other than before.
    McpServerClientChanged = "mcp_server.client_changed",
    /// An MCP server was told to be connected anew.
    McpServerReconnected = "mcp_server.reconnected",
    /// An MCP server that was added by hand was removed.
    McpServerRemoved = "mcp_server.removed",
    /// Somebody began to sign in to an MCP server.
    McpServerSignInStarted = "mcp_server.sign_in_started",
    /// A sign-in to an MCP server came to its end.
    McpServerSignedIn = "mcp_server.signed_in",
    /// The tokens for an MCP server were given back.
    McpServerSignedOut = "mcp_server.signed_out",
    /// An MCP server was asked for its tools by hand.
    McpServerTested = "mcp_server.tested",
    /// What a server's tools are now was accepted.
    McpServerToolsAccepted = "mcp_server.tools_accepted",
    /// A server's tools are not what they were.
    McpServerToolsChanged = "mcp_server.tools_changed",
    /// Somebody said yes to what a server starts or dials.
    McpServerTrusted = "mcp_server.trusted",
    /// A server is started, dialled or set up in another way.
    McpServerUpdated = "mcp_server.updated",
    /// Somebody is a member from now on.
    MemberAdded = "member.added",
    /// Somebody is no member any more, by others' will or their own.
    MemberRemoved = "member.removed",
    /// A member has another role.
    MemberRoleChanged = "member.role_changed",
    /// The organisation was made.
    OrganizationCreated = "organization.created",
    /// The organisation has another name.
    OrganizationRenamed = "organization.renamed",
    /// What was changed about a tool is as its toolset says again.
    OverrideDeleted = "override.deleted",
    /// Something about a tool is other than its toolset says.
    OverrideSet = "override.set",
    /// Something that a tool left running was ended.
    ProcessStopped = "process.stopped",
    /// A secret of the organisation was taken away.
    SecretDeleted = "secret.deleted",
    /// A secret of the organisation was given.
    SecretSet = "secret.set",
    /// What the organisation says about itself is other than before.
    SettingsUpdated = "settings.updated",
    /// A token was made.
    TokenCreated = "token.created",
    /// A token was ended.
    TokenRevoked = "token.revoked",
    /// A token was used, for the first time in this hour.
    TokenUsed = "token.used",
    /// Somebody said yes to a call.
    ToolCallApproved = "tool_call.approved",
    /// A tool was called, or asked to be.
    ToolCallAsked = "tool_call.asked",
    /// A call was ended before its time.
    ToolCallCancelled = "tool_call.cancelled",
    /// Somebody said no to a call.
    ToolCallDenied = "tool_call.denied",
    /// A published toolset was copied into the organisation.
    ToolsetAdopted = "toolset.adopted",
    /// A toolset was made of servers and skills.
    ToolsetCreated = "toolset.created",
    /// A toolset was turned off.
    ToolsetDisabled = "toolset.disabled",
    /// A toolset was turned on.
    ToolsetEnabled = "toolset.enabled",
    /// A toolset was exported although something in it looks like a secret.
    ToolsetExported = "toolset.exported",
    /// A toolset was installed, or another version of it.
    ToolsetImported = "toolset.imported",
    /// What a toolset's tools need was built, and their code was looked into.
    ToolsetPrepared = "toolset.prepared",
    /// A toolset was published for everybody.
    ToolsetPublished = "toolset.published",
    /// Somebody said yes to a toolset as it is.
    ToolsetTrusted = "toolset.trusted",
    /// A toolset was removed.
    ToolsetUninstalled = "toolset.uninstalled",
    /// A toolset that was published was taken back.
    ToolsetUnpublished = "toolset.unpublished",
    /// The servers and skills of a toolset are other than before.
    ToolsetUpdated = "toolset.updated",
    /// A model was asked how a toolset should go on.
    ToolsetBuilderAsked = "toolset_builder.asked",
    /// A draft of a toolset was made.
    ToolsetBuilderFinalized = "toolset_builder.finalized",
    /// Somebody began to put a toolset together with a model.
    ToolsetBuilderStarted = "toolset_builder.started",
    /// What no state of a workspace needs any more was forgotten.
    WorkspaceCollected = "workspace.collected",
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Something that must be known later: who did what to what.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditEntry {
    /// Its id.
    pub id: AuditId,
    /// When.
    pub at: Timestamp,
    /// Who.
    pub actor: String,
    /// The person that it was, or whose token.
    pub user: Option<UserId>,
    /// The token that it was done with.
    pub token: Option<TokenId>,
    /// What was done, such as `tool_call.approved`.
    pub action: String,
    /// To what.
    pub subject: String,
    /// More.
    pub details: Value,
}

impl AuditEntry {
    /// Where it stands in the list.
    pub fn place(&self) -> AuditPlace {
        AuditPlace { at: self.at, id: self.id }
    }
}

/// Whom a text that says who did something speaks of: `token ID`, `token ID of user ID`, `EMAIL (user ID)`, and each of them behind
/// `the person at`. Others, such as `server`, have no ids.
pub fn actor_ids(actor: &str) -> (Option<UserId>, Option<TokenId>) {
    let rest = actor.strip_prefix("the person at ").unwrap_or(actor);
    let token = rest.strip_prefix("token ").and_then(|rest| rest.split(' ').next()?.parse().ok());
    // From the end: nothing that a person chose stands there.
    let user = rest.strip_suffix(')').unwrap_or(rest).rsplit_once("user ").and_then(|(_, id)| id.parse().ok());
    (user, token)
}

/// Where a line stands among the others: by time, and by id among those of one moment.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct AuditPlace {
    /// Its time.
    pub at: Timestamp,
    /// Its id.
    pub id: AuditId,
}

impl fmt::Display for AuditPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.at, self.id)
    }
}

/// A text that is no place in the audit.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("not a place in the audit")]
pub struct NoAuditPlace;

impl FromStr for AuditPlace {
    type Err = NoAuditPlace;

    fn from_str(text: &str) -> Result<Self, NoAuditPlace> {
        let (at, id) = text.split_once(' ').ok_or(NoAuditPlace)?;
        Ok(Self { at: at.parse().map_err(|_| NoAuditPlace)?, id: id.parse().map_err(|_| NoAuditPlace)? })
    }
}

/// Whose lines are wanted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ActorFilter {
    /// Those with this id, of a person or of a token.
    Id(String),
    /// Those that say so, or a person with this address.
    Text(String),
}

impl ActorFilter {
    /// What somebody asks for: ids are told from texts by how they look.
    pub fn new(text: String) -> Self {
        if text.parse::<UserId>().is_ok() { Self::Id(text) } else { Self::Text(text) }
    }
}

/// Which actions are wanted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ActionFilter {
    /// This one.
    Is(String),
    /// All that begin like this, up to and with a dot: `toolset.`
    Begins(String),
}

impl ActionFilter {
    /// What somebody asks for: a name, or the beginning of one with a dot at its end.
    pub fn new(text: String) -> Self {
        if text.ends_with('.') { Self::Begins(text) } else { Self::Is(text) }
    }
}

/// Which lines of the audit are wanted.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AuditFilter {
    /// Of whom.
    pub actor: Option<ActorFilter>,
    /// About what kind of deed.
    pub action: Option<ActionFilter>,
    /// About what.
    pub subject: Option<String>,
    /// Not older than this.
    pub since: Option<Timestamp>,
    /// Older than this.
    pub until: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "01890a5d-ac96-774b-bcce-b302099a8057";
    const B: &str = "01890a5d-ac96-774b-bcce-b302099a8058";

    #[test]
    fn every_action_is_documented_and_named_alike() {
        let names: Vec<&str> = Action::ALL.iter().map(|action| action.as_str()).collect();
        assert!(names.is_sorted_by(|a, b| a < b), "by name, each once: {names:?}");
        for name in &names {
            let (noun, verb) = name.split_once('.').unwrap();
            let word = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c == '_');
            assert!(word(noun) && word(verb), "{name}");
            let past = ["ed", "set"].iter().any(|end| verb.ends_with(end)) || verb.starts_with("signed_");
            assert!(past, "{name} does not say what was done");
        }
        // The first column of the table; filters have no dot.
        let document = include_str!("../../../docs/audit.md");
        let rows = document.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        let rows: Vec<&str> = rows.filter(|name| name.contains('.')).collect();
        assert_eq!(rows, names, "docs/audit.md does not list what there is");
    }

    #[test]
    fn whom_a_text_speaks_of() {
        for (text, user, token) in [
            (format!("token {A}"), None, Some(A)),
            (format!("token {A} of user {B}"), Some(B), Some(A)),
            (format!("the person at token {A} of user {B}"), Some(B), Some(A)),
            (format!("ada@example.org (user {B})"), Some(B), None),
            // What somebody calls themselves is not who they are.
            (format!("user@{A}.example (user {B})"), Some(B), None),
            (format!("ada (user {A}) (user {B})"), Some(B), None),
            (format!("user {A} of nobody"), None, None),
            ("server".to_owned(), None, None),
            ("owner".to_owned(), None, None),
            ("the person at owner".to_owned(), None, None),
            (String::new(), None, None),
        ] {
            let found = actor_ids(&text);
            let found = (found.0.map(|id| id.to_string()), found.1.map(|id| id.to_string()));
            assert_eq!(found, (user.map(str::to_owned), token.map(str::to_owned)), "{text}");
        }
    }

    #[test]
    fn places_are_read_as_they_are_written() {
        let place = AuditPlace { at: Timestamp::now(), id: AuditId::generate() };
        assert_eq!(place.to_string().parse(), Ok(place));
        for wrong in ["", " ", A, "2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z x"] {
            assert_eq!(wrong.parse::<AuditPlace>(), Err(NoAuditPlace));
        }
    }

    #[test]
    fn what_is_asked_for() {
        assert_eq!(ActorFilter::new(A.to_owned()), ActorFilter::Id(A.to_owned()));
        assert_eq!(ActorFilter::new("server".to_owned()), ActorFilter::Text("server".to_owned()));
        assert_eq!(ActionFilter::new("toolset.".to_owned()), ActionFilter::Begins("toolset.".to_owned()));
        assert_eq!(ActionFilter::new("toolset".to_owned()), ActionFilter::Is("toolset".to_owned()));
    }
}
