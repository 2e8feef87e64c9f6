//! `GET /v1/toolset-gallery`

use std::str::FromStr;

use axum::Json;
use axum::extract::State;
use kitbag_model::{ContentHash, PublicSlug, Timestamp};
use serde::Deserialize;
use utoipa::IntoParams;

use super::view::CardView;
use crate::access::caller::MayBrowse;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::QueryOf;
use crate::api::list::{List, ListQuery};
use crate::app::App;
use crate::gallery::Place;

/// The most characters of a search.
const LONGEST: usize = 500;

/// Which published toolsets, and which part of their list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct GalleryQuery {
    /// Only what has some of these words in its name, slug, description, or in the names of its tools and skills; what fits best comes
    /// first.
    #[param(max_length = 500)]
    q: Option<String>,
    /// How many items at the most: 1 to 200, 50 if absent.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Option<String>,
    /// The `nextCursor` of the part before.
    cursor: Option<String>,
}

/// List what is published, newest first, or what fits some words, best first
#[utoipa::path(
    get, path = "/v1/toolset-gallery", tag = "gallery",
    params(GalleryQuery),
    responses((status = 200, body = List<CardView>), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn list_gallery(
    State(app): State<App>,
    _: MayBrowse,
    QueryOf(query): QueryOf<GalleryQuery>,
) -> Result<Json<List<CardView>>, ApiError> {
    let part = ListQuery::new(query.limit, query.cursor);
    let limit = part.limit()?;
    let words = query.q.as_deref().map(str::trim).filter(|words| !words.is_empty());
    let Some(words) = words else {
        let behind = part.after::<Published>("gallery")?;
        let behind = behind.as_ref().map(|last| (last.0, &last.1));
        let page = app.store().gallery().await?.cards(behind, limit).await?;
        return Ok(Json(List::of("gallery", page, |card| format!("{} {}", card.published_at, card.slug))));
    };
    if words.chars().count() > LONGEST {
        return Err(ApiError::invalid("q", format!("must have at most {LONGEST} characters")));
    }
    // A cursor goes on with the words that it began with.
    let list = format!("gallery {}", ContentHash::of(words.as_bytes()));
    let found = app.gallery().search(words, part.after::<Place>(&list)?, limit).await?;
    let items = found.cards.into_iter().map(CardView::from).collect();
    Ok(Json(List::part(&list, items, found.last.map(|last| last.to_string()))))
}

/// The last toolset of the part before: when it was published, and as what.
struct Published(Timestamp, PublicSlug);

impl FromStr for Published {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (at, slug) = text.split_once(' ').ok_or(())?;
        Ok(Self(at.parse().map_err(drop)?, slug.parse().map_err(drop)?))
    }
}
