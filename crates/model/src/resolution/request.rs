//! The settings of one request: from its query, or from headers with a prefix. It knows no HTTP library: names and values are enough.

use super::lists::{Lists, RawLists};
use super::problem::{Problem, Problems, Setting};

/// Reads the settings of a request. Query pairs come decoded; header names may be in any case. An empty prefix turns headers off.
/// The same setting by both ways is an error, even if both say the same: nobody should have to know which one counts.
pub fn from_request<'a>(
    query: impl IntoIterator<Item = (&'a str, &'a str)>,
    headers: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    prefix: &str,
) -> Result<Lists, Problems> {
    let mut problems = Problems::default();
    let mut by_query: [Option<&str>; 4] = [None; 4];
    for (name, value) in query {
        let Some(place) = Setting::ALL.iter().position(|setting| setting.query() == name) else { continue };
        if by_query[place].replace(value).is_some() {
            problems.add(Problem::Twice { way: "query", setting: Setting::ALL[place] });
        }
    }
    let mut by_header: [Option<&str>; 4] = [None; 4];
    for (name, value) in headers {
        let Some(place) = setting_of(name, prefix) else { continue };
        let setting = Setting::ALL[place];
        let Ok(value) = std::str::from_utf8(value) else {
            problems.add(Problem::NotText(setting));
            continue;
        };
        if by_header[place].replace(value).is_some() {
            problems.add(Problem::Twice { way: "header", setting });
        }
    }
    for (place, setting) in Setting::ALL.into_iter().enumerate() {
        if by_query[place].is_some() && by_header[place].is_some() {
            problems.add(Problem::Both(setting));
        }
    }
    let [toolsets, enabled_tools, disabled_tools, dynamic] = std::array::from_fn(|i| by_query[i].or(by_header[i]));
    match Lists::parse(RawLists { toolsets, enabled_tools, disabled_tools, dynamic }) {
        Ok(lists) => problems.none_or(lists),
        Err(more) => {
            more.0.into_iter().for_each(|problem| problems.add(problem));
            Err(problems)
        }
    }
}

/// Which setting a header is for.
fn setting_of(header: &str, prefix: &str) -> Option<usize> {
    let (front, rest) = header.split_at_checked(prefix.len())?;
    if prefix.is_empty() || !front.eq_ignore_ascii_case(prefix) {
        return None;
    }
    Setting::ALL.iter().position(|setting| setting.header().eq_ignore_ascii_case(rest))
}
