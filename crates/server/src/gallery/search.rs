//! Finding published toolsets by words. The same words rank alike whatever the database is: rows are read, and ranked here.
//!
//! The index is made when something is other than at the last search, which a list of names and times tells.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, PoisonError};

use kitbag_model::tool_search::{Indexed, ToolSearch};
use kitbag_model::{GalleryCard, PublicSlug, Timestamp};

use super::{Gallery, GalleryError, blocking};

/// What is published, by its words.
pub(super) struct Index {
    published: Vec<(PublicSlug, Timestamp)>,
    cards: Vec<GalleryCard>,
    search: ToolSearch,
}

impl Index {
    fn new(all: Vec<(GalleryCard, String)>) -> Self {
        let names: Vec<Vec<&str>> = all
            .iter()
            .map(|(card, words)| [card.slug.as_str(), card.name.as_str()].into_iter().chain(words.lines()).collect())
            .collect();
        let search = ToolSearch::new(all.iter().zip(&names).map(|((card, _), names)| Indexed {
            names,
            description: card.description.as_deref().unwrap_or_default(),
            input_schema: None,
        }));
        let published = all.iter().map(|(card, _)| (card.slug.clone(), card.published_at)).collect();
        Self { published, cards: all.into_iter().map(|(card, _)| card).collect(), search }
    }
}

/// Where a part of the results ended: how many came before it, and the last of them.
pub(crate) struct Place(usize, PublicSlug);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0, self.1)
    }
}

impl FromStr for Place {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (place, slug) = text.split_once(' ').ok_or(())?;
        Ok(Self(place.parse().map_err(drop)?, slug.parse().map_err(drop)?))
    }
}

/// A part of what was found, the best first.
pub(crate) struct Results {
    pub(crate) cards: Vec<GalleryCard>,
    /// Where it ended, if more follow.
    pub(crate) last: Option<Place>,
}

impl Gallery {
    /// What fits these words best, behind what a part before ended with.
    pub(crate) async fn search(&self, words: &str, behind: Option<Place>, limit: u32) -> Result<Results, GalleryError> {
        let (index, words) = (self.index().await?, words.to_owned());
        Ok(blocking(move || index.find(&words, behind, limit as usize)).await)
    }

    async fn index(&self) -> Result<Arc<Index>, GalleryError> {
        let mut tx = self.store.gallery().await?;
        let published = tx.published().await?;
        let known = self.index.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(known) = known.filter(|known| known.published == published) {
            return Ok(known);
        }
        let all = tx.with_words().await?;
        drop(tx);
        let made = Arc::new(blocking(move || Index::new(all)).await);
        *self.index.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&made));
        Ok(made)
    }
}

impl Index {
    fn find(&self, words: &str, behind: Option<Place>, limit: usize) -> Results {
        let found: Vec<&GalleryCard> =
            self.search.find(words, self.cards.len()).iter().map(|found| &self.cards[found.place]).collect();
        let places: HashMap<&PublicSlug, usize> =
            found.iter().enumerate().map(|(place, card)| (&card.slug, place)).collect();
        // Behind the last one, or, if that has gone, where it was.
        let next = behind.map_or(0, |Place(place, slug)| places.get(&slug).map_or(place, |place| place + 1));
        let part: Vec<&GalleryCard> = found.iter().skip(next).take(limit).copied().collect();
        let end = next.saturating_add(part.len());
        let last = part.last().filter(|_| end < found.len()).map(|card| Place(end - 1, card.slug.clone()));
        Results { last, cards: part.into_iter().cloned().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(slug: &str, name: &str, description: &str) -> GalleryCard {
        GalleryCard {
            slug: slug.parse().unwrap(),
            name: name.to_owned(),
            description: Some(description.to_owned()),
            version: "1.0.0".to_owned(),
            published_at: "2026-01-02T03:04:05.678Z".parse().unwrap(),
            tool_count: 0,
            server_count: 0,
            skill_count: 0,
        }
    }

    #[test]
    fn names_before_descriptions_and_parts_join_up() {
        let index = Index::new(vec![
            (card("weather", "Weather", "Rain and sun"), "forecast\nForecast".to_owned()),
            (card("garden", "Garden", "When to water, by the weather"), String::new()),
            (card("letters", "Letters", "Write them"), "rain-check".to_owned()),
        ]);
        let slugs = |results: &Results| results.cards.iter().map(|card| card.slug.to_string()).collect::<Vec<_>>();
        assert_eq!(slugs(&index.find("weather", None, 10)), ["weather", "garden"]);
        assert_eq!(slugs(&index.find("forecasts", None, 10)), ["weather"]);
        assert_eq!(slugs(&index.find("rain", None, 10)), ["letters", "weather"]);
        assert!(index.find("nothing", None, 10).cards.is_empty());
        let first = index.find("weather", None, 1);
        let place: Place = first.last.unwrap().to_string().parse().ok().unwrap();
        let second = index.find("weather", Some(place), 1);
        assert_eq!(slugs(&second), ["garden"]);
        assert!(second.last.is_none());
        // One that was taken back meanwhile: where it was is where it goes on.
        assert_eq!(slugs(&index.find("weather", Some(Place(0, "gone".parse().unwrap())), 1)), ["weather"]);
        assert!(index.find("weather", Some(Place(usize::MAX, "gone".parse().unwrap())), 1).cards.is_empty());
    }
}
