//! What a toolset may be put together from. It is ours, compiled in and versioned: a model chooses by key, and what a server starts or dials
//! is what stands here, whatever the model says.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How many are shown to a model.
const PREVIEW: usize = 20;
/// How many words of a text count.
const MOST_WORDS: usize = 20;

/// Words that stand in every text and tell nothing of what somebody wants.
const STOP_WORDS: &[&str] = &[
    "about", "also", "an", "and", "any", "are", "as", "at", "be", "but", "by", "can", "could", "do", "does", "for",
    "from", "had", "has", "have", "help", "how", "if", "in", "into", "is", "it", "its", "just", "let", "like", "me",
    "my", "need", "needs", "no", "not", "of", "on", "or", "our", "please", "should", "so", "some", "than", "that",
    "the", "their", "them", "then", "there", "these", "they", "this", "those", "to", "up", "us", "want", "wants",
    "was", "we", "what", "when", "which", "who", "will", "with", "would", "you", "your",
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    components: Vec<Component>,
}

/// Something that a toolset may be made of.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = BuilderComponent)]
pub(crate) struct Component {
    /// What it is chosen by.
    pub(crate) key: String,
    pub(crate) kind: ComponentKind,
    pub(crate) name: String,
    pub(crate) description: String,
    /// The variables that must be set where it runs.
    pub(crate) required_env: Vec<String>,
    /// Of an MCP server: what a draft will have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mcp: Option<ComponentServer>,
    /// Of a skill: what the model is asked to write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) skill_template: Option<SkillTemplate>,
}

/// What a component is.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = BuilderComponentKind)]
pub(crate) enum ComponentKind {
    Mcp,
    Skill,
}

/// An MCP server of the catalogue, as an entry of `mcpServers`.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = BuilderServer)]
pub(crate) struct ComponentServer {
    pub(crate) id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) server_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) command: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) args: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) env: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) url: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) headers: BTreeMap<String, String>,
}

/// A skill that the model is asked to write.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = BuilderSkillTemplate)]
pub(crate) struct SkillTemplate {
    /// The id that it should have.
    pub(crate) id_hint: String,
}

/// The catalogue.
pub(crate) struct Catalogue {
    /// Which edition it is.
    pub(crate) version: u32,
    components: Vec<Component>,
}

/// The one that there is.
pub(crate) fn catalogue() -> &'static Catalogue {
    static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| {
        let file: File = serde_json::from_str(include_str!("catalogue.json")).expect("a test reads the same file");
        Catalogue { version: file.version, components: file.components }
    });
    &CATALOGUE
}

impl Catalogue {
    /// All of it, in its own order.
    pub(crate) fn all(&self) -> &[Component] {
        &self.components
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Component> {
        self.components.iter().find(|component| component.key == key)
    }

    /// All of it, what fits a text best first: the more of its words stand in a name or a description, the better. A word of a name counts
    /// most, one inside another word least; of those that fit alike the key decides. A text without words that tell anything leaves it as it is.
    pub(crate) fn ranked(&self, text: &str) -> Vec<&Component> {
        let text = text.to_lowercase();
        let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| word.len() >= 2);
        let telling = words.filter(|word| !STOP_WORDS.contains(word));
        // Who says a word twice wants it once.
        let words: BTreeSet<&str> = telling.take(MOST_WORDS).collect();
        let mut all: Vec<&Component> = self.components.iter().collect();
        if !words.is_empty() {
            all.sort_by_cached_key(|component| {
                let (name, description) = (component.name.to_lowercase(), component.description.to_lowercase());
                let score = |word: &&str| (3 * fits(word, &name)).max(fits(word, &description));
                let score: u32 = words.iter().map(score).sum();
                (std::cmp::Reverse(score), component.key.clone())
            });
        }
        all
    }

    /// What a model is shown of it: what fits best.
    pub(crate) fn suggested(&self, text: &str) -> Vec<&Component> {
        let mut some = self.ranked(text);
        some.truncate(PREVIEW);
        some
    }
}

/// How well a word fits a text: a word there begins with it, or it is inside of one. Two letters begin too many words.
fn fits(word: &str, text: &str) -> u32 {
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric());
    match word.len() {
        2 => 2 * u32::from(words.any(|other| other == word)),
        _ if words.any(|other| other.starts_with(word)) => 2,
        _ => u32::from(text.contains(word)),
    }
}
