//! Lists: `{"items","nextCursor"}`, continued with `?limit=&cursor=`.
//!
//! A cursor says behind which item to go on. It is opaque to callers, names its list, and grants nothing: whatever it
//! says, only the caller's own rows are listed.

use std::fmt::Display;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kitbag_store::Page;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::error::ApiError;

const DEFAULT_LIMIT: u32 = 50;
const MOST: u32 = 200;

/// Which part of a list is wanted.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// How many items at the most: 1 to 200, 50 if absent.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Option<String>,
    /// The `nextCursor` of the part before.
    cursor: Option<String>,
}

/// A part of a list.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct List<T> {
    /// The items.
    items: Vec<T>,
    /// What to send as `cursor` for the next part; null if this is the last.
    #[schema(required)]
    next_cursor: Option<String>,
}

impl ListQuery {
    /// From the fields of a query that has more.
    pub(crate) fn new(limit: Option<String>, cursor: Option<String>) -> Self {
        Self { limit, cursor }
    }

    pub(crate) fn limit(&self) -> Result<u32, ApiError> {
        self.limit_of(MOST)
    }

    /// For a list whose items are so small that a part may have more of them.
    pub(crate) fn limit_of(&self, most: u32) -> Result<u32, ApiError> {
        let Some(text) = &self.limit else { return Ok(DEFAULT_LIMIT) };
        let limit = text.parse().ok().filter(|limit| (1..=most).contains(limit));
        limit.ok_or_else(|| ApiError::invalid("limit", format!("must be a number from 1 to {most}, not {text:?}")))
    }

    /// The item to go on behind, if the cursor is one of `list`.
    pub(crate) fn after<Id: FromStr>(&self, list: &str) -> Result<Option<Id>, ApiError> {
        let Some(cursor) = &self.cursor else { return Ok(None) };
        let read = || {
            let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
            let text = String::from_utf8(bytes).ok()?;
            text.strip_prefix(list)?.strip_prefix(' ')?.parse().ok()
        };
        read().map(Some).ok_or_else(|| ApiError::invalid("cursor", "is not a nextCursor of this list"))
    }
}

impl<T> List<T> {
    /// Nothing.
    pub(crate) fn empty() -> Self {
        Self { items: Vec::new(), next_cursor: None }
    }

    /// These items of `list`; more follow behind `last`, if there is one.
    pub(crate) fn part(list: &str, items: Vec<T>, last: Option<String>) -> Self {
        Self { items, next_cursor: last.map(|id| URL_SAFE_NO_PAD.encode(format!("{list} {id}"))) }
    }

    /// The first `limit` of these items of `list`.
    pub(crate) fn cut<Item>(
        list: &str,
        mut items: Vec<Item>,
        limit: u32,
        id: impl Fn(&Item) -> String,
        view: impl Fn(Item) -> T,
    ) -> Self {
        let more = items.len() > limit as usize;
        items.truncate(limit as usize);
        let last = items.last().map(id).filter(|_| more);
        Self::part(list, items.into_iter().map(view).collect(), last)
    }

    /// Writes a page of `list`, whose items are named by `id`.
    pub(crate) fn of<Item, Id: Display>(list: &str, page: Page<Item>, id: impl Fn(&Item) -> Id) -> Self
    where
        T: From<Item>,
    {
        let last = page.items.last().filter(|_| page.has_more).map(id);
        let next_cursor = last.map(|id| URL_SAFE_NO_PAD.encode(format!("{list} {id}")));
        Self { items: page.items.into_iter().map(T::from).collect(), next_cursor }
    }
}
