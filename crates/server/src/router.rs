//! The index of everything that can be asked.

use axum::routing::{MethodRouter, get};
use axum::{Router, middleware};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access::issuers::resource::{WELL_KNOWN, metadata};
use crate::api::{
    audit, builder, calls, chats, events, executors, gallery, invitations, machine, mcp_imports, mcp_servers, members,
    messages, orgs, people, processes, runs, secrets, session, settings, skills, tokens, tools, toolsets, turns,
    workspace,
};
use crate::app::App;
use crate::ops::{self, openapi::ApiDoc};
use crate::{api, edge, gateway, nodes, page};

/// The router of a server.
pub fn router(app: App) -> Router {
    let (endpoints, _) = endpoints().split_for_parts();
    let router = Router::new()
        .merge(endpoints)
        .merge(page::routes())
        .route("/mcp", mcp())
        .route("/v1/orgs/{org}/mcp", mcp())
        .route("/v1/orgs/{org}/toolsets/{id}/mcp", mcp())
        .route("/v1/orgs/{org}/mcp-servers/{serverKey}/mcp", mcp())
        .route(WELL_KNOWN, get(metadata))
        .route(&format!("{WELL_KNOWN}/mcp"), get(metadata))
        .route(&format!("{WELL_KNOWN}/sse"), get(metadata))
        .route(&format!("{WELL_KNOWN}/v1/orgs/{{org}}/mcp"), get(metadata))
        .route(&format!("{WELL_KNOWN}/v1/orgs/{{org}}/toolsets/{{id}}/mcp"), get(metadata))
        .route(&format!("{WELL_KNOWN}/v1/orgs/{{org}}/mcp-servers/{{serverKey}}/mcp"), get(metadata))
        .route("/sse", get(gateway::http::open_sse))
        .route("/messages", axum::routing::post(gateway::http::message))
        .route(nodes::RUN, axum::routing::post(nodes::run_here))
        .route(nodes::CANCEL, axum::routing::post(nodes::cancel_here))
        .route(nodes::APPLY, axum::routing::post(nodes::apply_here))
        .route(nodes::LEND, get(nodes::lend_here))
        .route(nodes::PING, get(nodes::pinged))
        .route(nodes::RECONNECT, axum::routing::post(nodes::reconnect_here))
        .route(nodes::RELEASE, axum::routing::post(nodes::release_here))
        .route(nodes::SHOW, axum::routing::post(nodes::show_here))
        .route("/openapi.json", get(ops::openapi::serve))
        .route("/docs", get(ops::docs::with_slash))
        .route("/docs/", get(ops::docs::index))
        .route("/docs/{*file}", get(ops::docs::asset))
        .fallback(api::error::no_such_route)
        .method_not_allowed_fallback(api::error::no_such_method);
    router.layer(middleware::from_fn_with_state(app.clone(), edge::frame)).with_state(app)
}

/// The protocol's own endpoint, whatever it is about.
fn mcp() -> MethodRouter<App> {
    axum::routing::post(gateway::http::post).get(gateway::http::get).delete(gateway::http::delete)
}

/// The endpoints that `/openapi.json` describes: a route that is served is a route that is documented.
pub(crate) fn endpoints() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(ApiDoc::openapi())
        .routes(routes!(ops::health::healthz))
        .routes(routes!(ops::health::readyz))
        .routes(routes!(ops::metrics::metrics))
        .routes(routes!(chats::list::list_chats, chats::create::create_chat))
        .routes(routes!(chats::get::get_chat, chats::update::update_chat, chats::delete::delete_chat))
        .routes(routes!(chats::active_leaf::set_active_leaf))
        .routes(routes!(messages::list::list_messages, messages::add::add_message))
        .routes(routes!(calls::list::list_tool_calls, calls::call::call_tool))
        .routes(routes!(calls::waiting::list_pending_tool_calls))
        .routes(routes!(calls::get::get_tool_call))
        .routes(routes!(calls::result::get_tool_call_result))
        .routes(routes!(calls::app::get_tool_call_app))
        .routes(routes!(calls::decide::decide_tool_call))
        .routes(routes!(calls::cancel::cancel_tool_call))
        .routes(routes!(processes::list::list_processes))
        .routes(routes!(processes::stop::stop_process))
        .routes(routes!(events::events))
        .routes(routes!(workspace::files::get_workspace_files))
        .routes(routes!(
            workspace::get_file::get_workspace_file,
            workspace::put_file::put_workspace_file,
            workspace::delete_file::delete_workspace_file
        ))
        .routes(routes!(workspace::upload::upload_workspace_files))
        .routes(routes!(workspace::download::download_workspace))
        .routes(routes!(workspace::manifest::get_workspace_manifest))
        .routes(routes!(workspace::manifests::list_workspace_manifests))
        .routes(routes!(workspace::snapshot::snapshot_workspace))
        .routes(routes!(workspace::diff::diff_workspace))
        .routes(routes!(workspace::checkout::checkout_workspace))
        .routes(routes!(workspace::rename::rename_workspace_file))
        .routes(routes!(workspace::restore::restore_workspace_file))
        .routes(routes!(workspace::gc::gc_workspace))
        .routes(routes!(workspace::fsck::fsck_workspace))
        .routes(routes!(toolsets::list::list_toolsets, toolsets::create::create_toolset))
        .routes(routes!(toolsets::import::import_toolset))
        .routes(routes!(builder::start::start_toolset_builder))
        .routes(routes!(builder::get::get_toolset_builder))
        .routes(routes!(builder::chat::chat_toolset_builder))
        .routes(routes!(builder::finalize::finalize_toolset_builder))
        .routes(routes!(
            toolsets::get::get_toolset,
            toolsets::update::update_toolset,
            toolsets::uninstall::uninstall_toolset
        ))
        .routes(routes!(toolsets::skill::get_toolset_skill))
        .routes(routes!(toolsets::file::get_toolset_file))
        .routes(routes!(skills::check::check_skill))
        .routes(routes!(toolsets::enable::enable_toolset))
        .routes(routes!(toolsets::trust::trust_toolset))
        .routes(routes!(toolsets::publish::publish_toolset))
        .routes(routes!(toolsets::unpublish::unpublish_toolset))
        .routes(routes!(gallery::list::list_gallery))
        .routes(routes!(gallery::get::get_gallery_toolset))
        .routes(routes!(gallery::adopt::adopt_toolset))
        .routes(routes!(toolsets::prepare::prepare_toolset))
        .routes(routes!(toolsets::export::export_toolset))
        .routes(routes!(toolsets::files::list_toolset_files))
        .routes(routes!(toolsets::overrides::list_overrides))
        .routes(routes!(toolsets::overrides::set_override, toolsets::overrides::delete_override))
        .routes(routes!(tools::list::list_tools))
        .routes(routes!(tools::resolve::resolve_tools))
        .routes(routes!(tools::get::get_tool))
        .routes(routes!(tools::available::get_available_tools))
        .routes(routes!(mcp_servers::list::list_mcp_servers, mcp_servers::add::add_mcp_server))
        .routes(routes!(
            mcp_servers::get::get_mcp_server,
            mcp_servers::update::update_mcp_server,
            mcp_servers::remove::remove_mcp_server
        ))
        .routes(routes!(mcp_servers::reconnect::reconnect_mcp_server))
        .routes(routes!(mcp_servers::test::test_mcp_server))
        .routes(routes!(mcp_servers::client::set_mcp_server_client, mcp_servers::client::forget_mcp_server_client))
        .routes(routes!(mcp_servers::sign_in::sign_in_mcp_server, mcp_servers::sign_in::sign_out_mcp_server))
        .routes(routes!(mcp_servers::pins::get_mcp_server_pins))
        .routes(routes!(mcp_servers::accept::accept_mcp_server_pins))
        .routes(routes!(mcp_servers::trust::trust_mcp_server))
        .routes(routes!(mcp_imports::list::list_importable_mcp_servers, mcp_imports::take::import_mcp_servers))
        .routes(routes!(mcp_imports::read::read_importable_mcp_servers))
        .routes(routes!(session::get_session))
        .routes(routes!(people::sign_in::get_sign_in, people::sign_in::sign_in))
        .routes(routes!(people::sign_out::sign_out))
        .routes(routes!(people::sessions::list_sessions))
        .routes(routes!(people::sessions::end_session))
        .routes(routes!(people::password::change_password))
        .routes(routes!(people::identities::list_identities))
        .routes(routes!(people::identities::delete_identity))
        .routes(routes!(orgs::list::list_organizations, orgs::create::create_organization))
        .routes(routes!(orgs::get::get_organization, orgs::update::update_organization))
        .routes(routes!(settings::get::get_settings, settings::update::update_settings))
        .routes(routes!(secrets::list::list_secrets))
        .routes(routes!(secrets::set::set_secret, secrets::delete::delete_secret))
        .routes(routes!(members::list::list_members))
        .routes(routes!(members::update::update_member, members::remove::remove_member))
        .routes(routes!(invitations::list::list_invitations, invitations::create::create_invitation))
        .routes(routes!(invitations::take_back::delete_invitation))
        .routes(routes!(invitations::read::read_invitation))
        .routes(routes!(invitations::accept::accept_invitation))
        .routes(routes!(invitations::hold::hold_invitation))
        .routes(routes!(tokens::list::list_tokens, tokens::create::create_token))
        .routes(routes!(tokens::revoke::revoke_token))
        .routes(routes!(audit::list::list_audit))
        .routes(routes!(audit::export::export_audit))
        .routes(routes!(turns::stream::stream))
        .routes(routes!(turns::list::list_turns))
        .routes(routes!(turns::models::list_models))
        .routes(routes!(turns::events::turn_events))
        .routes(routes!(turns::cancel::cancel_turn))
        .routes(routes!(runs::list::list_runs, runs::create::create_run))
        .routes(routes!(runs::get::get_run))
        .routes(routes!(runs::events::run_events))
        .routes(routes!(runs::call::get_run_call))
        .routes(routes!(runs::cancel::cancel_run))
        .routes(routes!(runs::retry::retry_run))
        .routes(routes!(runs::workspace::get_run_workspace))
        .routes(routes!(runs::apply::apply_run))
        .routes(routes!(executors::list::list_executors))
        .routes(routes!(executors::update::update_executor, executors::revoke::revoke_executor))
        .routes(routes!(executors::pairing::create_pairing_token))
        .routes(routes!(executors::pair::pair_executor))
        .routes(routes!(executors::connect::connect_executor))
        .routes(routes!(executors::attempt::get_attempt_blob, executors::attempt::put_attempt_blob))
        .routes(routes!(executors::attempt::ask_missing_blobs))
        .routes(routes!(machine::facts::get_server))
        .routes(routes!(machine::checks::check_server))
        .routes(routes!(machine::retain::retain))
        .routes(routes!(machine::reseal::reseal))
        .routes(routes!(machine::connections::list_connections))
}
