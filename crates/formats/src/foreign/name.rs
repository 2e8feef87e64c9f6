//! Ids, names and versions that are allowed here, made from those that are allowed elsewhere.

use std::collections::HashSet;
use std::str::FromStr;

use kitbag_model::{Description, DisplayName, ServerId, SkillId, ToolsetId, Version};

/// The id of a toolset that has no name of its own.
const NAMELESS: &str = "imported";

/// Lower-case letters, digits and single separators; nothing if nothing is left.
fn slug(text: &str, most: usize, underscores: bool) -> String {
    let mut slug = String::new();
    for c in text.chars() {
        match c.to_ascii_lowercase() {
            c @ ('a'..='z' | '0'..='9') => slug.push(c),
            '_' if underscores && !slug.is_empty() => slug.push('_'),
            _ if !slug.is_empty() && !slug.ends_with('-') => slug.push('-'),
            _ => {}
        }
        if slug.len() == most {
            break;
        }
    }
    slug.trim_end_matches(['-', '_']).to_owned()
}

/// The id of a toolset: from the first of these texts that gives one.
pub(super) fn toolset_id<'a>(texts: impl IntoIterator<Item = &'a str>) -> ToolsetId {
    let id = |text: &str| slug(text, 64, true).parse().ok();
    let found = texts.into_iter().find_map(id);
    found.unwrap_or_else(|| NAMELESS.parse().expect("a plain word is an id"))
}

/// A file's name without its folder and its ending.
pub(super) fn stem(file: &str) -> &str {
    let name = file.rsplit(['/', '\\']).next().unwrap_or(file).trim_start_matches('.');
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}

/// Ids that differ from each other.
pub(super) struct Ids<T> {
    taken: HashSet<String>,
    make: fn(&str, usize) -> String,
    id: std::marker::PhantomData<T>,
}

impl Ids<ServerId> {
    pub(super) fn servers() -> Self {
        Self { taken: HashSet::new(), make: |text, most| slug(text, most, true), id: std::marker::PhantomData }
    }
}

impl Ids<SkillId> {
    pub(super) fn skills() -> Self {
        Self { taken: HashSet::new(), make: |text, most| slug(text, most, false), id: std::marker::PhantomData }
    }
}

impl<T: FromStr> Ids<T> {
    /// The id for a name: the name itself where that is allowed and free. `kind` is what stands for a name of which
    /// nothing is left, and what makes a reserved one another.
    pub(super) fn take(&mut self, name: &str, kind: &str) -> T {
        let same = Some(name.to_owned()).filter(|name| name.parse::<T>().is_ok());
        let slug = (self.make)(name, 64);
        let first = same.or_else(|| Some(slug.clone()).filter(|slug| slug.parse::<T>().is_ok()));
        let base = if slug.is_empty() { kind.to_owned() } else { (self.make)(&slug, 50) };
        let named = format!("{base}-{kind}");
        let numbered = (2_usize..).map(|number| format!("{base}-{number}"));
        let candidates = first.into_iter().chain([base.clone(), named]).chain(numbered);
        let mut free = candidates.filter(|candidate| !self.taken.contains(candidate));
        let (text, id) = free
            .find_map(|text| text.parse().ok().map(|id| (text, id)))
            .expect("a short word with a number behind it is an id, and numbers do not end");
        self.taken.insert(text);
        id
    }
}

/// What people call it, cut to what there is room for.
pub(super) fn display_name(text: &str, otherwise: &ToolsetId) -> DisplayName {
    let line: Vec<&str> = text.split_whitespace().collect();
    let line: String = line.join(" ").chars().filter(|c| is_text(*c)).take(DisplayName::MOST).collect();
    line.trim().parse().unwrap_or_else(|_| otherwise.as_str().parse().expect("an id is a short plain word"))
}

/// What it is for, cut to what there is room for, and whether something was lost.
pub(super) fn description(text: &str) -> Option<(Description, bool)> {
    let kept: String =
        text.trim().chars().filter(|c| is_text(*c) || matches!(c, '\n' | '\t')).take(Description::MOST).collect();
    let cut = kept.chars().count() < text.trim().chars().filter(|c| *c != '\r').count();
    kept.parse().ok().filter(|_| !kept.is_empty()).map(|description| (description, cut))
}

/// Whether it is neither a control character nor one that turns the order of those around it.
fn is_text(c: char) -> bool {
    !c.is_control()
        && !matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}')
}

/// The version, or the one that comes before all others, and whether it is the one that was said.
pub(super) fn version(text: Option<&str>) -> (Version, bool) {
    let none = || "0.0.0".parse::<Version>().expect("a version");
    let Some(text) = text else { return (none(), false) };
    if let Ok(version) = text.parse() {
        return (version, true);
    }
    let plain = text.trim().trim_start_matches(['v', 'V']);
    let (numbers, rest) = plain.split_at(plain.find(['-', '+']).unwrap_or(plain.len()));
    let mut numbers: Vec<String> =
        numbers.split('.').map(|number| number.parse::<u64>().map_or(String::new(), |n| n.to_string())).collect();
    while numbers.len() < 3 {
        numbers.push("0".to_owned());
    }
    let tidy = format!("{}{rest}", numbers.join("."));
    (tidy.parse().unwrap_or_else(|_| none()), false)
}

/// The name of a variable for a key: `apiKey`, `api-key` and `api_key` become `API_KEY`.
pub(crate) fn variable(key: &str) -> Option<String> {
    let mut name = String::new();
    let mut small_before = false;
    for c in key.chars() {
        if c.is_ascii_uppercase() && small_before {
            name.push('_');
        }
        small_before = c.is_ascii_lowercase() || c.is_ascii_digit();
        if c.is_ascii_alphanumeric() {
            name.push(c.to_ascii_uppercase());
        } else if !name.is_empty() && !name.ends_with('_') {
            name.push('_');
        }
    }
    let name = name.trim_end_matches('_');
    let name = if name.starts_with(|c: char| c.is_ascii_digit()) { format!("_{name}") } else { name.to_owned() };
    Some(name).filter(|name| kitbag_model::placeholder::is_variable(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids() {
        let long = "x".repeat(80);
        for (texts, id) in [
            (&["My Toolset!"][..], "my-toolset"),
            (&["mcp", "Other"], "other"),
            (&["", "***"], "imported"),
            (&["_a__b-"], "a__b"),
            (&["@scope/pkg"], "scope-pkg"),
            (&["con", "../../etc"], "etc"),
            (&[&long], &long[..64]),
        ] {
            assert_eq!(toolset_id(texts.iter().copied()).as_str(), id, "{texts:?}");
        }
        for (file, wanted) in [
            ("claude_desktop_config.json", "claude_desktop_config"),
            ("/a/b/.mcp.json", "mcp"),
            ("x", "x"),
            ("C:\\a\\b.mcpb", "b"),
            ("", ""),
        ] {
            assert_eq!(stem(file), wanted);
        }
    }

    #[test]
    fn no_two_are_the_same() {
        let mut ids = Ids::servers();
        let wanted = ["a-b", "a-b-server", "a-b-2", "a-b-3", "server", "server-server", "con-server", "a_b"];
        for (name, wanted) in ["a-b", "a b", "A B", "a.b", "世", "!", "con", "a_b"].into_iter().zip(wanted) {
            assert_eq!(ids.take(name, "server").as_str(), wanted, "{name}");
        }
        let (mut ids, long) = (Ids::skills(), "y".repeat(70));
        assert_eq!(ids.take("my_skill", "skill").as_str(), "my-skill");
        assert_eq!(ids.take(&long, "skill").as_str(), &long[..64]);
        assert_eq!(ids.take(&long, "skill").as_str(), &long[..50]);
        assert_eq!(ids.take(&long, "skill").as_str(), format!("{}-skill", &long[..50]));
    }

    #[test]
    fn versions() {
        for (text, wanted, same) in [
            (Some("1.2.3"), "1.2.3", true),
            (Some("v1.2.3-rc.1"), "1.2.3-rc.1", false),
            (Some("1.2"), "1.2.0", false),
            (Some("2024.01.05"), "2024.1.5", false),
            (Some("1.2.3.4"), "0.0.0", false),
            (Some("latest"), "0.0.0", false),
            (Some(""), "0.0.0", false),
            (None, "0.0.0", false),
        ] {
            let (version, said) = version(text);
            assert_eq!((version.to_string().as_str(), said), (wanted, same), "{text:?}");
        }
    }

    #[test]
    fn variables() {
        for (key, wanted) in [
            ("apiKey", Some("API_KEY")),
            ("api-key", Some("API_KEY")),
            ("API_KEY", Some("API_KEY")),
            ("X-API-Key", Some("X_API_KEY")),
            ("oauth2Token", Some("OAUTH2_TOKEN")),
            ("1st", Some("_1ST")),
            ("é", None),
            ("", None),
        ] {
            assert_eq!(variable(key).as_deref(), wanted, "{key}");
        }
    }

    #[test]
    fn texts() {
        let id: ToolsetId = "x".parse().unwrap();
        assert_eq!(display_name(" a\n b\u{202e}\u{7} ", &id).as_str(), "a b");
        assert_eq!(display_name("\u{200b}", &id).as_str(), "x");
        assert_eq!(display_name(&"é".repeat(200), &id).as_str().chars().count(), 120);
        assert_eq!(
            description(" a\r\nb ").map(|(text, cut)| (text.to_string(), cut)),
            Some(("a\nb".to_owned(), false))
        );
        assert_eq!(
            description(&"a".repeat(20_000)).map(|(text, cut)| (text.as_str().len(), cut)),
            Some((16_384, true))
        );
        assert_eq!(description(" "), None);
    }
}
