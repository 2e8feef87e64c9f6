//! What people say of a server, read so that no error repeats a value: env, headers and arguments may hold secrets.

use kitbag_model::{Description, DisplayName, OrgId, PinPolicy, RawLaunch, ToolsetId};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use utoipa::ToSchema;

use crate::api::error::ApiError;
use crate::api::input::nullable;
use crate::toolsets::{LaunchChange, NewServer, ServerChange, Values, checked_launch};

/// Texts by name. A text that is null stays what it is.
fn values<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Values>, D::Error> {
    let Some(Value::Object(map)) = Option::<Value>::deserialize(deserializer)? else {
        return Err(D::Error::custom("env and headers must be objects of texts"));
    };
    let text = |(name, value): (String, Value)| match value {
        Value::String(text) => Ok((name, Some(text))),
        Value::Null => Ok((name, None)),
        _ => Err(D::Error::custom(format!("the value of {name:?} must be a text"))),
    };
    map.into_iter().map(text).collect::<Result<_, _>>().map(Some)
}

/// Arguments.
fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    let wrong = || D::Error::custom("args must be a list of texts");
    let Value::Array(items) = Value::deserialize(deserializer)? else { return Err(wrong()) };
    let text = |item| if let Value::String(text) = item { Ok(text) } else { Err(wrong()) };
    items.into_iter().map(text).collect::<Result<_, _>>().map(Some)
}

/// A text whose value is not repeated if it is none.
fn quiet<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::String(text) => Ok(Some(text)),
        _ => Err(D::Error::custom("command, cwd and url must be texts")),
    }
}

/// A server to add.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AddServer {
    /// Its id, and that of the toolset that is made for it. Absent: made from the name, with a number if that is taken.
    id: Option<String>,
    /// What people call it. Absent: its id.
    name: Option<String>,
    /// `stdio`, `sse` or `streamable-http` (`http`); absent: from command or url. `transport` and `type` are accepted too.
    #[serde(alias = "transport", alias = "type")]
    server_type: Option<String>,
    /// The program to start. No shell is involved.
    #[serde(default, deserialize_with = "quiet")]
    #[schema(nullable = false)]
    command: Option<String>,
    #[serde(default, deserialize_with = "texts")]
    #[schema(value_type = Option<Vec<String>>, nullable = false)]
    args: Option<Vec<String>>,
    /// The folder it is started in.
    #[serde(default, deserialize_with = "quiet")]
    #[schema(nullable = false)]
    cwd: Option<String>,
    /// Variables. Values are never shown again; `${NAME}` refers to a variable of the server's environment.
    #[serde(default, deserialize_with = "values")]
    #[schema(value_type = Option<std::collections::BTreeMap<String, String>>, nullable = false)]
    env: Option<Values>,
    /// The address to dial.
    #[serde(default, deserialize_with = "quiet")]
    #[schema(nullable = false)]
    url: Option<String>,
    /// What every request carries. Values are never shown again.
    #[serde(default, deserialize_with = "values")]
    #[schema(value_type = Option<std::collections::BTreeMap<String, String>>, nullable = false)]
    headers: Option<Values>,
    /// Whether it is used; true if absent.
    enabled: Option<bool>,
    /// Whether a person is asked before each call of its tools; true if absent.
    requires_confirmation: Option<bool>,
    description: Option<String>,
    /// What happens when it changes a tool: `warn`, `quarantine` or `accept` (if absent).
    pin_policy: Option<String>,
    /// Whether every call of its tools is recorded before it runs, and again before it is answered; false if absent. Otherwise a crash
    /// may lose the records of the last tenth of a second.
    strict_records: Option<bool>,
    /// Whether it may start as it is; true if absent. False is for what nobody has looked at yet: it needs to be trusted first.
    trust: Option<bool>,
    /// Whether its process runs in the sandbox; false if absent. Those of organisations other than `local` always do.
    sandbox: Option<bool>,
}

/// What to change about a server. What is absent stays as it is.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct UpdateServer {
    /// Another id; for servers that were added by hand. Overrides, pins, trust and the history of calls go along.
    id: Option<String>,
    /// What people call it; for servers that were added by hand.
    name: Option<String>,
    /// `stdio`, `sse` or `streamable-http` (`http`). `transport` and `type` are accepted too.
    #[serde(alias = "transport", alias = "type")]
    server_type: Option<String>,
    #[serde(default, deserialize_with = "quiet")]
    #[schema(nullable = false)]
    command: Option<String>,
    #[serde(default, deserialize_with = "texts")]
    #[schema(value_type = Option<Vec<String>>, nullable = false)]
    args: Option<Vec<String>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<String>)]
    cwd: Option<Option<String>>,
    /// All variables. One whose value is null keeps the value it has.
    #[serde(default, deserialize_with = "values")]
    #[schema(value_type = Option<std::collections::BTreeMap<String, Option<String>>>, nullable = false)]
    env: Option<Values>,
    #[serde(default, deserialize_with = "quiet")]
    #[schema(nullable = false)]
    url: Option<String>,
    /// All headers. One whose value is null keeps the value it has.
    #[serde(default, deserialize_with = "values")]
    #[schema(value_type = Option<std::collections::BTreeMap<String, Option<String>>>, nullable = false)]
    headers: Option<Values>,
    /// Whether it is used; null: what its toolset says.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<bool>)]
    enabled: Option<Option<bool>>,
    /// Whether a person is asked before each call of its tools; null: yes.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<bool>)]
    requires_confirmation: Option<Option<bool>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<String>)]
    description: Option<Option<String>>,
    /// What happens when it changes a tool: `warn`, `quarantine` or `accept`; null: the default.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<String>)]
    pin_policy: Option<Option<String>>,
    /// Whether every call of its tools is recorded before it runs, and again before it is answered.
    strict_records: Option<bool>,
    /// Whether its process runs in the sandbox. Those of organisations other than `local` always do.
    sandbox: Option<bool>,
}

fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(
    field: &str,
    text: Option<String>,
) -> Result<Option<T>, ApiError> {
    text.map(|text| text.parse()).transpose().map_err(|reason: T::Err| ApiError::invalid(field, reason))
}

fn cleared<T: std::str::FromStr<Err: std::fmt::Display>>(
    field: &str,
    text: Option<Option<String>>,
) -> Result<Option<Option<T>>, ApiError> {
    text.map(|text| parsed(field, text)).transpose()
}

/// Values that are all there.
fn given(field: &str, values: Option<Values>) -> Result<std::collections::BTreeMap<String, String>, ApiError> {
    let there = |(name, value): (String, Option<String>)| match value {
        Some(value) => Ok((name, value)),
        None => Err(ApiError::invalid(&format!("{field}.{name}"), "must be a text")),
    };
    values.unwrap_or_default().into_iter().map(there).collect()
}

impl AddServer {
    pub(super) fn checked(self, org: &OrgId) -> Result<NewServer, ApiError> {
        let id: Option<ToolsetId> = parsed("id", self.id)?;
        let name: Option<DisplayName> = parsed("name", self.name)?;
        let otherwise = id.as_ref().map(|id| id.as_str().parse().expect("an id is a short plain word"));
        let name = name.or(otherwise);
        let launch = RawLaunch {
            server_type: self.server_type,
            command: self.command,
            args: self.args.unwrap_or_default(),
            cwd: self.cwd,
            env: given("env", self.env)?,
            url: self.url,
            headers: given("headers", self.headers)?,
        };
        let launch = checked_launch(org, launch)?;
        let policy: Option<PinPolicy> = parsed("pinPolicy", self.pin_policy)?;
        let description: Option<Description> = parsed("description", self.description)?;
        Ok(NewServer {
            id,
            name: name.ok_or_else(|| ApiError::invalid("name", "give a name or an id"))?,
            launch,
            enabled: self.enabled.unwrap_or(true),
            requires_confirmation: self.requires_confirmation,
            description,
            pin_policy: policy,
            strict_records: self.strict_records.unwrap_or(false),
            trusted: self.trust.unwrap_or(true),
            sandbox: self.sandbox.unwrap_or(false),
        })
    }
}

impl UpdateServer {
    pub(super) fn checked(self) -> Result<ServerChange, ApiError> {
        Ok(ServerChange {
            id: parsed("id", self.id)?,
            name: parsed("name", self.name)?,
            launch: LaunchChange {
                server_type: self.server_type,
                command: self.command,
                args: self.args,
                cwd: self.cwd,
                env: self.env,
                url: self.url,
                headers: self.headers,
            },
            enabled: self.enabled,
            requires_confirmation: self.requires_confirmation,
            description: cleared("description", self.description)?,
            pin_policy: cleared("pinPolicy", self.pin_policy)?,
            strict_records: self.strict_records,
            sandbox: self.sandbox,
        })
    }
}
