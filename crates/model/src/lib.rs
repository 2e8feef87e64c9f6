//! Pure data and the rules that hold for it: ids, scopes, tokens, chats, messages, toolsets.
//!
//! This crate does no I/O, starts no task and knows neither SQL nor HTTP. A value of one of these types has been
//! checked; code that holds one need not check again.

pub mod access;
pub mod audience;
pub mod audit;
pub mod builder;
pub mod builtin;
pub mod call;
pub mod chat;
pub mod container;
pub mod copy;
mod credential;
pub mod export;
pub mod gallery;
pub mod hash;
pub mod id;
pub mod installed;
pub mod launch;
mod maker;
pub mod manifest;
pub mod message;
pub mod model_name;
pub mod name;
pub mod org_secret;
pub mod organization;
pub mod override_key;
pub mod overrides;
pub mod path;
pub mod person;
pub mod pin;
pub mod placeholder;
pub mod published;
pub mod python;
pub mod redaction;
pub mod render_plan;
pub mod renderer;
pub mod resolution;
pub mod run;
pub mod safe_text;
pub mod secret;
pub mod session;
pub mod settings;
pub mod shared;
pub mod text;
pub mod time;
pub mod token;
pub mod tool_id;
pub mod tool_search;
pub mod toolset;
pub mod version;
pub mod weight;

pub use access::{OrgRole, Scope, Scopes};
pub use audience::Audience;
pub use audit::{Action, ActionFilter, ActorFilter, AuditEntry, AuditFilter, AuditPlace, actor_ids};
pub use builtin::{BUILTINS, Builtin};
pub use call::{
    CallError, CallErrorCode, CallOutcome, CallStatus, Decision, LogLine, LogStream, NewToolCall, SandboxReport,
    ToolCall, args_digest,
};
pub use chat::{Chat, ChatChange, ChatTitle, NewChat, ToolSelector, ToolSelectors};
pub use container::{
    Container, ContainerLimits, ContainerTool, ImageName, ImageSays, ImageSource, InstalledContainer, PinnedImage,
};
pub use copy::NotItsId;
pub use gallery::{
    GalleryCard, GalleryEntry, GalleryFile, GalleryServer, GallerySkill, GallerySummary, GalleryTool, Publication,
};
pub use hash::{ContentHash, Hasher};
pub use id::{
    AuditId, BuilderSessionId, ChatId, ExecutorId, IdError, InvitationId, ManifestId, MessageId, OrgId, PairingId,
    RunId, SessionId, TokenId, ToolCallId, TurnId, UserId,
};
pub use installed::{AgreedRevision, Install, Installed, InstalledServer, InstalledSkill, Skill, Toolset, ToolsetFile};
pub use launch::{Launch, LaunchError, RawLaunch, RemoteKind, ServerType};
pub use maker::Maker;
pub use manifest::{Manifest, NewManifest, Source};
pub use message::{Content, ContentError, Message, NewMessage, Parent, Role};
pub use name::{LocalToolId, ServerId, ServerKey, SkillId, ToolsetId};
pub use org_secret::{BadSecretValue, OrgSecretName, UnknownSecret};
pub use organization::{Organization, OrganizationName};
pub use override_key::{OverrideKey, OverrideKeyError};
pub use overrides::{Chosen, Effective, Layers, Origin, Override};
pub use path::{PathError, WorkPath};
pub use person::{
    Email, EmailError, Identity, Invitation, InvitationText, LinkedIdentity, Member, NewInvitation, NewLinkedIdentity,
    NewPerson, Person, PersonCookie, PersonName, PersonSession,
};
pub use pin::{Acceptance, FieldChange, Pin, PinPolicy, PinState, Pinned, Sight};
pub use placeholder::{EnvNotSet, PlaceholderError, Template};
pub use published::{AdoptedFrom, PublicSlug, SlugError};
pub use python::{Entrypoint, PythonNeeds, PythonVersion, Requirement};
pub use redaction::{Redacted, redact};
pub use render_plan::{PlanError, RenderPlan, Scene};
pub use renderer::{Renderer, RendererError, Rendering};
pub use safe_text::{escaped_text, safe_text};
pub use secret::{Secret, SecretHash};
pub use session::{Session, SessionCookie};
pub use settings::{HostPattern, OrgSettings};
pub use text::TextError;
pub use time::Timestamp;
pub use token::{BearerToken, MalformedToken, NewToken, Token, TokenName};
pub use tool_id::{McpToolName, ToolId};
pub use toolset::{
    Definition, Description, DisplayName, FileKind, McpServer, Permissions, PythonTool, SkillRef, SourceType,
    Visibility,
};
pub use version::{Version, VersionError};
pub use weight::{json_weight, repeated_key};
