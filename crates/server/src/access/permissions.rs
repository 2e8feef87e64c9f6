//! What each operation of the API takes, declared once. The document says it (`x-permission`, `security`); `tests/http/permissions.rs`
//! asks every route as everybody and compares. An operation that is not in this table fails a test.

use std::collections::BTreeMap;

use serde_json::Value;
use utoipa::openapi::OpenApi as Document;
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::SecurityRequirement;

/// Who may ask for an operation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Permission {
    /// Everybody.
    Public,
    /// Whoever has a valid token, or signed in. It is of no organisation.
    SignedIn,
    /// A person who signed in. A token is no person.
    Person,
    /// Members, and tokens with the scope `use`.
    Use,
    /// Members for what is their own; for the rest whoever manages.
    Own,
    /// Members at the page, and whoever manages: no agent.
    Decide,
    /// Owners and admins, and their tokens with the scope `manage`.
    Manage,
    /// The same in `local` alone: it is about the machine, which other organisations share and are told nothing of.
    Machine,
    /// Whoever runs the server.
    Operator,
    /// An executor, with its own token.
    Executor,
}

use Permission::{Decide, Executor, Machine, Manage, Operator, Own, Person, Public, SignedIn, Use};

/// Every operation, by name.
const PERMISSIONS: &[(&str, Permission)] = &[
    ("accept_invitation", Public),
    ("accept_mcp_server_pins", Manage),
    ("add_mcp_server", Manage),
    ("add_message", Use),
    ("adopt_toolset", Manage),
    ("apply_run", Use),
    ("ask_missing_blobs", Executor),
    ("call_tool", Use),
    ("cancel_run", Use),
    ("cancel_tool_call", Use),
    ("cancel_turn", Use),
    ("change_password", Person),
    ("chat_toolset_builder", Manage),
    ("check_server", Machine),
    ("check_skill", Use),
    ("checkout_workspace", Use),
    ("connect_executor", Executor),
    ("create_chat", Use),
    ("create_invitation", Manage),
    ("create_organization", Operator),
    ("create_pairing_token", Manage),
    ("create_run", Decide),
    ("create_token", Decide),
    ("create_toolset", Manage),
    ("decide_tool_call", Decide),
    ("delete_chat", Manage),
    ("delete_identity", Person),
    ("delete_invitation", Manage),
    ("delete_override", Manage),
    ("delete_secret", Manage),
    ("delete_workspace_file", Use),
    ("diff_workspace", Use),
    ("download_workspace", Use),
    ("enable_toolset", Manage),
    ("end_session", Person),
    ("events", Use),
    ("export_audit", Manage),
    ("export_toolset", Use),
    ("finalize_toolset_builder", Manage),
    ("forget_mcp_server_client", Manage),
    ("fsck_workspace", Manage),
    ("gc_workspace", Manage),
    ("get_attempt_blob", Executor),
    ("get_available_tools", Use),
    ("get_chat", Use),
    ("get_gallery_toolset", SignedIn),
    ("get_mcp_server", Use),
    ("get_mcp_server_pins", Use),
    ("get_organization", Use),
    ("get_run", Use),
    ("get_run_call", Use),
    ("get_run_workspace", Use),
    ("get_server", Manage),
    ("get_session", SignedIn),
    ("get_settings", Use),
    ("get_sign_in", Public),
    ("get_tool", Use),
    ("get_tool_call", Use),
    ("get_tool_call_app", Use),
    ("get_tool_call_result", Use),
    ("get_toolset", Use),
    ("get_toolset_builder", Manage),
    ("get_toolset_file", Use),
    ("get_toolset_skill", Use),
    ("get_workspace_file", Use),
    ("get_workspace_files", Use),
    ("get_workspace_manifest", Use),
    ("healthz", Public),
    ("hold_invitation", Public),
    ("import_mcp_servers", Manage),
    ("import_toolset", Manage),
    ("list_audit", Manage),
    ("list_chats", Use),
    ("list_connections", Decide),
    ("list_executors", Use),
    ("list_gallery", SignedIn),
    ("list_identities", Person),
    ("list_importable_mcp_servers", Machine),
    ("list_invitations", Manage),
    ("list_mcp_servers", Use),
    ("list_members", Use),
    ("list_messages", Use),
    ("list_models", Use),
    ("list_organizations", Person),
    ("list_overrides", Use),
    ("list_pending_tool_calls", Use),
    ("list_processes", Use),
    ("list_runs", Use),
    ("list_secrets", Manage),
    ("list_sessions", Person),
    ("list_tokens", Use),
    ("list_tool_calls", Use),
    ("list_tools", Use),
    ("list_toolset_files", Use),
    ("list_toolsets", Use),
    ("list_turns", Use),
    ("list_workspace_manifests", Use),
    ("metrics", Public),
    ("pair_executor", Public),
    ("prepare_toolset", Manage),
    ("publish_toolset", Manage),
    ("put_attempt_blob", Executor),
    ("put_workspace_file", Use),
    ("read_importable_mcp_servers", Manage),
    ("read_invitation", Public),
    ("readyz", Public),
    ("reconnect_mcp_server", Manage),
    ("remove_mcp_server", Manage),
    ("remove_member", Own),
    ("rename_workspace_file", Use),
    ("reseal", Machine),
    ("resolve_tools", Use),
    ("restore_workspace_file", Use),
    ("retain", Machine),
    ("retry_run", Decide),
    ("revoke_executor", Manage),
    ("revoke_token", Decide),
    ("run_events", Use),
    ("set_active_leaf", Use),
    ("set_mcp_server_client", Manage),
    ("set_override", Manage),
    ("set_secret", Manage),
    ("sign_in", Public),
    ("sign_in_mcp_server", Manage),
    ("sign_out", Person),
    ("sign_out_mcp_server", Manage),
    ("snapshot_workspace", Use),
    ("start_toolset_builder", Manage),
    ("stop_process", Use),
    ("stream", Use),
    ("test_mcp_server", Manage),
    ("trust_mcp_server", Manage),
    ("trust_toolset", Manage),
    ("turn_events", Use),
    ("uninstall_toolset", Manage),
    ("unpublish_toolset", Manage),
    ("update_chat", Use),
    ("update_executor", Manage),
    ("update_mcp_server", Manage),
    ("update_member", Manage),
    ("update_organization", Manage),
    ("update_settings", Manage),
    ("update_toolset", Manage),
    ("upload_workspace_files", Use),
];

impl Permission {
    /// As the document has it.
    fn as_str(self) -> &'static str {
        match self {
            Public => "public",
            SignedIn => "signed-in",
            Person => "person",
            Use => "use",
            Own => "own",
            Decide => "decide",
            Manage => "manage",
            Machine => "machine",
            Operator => "operator",
            Executor => "executor",
        }
    }

    /// The ways to prove that one may.
    fn security(self) -> Vec<SecurityRequirement> {
        let by = |scheme: &str| SecurityRequirement::new::<_, [&str; 0], &str>(scheme, []);
        match self {
            Public => vec![SecurityRequirement::default()],
            Person => vec![by("cookie")],
            Operator => vec![by("token")],
            Executor => vec![by("executor")],
            SignedIn | Use | Own | Decide | Manage | Machine => vec![by("token"), by("cookie")],
        }
    }
}

/// What an operation takes.
pub(crate) fn of(operation: &str) -> Option<Permission> {
    let found = PERMISSIONS.binary_search_by_key(&operation, |(name, _)| name);
    found.ok().and_then(|at| PERMISSIONS.get(at)).map(|(_, permission)| *permission)
}

/// Writes into the document who may ask for what.
pub(crate) fn declare(document: &mut Document) {
    for item in document.paths.paths.values_mut() {
        for operation in operations(item) {
            let Some(permission) = operation.operation_id.as_deref().and_then(of) else { continue };
            // What everybody may ask can tell more to who is known, and says so itself.
            if permission != Public || operation.security.is_none() {
                operation.security = Some(permission.security());
            }
            let word = BTreeMap::from([("x-permission".to_owned(), Value::from(permission.as_str()))]);
            operation.extensions.get_or_insert_default().merge(Extensions::from_iter(word));
        }
    }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let PathItem { get, put, post, delete, options, head, patch, trace, .. } = item;
    [get, put, post, delete, options, head, patch, trace].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::openapi::document;

    #[test]
    fn every_operation_says_who_may() {
        let mut document = document();
        let all = document.paths.paths.values_mut().flat_map(operations);
        let mut served: Vec<String> = all.filter_map(|operation| operation.operation_id.clone()).collect();
        served.sort();
        let declared: Vec<&str> = PERMISSIONS.iter().map(|(name, _)| *name).collect();
        assert!(declared.is_sorted_by(|a, b| a < b), "by name, each once");
        let without: Vec<_> = served.iter().filter(|name| of(name).is_none()).collect();
        assert!(without.is_empty(), "say in {} who may ask for {without:?}", file!());
        let gone: Vec<_> = declared.iter().filter(|name| !served.iter().any(|served| served == *name)).collect();
        assert!(gone.is_empty(), "there is no {gone:?} any more");
    }

    #[test]
    fn the_document_says_it() {
        let mut document = document();
        for item in document.paths.paths.values_mut() {
            for operation in operations(item) {
                let name = operation.operation_id.clone().unwrap_or_default();
                assert!(operation.security.as_ref().is_some_and(|ways| !ways.is_empty()), "{name}");
                let said = operation.extensions.as_ref().and_then(|more| more.get("x-permission"));
                assert_eq!(said.and_then(Value::as_str), of(&name).map(Permission::as_str), "{name}");
            }
        }
    }
}
