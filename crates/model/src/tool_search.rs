//! Finding tools by words: an index that is built once for a set of tools and asked many times.
//!
//! Rare words weigh more than common ones, and a word in a tool's name more than one in its description (BM25 over fields). The same
//! index gives the same answer to the same words, always. It knows words and positions, and nothing of where tools come from.

use std::collections::HashMap;

use serde_json::Value;

/// What is read of a tool.
#[derive(Clone, Copy, Debug, Default)]
pub struct Indexed<'a> {
    /// Its names: id, title, what a model calls it. Words are told apart at `_`, `-`, other signs, and where a capital begins.
    pub names: &'a [&'a str],
    /// What a model reads about it.
    pub description: &'a str,
    /// Its arguments: the names of its properties are read, and what is said of them.
    pub input_schema: Option<&'a Value>,
}

/// A tool that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// Its place in what was indexed.
    pub place: usize,
    /// How well it fits; only good for comparing.
    pub score: f32,
}

/// How much a word counts where it stands.
const NAME: f32 = 4.0;
const ARGUMENT: f32 = 1.5;
const TEXT: f32 = 1.0;

/// How fast more of the same word stops helping, and how much a long text is held against it.
const SATURATION: f32 = 1.2;
const LENGTH: f32 = 0.75;

/// How many words of a question are looked at.
const MOST_WORDS: usize = 32;

/// How deep a schema is read.
const DEEPEST: usize = 4;

/// Words that tools' names use for one thing. Who asks for one of them also means the others, at half the worth: a model that is told to
/// "remove the picture" looks for `delete_image`.
const ALIKE: [&[&str]; 17] = [
    &["create", "make", "add", "new", "insert", "register"],
    &["delete", "remove", "drop", "erase", "destroy"],
    &["get", "read", "fetch", "show", "view", "retrieve", "open"],
    &["update", "change", "edit", "modify", "set", "rename"],
    &["list", "enumerate", "all", "every"],
    &["search", "find", "look", "lookup", "filter"],
    &["send", "post", "publish"],
    &["export", "download", "save"],
    &["start", "launch", "run", "begin", "execute"],
    &["stop", "end", "kill", "cancel", "abort"],
    &["mail", "email"],
    &["image", "picture", "photo"],
    &["folder", "directory"],
    &["repository", "repo"],
    &["message", "msg"],
    &["database", "db"],
    &["document", "doc"],
];

/// Tools by their words.
#[derive(Debug, Default)]
pub struct ToolSearch {
    /// For each word the tools that have it, and how much it counts there.
    words: HashMap<String, Vec<(u32, f32)>>,
    /// All words in order, for those of which only the beginning is given.
    sorted: Vec<String>,
    /// How much each tool has to say, compared with the others.
    lengths: Vec<f32>,
}

impl ToolSearch {
    /// Reads the tools.
    pub fn new<'a>(tools: impl IntoIterator<Item = Indexed<'a>>) -> Self {
        let mut search = Self::default();
        for (place, tool) in (0_u32..).zip(tools) {
            let mut weights: HashMap<String, f32> = HashMap::new();
            let mut add = |text: &str, weight: f32| {
                for word in words(text) {
                    *weights.entry(word).or_default() += weight;
                }
            };
            tool.names.iter().for_each(|name| add(name, NAME));
            add(tool.description, TEXT);
            if let Some(schema) = tool.input_schema {
                arguments(schema, 0, &mut add);
            }
            search.lengths.push(weights.values().sum());
            for (word, weight) in weights {
                search.words.entry(word).or_default().push((place, weight));
            }
        }
        let tools = search.lengths.len().max(1) as f32;
        let mean = (search.lengths.iter().sum::<f32>() / tools).max(1.0);
        search.lengths.iter_mut().for_each(|length| *length /= mean);
        search.sorted = search.words.keys().cloned().collect();
        search.sorted.sort_unstable();
        search
    }

    /// The tools that fit best, the best first, at most so many. Those that fit equally well come in their own order.
    pub fn find(&self, question: &str, most: usize) -> Vec<Found> {
        let mut scores = vec![0.0_f32; self.lengths.len()];
        let mut asked: Vec<String> = Vec::new();
        for word in words(question) {
            if !asked.contains(&word) && asked.len() < MOST_WORDS {
                self.score(&word, &mut scores);
                asked.push(word);
            }
        }
        let places = scores.iter().enumerate().filter(|(_, score)| **score > 0.0);
        let mut found: Vec<Found> = places.map(|(place, score)| Found { place, score: *score }).collect();
        found.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.place.cmp(&b.place)));
        found.truncate(most);
        found
    }

    /// Adds what one word is worth. Words that mean the same count half; if no tool has any of them, so do words that begin with it.
    fn score(&self, word: &str, scores: &mut [f32]) {
        let mut is_known = false;
        for (known, worth) in std::iter::once((word, 1.0)).chain(alike(word).map(|other| (other, 0.5))) {
            if let Some(tools) = self.words.get(known) {
                self.add(tools, worth, scores);
                is_known = true;
            }
        }
        if is_known {
            return;
        }
        if word.chars().count() < 3 {
            return;
        }
        let first = self.sorted.partition_point(|known| known.as_str() < word);
        for known in self.sorted[first..].iter().take_while(|known| known.starts_with(word)).take(MOST_WORDS) {
            if let Some(tools) = self.words.get(known) {
                self.add(tools, 0.5, scores);
            }
        }
    }

    fn add(&self, tools: &[(u32, f32)], worth: f32, scores: &mut [f32]) {
        let (all, with) = (self.lengths.len() as f32, tools.len() as f32);
        let rarity = (1.0 + (all - with + 0.5) / (with + 0.5)).ln();
        for (place, weight) in tools {
            let place = *place as usize;
            let length = 1.0 - LENGTH + LENGTH * self.lengths[place];
            scores[place] += worth * rarity * weight * (SATURATION + 1.0) / (weight + SATURATION * length);
        }
    }
}

/// The other words for a word.
fn alike(word: &str) -> impl Iterator<Item = &'static str> {
    let group = ALIKE.iter().find(|group| group.contains(&word));
    group.into_iter().flat_map(|group| group.iter().copied()).filter(move |other| *other != word)
}

/// The names of a schema's properties, and what is said of them.
fn arguments(schema: &Value, depth: usize, add: &mut impl FnMut(&str, f32)) {
    if depth == DEEPEST {
        return;
    }
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        add(name, ARGUMENT);
        if let Some(text) = property.get("description").and_then(Value::as_str) {
            add(text, TEXT / 2.0);
        }
        arguments(property, depth + 1, add);
    }
    if let Some(items) = schema.get("items") {
        arguments(items, depth + 1, add);
    }
}

/// The words of a text in small letters: told apart at every sign, and inside a name where a capital or the last of several begins
/// another word (`getHTTPHeader`); then the whole is a word, too, or "GitHub" would not find `github_issue`. A plural becomes one, or "files" would not find `read_file`.
fn words(text: &str) -> impl Iterator<Item = String> {
    let mut words: Vec<String> = Vec::new();
    for part in text.split(|c: char| !c.is_alphanumeric()).filter(|part| !part.is_empty()) {
        let letters: Vec<char> = part.chars().collect();
        let mut start = 0;
        for at in 1..letters.len() {
            let after_small = letters[at].is_uppercase() && !letters[at - 1].is_uppercase();
            let before_small = letters[at].is_uppercase() && letters.get(at + 1).is_some_and(|c| c.is_lowercase());
            if after_small || before_small {
                words.push(stem(&letters[start..at]));
                start = at;
            }
        }
        words.push(stem(&letters[start..]));
        if start > 0 {
            words.push(stem(&letters));
        }
    }
    words.into_iter()
}

fn stem(letters: &[char]) -> String {
    let word: String = letters.iter().flat_map(|c| c.to_lowercase()).collect();
    if let Some(one) = word.strip_suffix("ies").filter(|one| one.len() >= 3) {
        return format!("{one}y");
    }
    if let Some(one) =
        word.strip_suffix("es").filter(|one| ["ch", "sh", "x", "ss"].iter().any(|end| one.ends_with(end)))
    {
        return one.to_owned();
    }
    match word.strip_suffix('s') {
        Some(one) if one.len() >= 3 && !one.ends_with(['s', 'u', 'i']) => one.to_owned(),
        _ => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn found(search: &ToolSearch, question: &str) -> Vec<usize> {
        search.find(question, 10).into_iter().map(|found| found.place).collect()
    }

    #[test]
    fn words_of_texts() {
        for (text, expected) in [
            ("read_file", "read file"),
            ("mcp:gh~gh:searchCode", "mcp gh gh search code searchcode"),
            ("getHTTPHeader2", "get http header2 gethttpheader2"),
            ("List the files, please.", "list the file please"),
            ("process status class", "process status class"),
            ("branches, boxes and activities", "branch box and activity"),
            ("Füße-ÄNDERN", "füße ändern"),
            ("", ""),
            (" --- ", ""),
        ] {
            assert_eq!(words(text).collect::<Vec<_>>().join(" "), expected, "{text:?}");
        }
    }

    #[test]
    fn names_weigh_more_than_descriptions() {
        let schema = json!({ "type": "object", "properties": {
            "recipient": { "type": "string", "description": "Whom to write to." },
            "options": { "type": "object", "properties": { "urgency": {} } },
            "list": { "type": "array", "items": { "properties": { "attachment": {} } } },
        }});
        let search = ToolSearch::new([
            Indexed { names: &["notes:append"], description: "Append to a file of notes.", input_schema: None },
            Indexed {
                names: &["read_file", "Read File"],
                description: "Read a text of the workspace.",
                input_schema: None,
            },
            Indexed { names: &["mcp:mail~mail:sendMessage"], description: "Send mail.", input_schema: Some(&schema) },
        ]);
        assert_eq!(found(&search, "file"), [1, 0]);
        assert_eq!(found(&search, "Files!"), [1, 0]);
        assert_eq!(found(&search, "send a message"), [2, 0, 1]);
        for word in ["recipient", "urgency", "attachments", "whom"] {
            assert_eq!(found(&search, word), [2], "{word}");
        }
        // A beginning, where the word itself is nobody's.
        assert_eq!(found(&search, "attach"), [2]);
        assert_eq!(found(&search, "at"), [] as [usize; 0]);
        assert_eq!(found(&search, "nothing of it"), [0, 1]);
        assert_eq!(found(&search, "xyzzy"), [] as [usize; 0]);
        assert_eq!(search.find("file", 1).len(), 1);
        assert!(ToolSearch::new([]).find("file", 5).is_empty());
    }

    #[test]
    fn words_that_mean_the_same_count_half() {
        let tool = |names| Indexed { names, description: "", input_schema: None };
        let search = ToolSearch::new([
            tool(&["delete_image"]),
            tool(&["remove_image"]),
            tool(&["get_folder"]),
            tool(&["set_folder"]),
        ]);
        assert_eq!(found(&search, "remove the picture"), [1, 0]);
        assert_eq!(found(&search, "drop an image"), [0, 1]);
        assert_eq!(found(&search, "open the directory"), [2, 3]);
    }

    #[test]
    fn rare_words_decide_and_equals_keep_their_order() {
        let names: Vec<String> = (0..2000).map(|number| format!("tool_{number}")).collect();
        let texts: Vec<[&str; 1]> = names.iter().map(|name| [name.as_str()]).collect();
        let tools = || {
            texts.iter().enumerate().map(|(place, names)| Indexed {
                names,
                description: if place == 1234 { "Does the dishes." } else { "Does something." },
                input_schema: None,
            })
        };
        let search = ToolSearch::new(tools());
        assert_eq!(search.find("a tool that does the dishes", 1)[0].place, 1234);
        assert_eq!(found(&search, "tool something"), (0..10).collect::<Vec<_>>());
        assert_eq!(search.find("does tool dishes", 50), ToolSearch::new(tools()).find("does tool dishes", 50));
    }
}
