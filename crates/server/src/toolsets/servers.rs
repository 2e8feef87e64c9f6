//! Servers that people add by hand, each in a toolset of its own, and what people change about servers.

use std::collections::BTreeMap;

use kitbag_model::{
    Action, Definition, Description, DisplayName, Install, Installed, Launch, McpServer, OrgId, Permissions, PinPolicy,
    PythonNeeds, RawLaunch, ServerId, ServerKey, SourceType, ToolsetId, Visibility,
};
use kitbag_store::{InstallError, StoreError, WriteTx};
use serde_json::json;

use super::install::{checked_launch, editable, refuse_literals};
use super::{ToolsetError, Toolsets};
use crate::access::caller::Author;

/// How many ids are tried for a name that is taken.
const MOST_TRIED: usize = 1000;

/// The id of a server whose name has nothing that an id may have.
const NAMELESS: &str = "mcp-server";

/// A server to add.
pub(crate) struct NewServer {
    /// The id that it must have; else one is made from its name.
    pub(crate) id: Option<ToolsetId>,
    pub(crate) name: DisplayName,
    pub(crate) launch: Launch,
    pub(crate) enabled: bool,
    pub(crate) requires_confirmation: Option<bool>,
    pub(crate) description: Option<Description>,
    pub(crate) pin_policy: Option<PinPolicy>,
    pub(crate) strict_records: bool,
    /// Whether whoever adds it says that it may start.
    pub(crate) trusted: bool,
    /// Whether its process is to run in the sandbox, where it need not.
    pub(crate) sandbox: bool,
}

/// What to change about a server. The outer `None` leaves a thing as it is, the inner one clears it.
#[derive(Default)]
pub(crate) struct ServerChange {
    pub(crate) id: Option<ToolsetId>,
    pub(crate) name: Option<DisplayName>,
    pub(crate) launch: LaunchChange,
    pub(crate) enabled: Option<Option<bool>>,
    pub(crate) requires_confirmation: Option<Option<bool>>,
    pub(crate) description: Option<Option<Description>>,
    pub(crate) pin_policy: Option<Option<PinPolicy>>,
    pub(crate) strict_records: Option<bool>,
    pub(crate) sandbox: Option<bool>,
}

/// Values by name; one that is `None` stays what it is. Whoever changes one need not know the others.
pub(crate) type Values = BTreeMap<String, Option<String>>;

/// What to change about how a server is reached.
#[derive(Default)]
pub(crate) struct LaunchChange {
    pub(crate) server_type: Option<String>,
    pub(crate) command: Option<String>,
    pub(crate) args: Option<Vec<String>>,
    pub(crate) cwd: Option<Option<String>>,
    pub(crate) env: Option<Values>,
    pub(crate) url: Option<String>,
    pub(crate) headers: Option<Values>,
}

impl Toolsets {
    /// Adds a server, in a toolset of its own.
    pub(crate) async fn add_server(&self, org: &OrgId, by: &Author, new: NewServer) -> Result<ServerKey, ToolsetError> {
        let mut server = McpServer {
            id: server_id(&ToolsetId::from_name(new.name.as_str(), NAMELESS).next().ok_or(ToolsetError::Conflict)?),
            launch: new.launch,
            enabled: new.enabled,
            requires_confirmation: new.requires_confirmation,
            description: new.description,
        };
        refuse_literals(org, std::slice::from_ref(&server), &[])?;
        let fingerprint = server.fingerprint();
        let mut tx = self.store.write(org).await?;
        let id = match new.id {
            Some(id) => {
                server.id = server_id(&id);
                install(&mut tx, by, &id, &new.name, &server).await?
            }
            None => {
                let mut taken = Err(ToolsetError::Conflict);
                for id in ToolsetId::from_name(new.name.as_str(), NAMELESS).take(MOST_TRIED) {
                    server.id = server_id(&id);
                    taken = install(&mut tx, by, &id, &new.name, &server).await;
                    if !matches!(taken, Err(ToolsetError::Taken(_))) {
                        break;
                    }
                }
                taken?
            }
        };
        let key = ServerKey { toolset: id.clone(), server: server.id };
        if new.pin_policy.is_some() {
            tx.set_pin_policy(&key, new.pin_policy).await?;
        }
        if new.strict_records {
            tx.set_strict_records(&key, true).await?;
        }
        if new.sandbox {
            tx.sandbox_server(&key, true).await?;
        }
        if new.trusted {
            tx.trust(&id, key.server.as_str(), &fingerprint).await?;
        }
        let details = json!({ "fingerprint": fingerprint, "trusted": new.trusted, "sandbox": new.sandbox });
        tx.audit(&by.who, Action::McpServerAdded, &key.to_string(), &details).await?;
        tx.commit().await?;
        Ok(key)
    }

    /// Changes a server. Its key from now on.
    pub(crate) async fn update_server(
        &self,
        org: &OrgId,
        who: &str,
        key: &ServerKey,
        change: ServerChange,
    ) -> Result<ServerKey, ToolsetError> {
        let _turn = self.turn(org, &key.toolset).await;
        let not_found = || ToolsetError::NoServer(key.to_string());
        let mut tx = self.store.write(org).await?;
        // Others who change it wait from here on: what is read below is what is changed.
        if !tx.lock_server(key).await? {
            return Err(not_found());
        }
        if let Some(policy) = change.pin_policy {
            tx.set_pin_policy(key, policy).await?;
        }
        if let Some(strict) = change.strict_records {
            tx.set_strict_records(key, strict).await?;
        }
        if let Some(sandbox) = change.sandbox {
            tx.sandbox_server(key, sandbox).await?;
        }
        let installed = tx.installed(&key.toolset).await?.ok_or_else(not_found)?;
        let one = installed.server(key.server.as_str()).ok_or_else(not_found)?;
        let own = installed.toolset.user_mcp;
        if !own && (change.id.is_some() || change.name.is_some()) {
            return Err(ToolsetError::OfBundle { server: key.clone(), what: "renamed" });
        }
        if let Some(enabled) = change.enabled {
            tx.enable_server(key, enabled).await?;
        }
        let before = one.server.fingerprint();
        let server = McpServer {
            launch: change.launch.apply(org, &one.server.launch)?,
            requires_confirmation: change.requires_confirmation.unwrap_or(one.server.requires_confirmation),
            description: change.description.clone().unwrap_or_else(|| one.server.description.clone()),
            ..one.server.clone()
        };
        let after = server.fingerprint();
        if server != one.server || change.name.is_some() || change.id.is_some() {
            editable(&mut tx, &key.toolset).await?;
        }
        if server != one.server {
            refuse_literals(org, std::slice::from_ref(&server), &[])?;
            tx.replace_server(&key.toolset, &server).await?;
        }
        // What a person added by hand is trusted as that person changes it. What a bundle brought needs a yes of its own, and so does
        // what nobody said yes to before: a change says nothing of the rest.
        if own && after != before && one.is_trusted() {
            tx.trust(&key.toolset, key.server.as_str(), &after).await?;
        }
        if own {
            let name = change.name.as_ref().unwrap_or(&installed.toolset.name);
            tx.describe_toolset(&key.toolset, name, server.description.as_ref()).await?;
        }
        let key = match change.id.filter(|id| *id != key.toolset) {
            Some(id) => rename(&mut tx, &installed, key, id).await?,
            None => key.clone(),
        };
        let policy = change.pin_policy.map(|policy| policy.map_or("default", PinPolicy::as_str));
        let details = json!({
            "fingerprint": after, "before": before, "enabled": change.enabled.flatten(), "pinPolicy": policy,
            "strictRecords": change.strict_records, "sandbox": change.sandbox,
        });
        tx.audit(who, Action::McpServerUpdated, &key.to_string(), &details).await?;
        tx.commit().await?;
        Ok(key)
    }

    /// Removes a server that a person added, with its toolset.
    pub(crate) async fn remove_server(&self, org: &OrgId, who: &str, key: &ServerKey) -> Result<(), ToolsetError> {
        let installed = self.installed(org, &key.toolset).await?;
        if !installed.toolset.user_mcp {
            return Err(ToolsetError::OfBundle { server: key.clone(), what: "removed" });
        }
        self.uninstall_as(org, who, &key.toolset, Action::McpServerRemoved, key.to_string()).await
    }
}

/// A server that was added by hand is called as its toolset is.
fn server_id(id: &ToolsetId) -> ServerId {
    id.as_str().parse().expect("what is a toolset's id is a server's")
}

/// Makes the toolset of a server. Its id; [`ToolsetError::Taken`] leaves nothing behind.
async fn install(
    tx: &mut WriteTx,
    by: &Author,
    id: &ToolsetId,
    name: &DisplayName,
    server: &McpServer,
) -> Result<ToolsetId, ToolsetError> {
    let install = Install {
        definition: Definition {
            id: id.clone(),
            name: name.clone(),
            version: "1.0.0".parse().expect("a version"),
            description: server.description.clone(),
            tools: Vec::new(),
            overrides: Vec::new(),
            servers: vec![server.clone()],
            containers: Vec::new(),
            skills: Vec::new(),
            python: PythonNeeds::default(),
            permissions: Permissions::default(),
        },
        skills: Vec::new(),
        files: Vec::new(),
        source_type: SourceType::Local,
        source_ref: None,
        generation: None,
        user_mcp: true,
        visibility: Visibility::Org,
        adopted_from: None,
        by: by.user,
    };
    match tx.install_toolset(&install, None).await {
        Ok(()) => Ok(id.clone()),
        Err(InstallError::Conflict) => Err(ToolsetError::Taken(id.clone())),
        Err(InstallError::Store(error)) => Err(error.into()),
    }
}

async fn rename(
    tx: &mut WriteTx,
    installed: &Installed,
    key: &ServerKey,
    id: ToolsetId,
) -> Result<ServerKey, ToolsetError> {
    if installed.toolset.generation.is_some() {
        return Err(ToolsetError::OfBundle { server: key.clone(), what: "renamed" });
    }
    let to = ServerKey { server: server_id(&id), toolset: id };
    match tx.rename_server(key, &to).await {
        Ok(true) => Ok(to),
        Ok(false) => Err(ToolsetError::NoServer(key.to_string())),
        Err(StoreError::Exists) => Err(ToolsetError::Taken(to.toolset)),
        Err(error) => Err(error.into()),
    }
}

impl LaunchChange {
    /// How the server is reached after the change.
    fn apply(self, org: &OrgId, launch: &Launch) -> Result<Launch, ToolsetError> {
        let mut raw = match launch {
            // A server that was started and is dialled from now on keeps nothing of how it was started.
            Launch::Stdio { .. } if self.url.is_some() && self.command.is_none() => RawLaunch::default(),
            Launch::Remote { .. } if self.command.is_some() && self.url.is_none() => RawLaunch::default(),
            launch => RawLaunch::from(launch),
        };
        raw.server_type = self.server_type.or(raw.server_type);
        raw.command = self.command.or(raw.command);
        raw.url = self.url.or(raw.url);
        raw.args = self.args.unwrap_or(raw.args);
        raw.cwd = self.cwd.unwrap_or(raw.cwd);
        raw.env = replaced("env", self.env, raw.env)?;
        raw.headers = replaced("headers", self.headers, raw.headers)?;
        // What was there stays, whatever would be said of it today.
        if raw == RawLaunch::from(launch) { Ok(launch.clone()) } else { checked_launch(org, raw) }
    }
}

/// The values that are given in place of those that are there; where none is given for a name, the one that is there.
fn replaced(
    field: &'static str,
    given: Option<Values>,
    there: BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, ToolsetError> {
    let Some(given) = given else { return Ok(there) };
    let mut values = BTreeMap::new();
    for (name, value) in given {
        let kept = || there.get(&name).cloned().ok_or_else(|| ToolsetError::NoValue { field, name: name.clone() });
        let value = value.map_or_else(kept, Ok)?;
        values.insert(name, value);
    }
    Ok(values)
}
