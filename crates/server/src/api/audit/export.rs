//! `GET /v1/orgs/{org}/audit/export`

use std::io;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use kitbag_model::{Action, AuditEntry, AuditFilter, AuditPlace, OrgId, Timestamp};
use kitbag_store::StoreError;
use serde::Deserialize;
use serde_json::json;
use utoipa::{IntoParams, ToSchema};

use super::AuditEntryView;
use super::query::Asked;
use crate::access::caller::MayManage;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::QueryOf;
use crate::app::App;
use crate::transfer::stream_sent;

/// So many lines are read at a time.
const PART: u32 = 500;

/// What the export is written as.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AuditFormat {
    /// A JSON object a line, as the list has them.
    #[default]
    Jsonl,
    /// Comma-separated values, with a line of names in front.
    Csv,
}

/// Which lines, and how they are written.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ExportAuditQuery {
    /// How: `jsonl` if absent.
    #[serde(default)]
    #[param(inline)]
    format: AuditFormat,
    /// Only what somebody did: the id of a member or of a token, an e-mail address, or `server`.
    actor: Option<String>,
    /// Only what was done: the name of an action, or the beginning of several with a dot at its end, such as `toolset.`
    action: Option<String>,
    /// Only what was done to this.
    subject: Option<String>,
    /// Only what was done then or later; RFC 3339.
    since: Option<String>,
    /// Only what was done before then; RFC 3339.
    until: Option<String>,
}

/// Take the audit along, newest line first
///
/// In CSV a cell that a spreadsheet would take for a formula begins with an apostrophe.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/audit/export", tag = "audit",
    params(("org" = String, Path, description = "The organisation; `local` in the embedded mode."), ExportAuditQuery),
    responses(
        (status = 200, content((String = "application/jsonl"), (String = "text/csv"))),
        (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)
    ),
)]
pub(crate) async fn export_audit(
    State(app): State<App>,
    caller: MayManage,
    QueryOf(query): QueryOf<ExportAuditQuery>,
) -> Result<Response, ApiError> {
    let ExportAuditQuery { format, actor, action, subject, since, until } = query;
    let filter = Asked { actor, action, subject, since, until }.check()?;
    let mut tx = app.store().write(&caller.org).await?;
    let details = json!({ "format": format.name(), "since": filter.since, "until": filter.until });
    tx.audit(&caller.who, Action::AuditExported, caller.org.as_str(), &details).await?;
    tx.commit().await?;
    let name = format!("audit-{}-{}.{}", caller.org, &Timestamp::now().to_string()[..10], format.name());
    let mut lines = Lines { app, org: caller.org, filter, format, before: None, is_over: false };
    // The first part is read before the answer begins: until then an error can be told.
    let first = lines.next().await?.unwrap_or_default();
    let body = stream_sent(|sender| async move {
        let mut part = Some([format.head().as_bytes(), &first].concat());
        while let Some(made) = part.take() {
            // Whoever went away wants no more.
            if sender.send(Ok(Bytes::from(made))).await.is_err() {
                return;
            }
            match lines.next().await {
                Ok(made) => part = made,
                // An error breaks the connection off: the reader sees that it did not get all of it.
                Err(error) => {
                    tracing::warn!(%error, "an export of the audit broke off");
                    let _ = sender.send(Err(io::Error::other(error))).await;
                }
            }
        }
    });
    let headers = [
        (header::CONTENT_TYPE, format.content_type().to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")),
    ];
    Ok((headers, body).into_response())
}

/// What is left of an export.
struct Lines {
    app: App,
    org: OrgId,
    filter: AuditFilter,
    format: AuditFormat,
    before: Option<AuditPlace>,
    is_over: bool,
}

impl Lines {
    /// The next lines, written; none when it is over. Each part is a transaction of its own: a slow reader keeps none open.
    async fn next(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        if self.is_over {
            return Ok(None);
        }
        let mut tx = self.app.store().read(&self.org).await?;
        let page = tx.audit_lines(&self.filter, self.before, PART).await?;
        drop(tx);
        self.is_over = !page.has_more;
        self.before = page.items.last().map(AuditEntry::place);
        Ok(Some(page.items.into_iter().flat_map(|line| self.format.line(line.into())).collect()))
    }
}

impl AuditFormat {
    fn name(self) -> &'static str {
        match self {
            Self::Jsonl => "jsonl",
            Self::Csv => "csv",
        }
    }

    fn content_type(self) -> &'static str {
        match self {
            Self::Jsonl => "application/jsonl",
            Self::Csv => "text/csv; charset=utf-8; header=present",
        }
    }

    /// What stands in front of the lines.
    fn head(self) -> &'static str {
        match self {
            Self::Jsonl => "",
            Self::Csv => "id,at,actor,userId,tokenId,action,subject,details\r\n",
        }
    }

    fn line(self, line: AuditEntryView) -> Vec<u8> {
        match self {
            Self::Jsonl => {
                let mut text = serde_json::to_vec(&line).unwrap_or_default();
                text.push(b'\n');
                text
            }
            Self::Csv => {
                let AuditEntryView { id, at, actor, user_id, token_id, action, subject, details } = line;
                let (user, token) = (user_id.unwrap_or_default(), token_id.unwrap_or_default());
                let cells = [id, at, actor, user, token, action, subject, details.to_string()];
                format!("{}\r\n", cells.map(|cell| csv_cell(&cell)).join(",")).into_bytes()
            }
        }
    }
}

/// A cell as RFC 4180 has it. Names that others chose are among them (of servers, of tools): one that a spreadsheet would take for a
/// formula gets an apostrophe in front, which makes it a text there.
fn csv_cell(text: &str) -> String {
    let formula = |first: char| first.is_control() || "=+-@\u{ff1d}\u{ff0b}\u{ff0d}\u{ff20}".contains(first);
    let mark = if text.trim_start_matches(' ').starts_with(formula) { "'" } else { "" };
    let text = format!("{mark}{text}");
    if text.contains(|c: char| c == ',' || c == '"' || c.is_control()) || text.starts_with(' ') || text.ends_with(' ') {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cell_is_a_formula() {
        for (text, cell) in [
            ("", ""),
            ("toolset.trusted", "toolset.trusted"),
            ("a,b", "\"a,b\""),
            ("say \"hi\"", "\"say \"\"hi\"\"\""),
            ("two\nlines", "\"two\nlines\""),
            ("=1+1", "'=1+1"),
            ("=HYPERLINK(\"http://x\",\"y\")", "\"'=HYPERLINK(\"\"http://x\"\",\"\"y\"\")\""),
            ("+1", "'+1"),
            ("-1", "'-1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\t=1", "\"'\t=1\""),
            ("\r=1", "\"'\r=1\""),
            (" =1", "\"' =1\""),
            ("\u{ff1d}1", "'\u{ff1d}1"),
            ("a=1", "a=1"),
        ] {
            assert_eq!(csv_cell(text), cell);
        }
    }
}
