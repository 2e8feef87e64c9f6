//! `PUT /v1/orgs/{org}/settings`

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use kitbag_model::{Action, Audience, OrgId, OrgSettings, Toolset, ToolsetId, Visibility};
use serde_json::json;

use super::view::{LimitsView, SettingsDoc, SettingsView, answer, check_version};
use crate::access::caller::MayManage;
use crate::api::error::{ApiError, Code, ErrorBody};
use crate::api::input::JsonBody;
use crate::app::App;
use crate::resolution::wrong_lists;
use crate::rules::OrganizationRules;

/// Say something else about an organisation: all of it is replaced
///
/// What is absent or null is the server's default. Without `If-Match: "<ETag>"` the last one to write wins.
#[utoipa::path(
    put, path = "/v1/orgs/{org}/settings", tag = "organizations",
    params(("org" = String, Path, description = "The organisation; `local` in the embedded mode.")),
    request_body = SettingsDoc,
    responses((status = 200, body = SettingsView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn update_settings(
    State(app): State<App>,
    caller: MayManage,
    headers: HeaderMap,
    JsonBody(settings): JsonBody<OrgSettings>,
) -> Result<Response, ApiError> {
    let org = &caller.org;
    let limits = app.rules().limits(org);
    within(&settings, &limits)?;
    check_lists(&app, org, &settings).await?;
    let mut tx = app.store().write(org).await?;
    tx.lock_settings().await?;
    let (before, since) = tx.settings().await?.ok_or_else(|| ApiError::not_found("organisation", org.as_str()))?;
    check_version(&headers, &before)?;
    if let Some(id) = settings.toolsets.default_toolset_id.as_ref() {
        check_default(org, id, tx.toolset(id).await?.as_ref())?;
    }
    let changed = settings.changed_since(&before);
    let view = LimitsView::new(limits, *org == OrgId::local());
    if changed.is_empty() {
        return Ok(answer(before, since, view));
    }
    let updated_at = tx.put_settings(&settings).await?;
    tx.audit(&caller.who, Action::SettingsUpdated, org.as_str(), &json!({ "changed": changed })).await?;
    tx.commit().await?;
    app.settings_changed(org, &changed).await;
    Ok(answer(settings, updated_at, view))
}

/// The default is everybody's: members' runs have it who name no toolset. Where one person has the server, what is theirs is everybody's.
fn check_default(org: &OrgId, id: &ToolsetId, found: Option<&Toolset>) -> Result<(), ApiError> {
    let (code, wrong) = match found {
        // One of another organisation is as unknown as one of nobody.
        None => (Code::ToolsetNotFound, "there is no toolset"),
        Some(toolset) if toolset.visibility == Visibility::Private && *org != OrgId::local() => {
            (Code::BadRequest, "not everybody in the organisation sees the toolset")
        }
        Some(_) => return Ok(()),
    };
    let message = format!("toolsets.defaultToolsetId: {wrong} {:?}", id.as_str());
    Err(ApiError::new(code, message).with_details(json!({ "field": "toolsets.defaultToolsetId" })))
}

/// Settings only lower what the operator lets the organisation have.
fn within(settings: &OrgSettings, limits: &OrganizationRules) -> Result<(), ApiError> {
    let quotas = &settings.quotas;
    for (field, wanted, most) in [
        ("quotas.callsPerMinute", quotas.calls_per_minute.map(|count| count.get()), limits.calls_per_minute),
        ("quotas.concurrentCalls", quotas.concurrent_calls.map(|count| count.get()), limits.concurrent_calls),
        ("quotas.workspaceBytes", quotas.workspace_bytes.map(|count| count.get()), limits.workspace_bytes),
        ("quotas.executorsInFlight", quotas.executors_in_flight.map(|count| count.get()), limits.executors_in_flight),
        ("quotas.queuedRuns", quotas.queued_runs.map(|count| count.get()), limits.queued_runs),
    ] {
        if let (Some(wanted), Some(most)) = (wanted, most)
            && wanted > most
        {
            let reason =
                format!("must be at most {most}, which is what the operator of this server allows, not {wanted}");
            return Err(ApiError::invalid(field, reason));
        }
    }
    Ok(())
}

/// Names that mean nothing are told now, all of them. What the catalogue becomes later is no error.
async fn check_lists(app: &App, org: &OrgId, settings: &OrgSettings) -> Result<(), ApiError> {
    if settings.resolution.is_empty() {
        return Ok(());
    }
    if *org == OrgId::local() {
        let reason = "is for other organisations: which tools the clients of `local` get is said by the server's flags \
                      --toolsets, --enabled-tools, --disabled-tools and --dynamic";
        return Err(ApiError::invalid("resolution", reason));
    }
    let lists = settings.resolution.lists().map_err(|problems| wrong_lists(&problems))?;
    if lists.say_nothing() {
        return Ok(());
    }
    let catalogue = app.toolsets().catalogue_of_names(org, Audience::Everything).await?;
    catalogue.view().resolve(&lists).map(drop).map_err(|problems| wrong_lists(&problems))
}
