//! Code with colours, for terminals. The colours are the terminal's own sixteen, so they can be read on dark and on light.

use std::fmt::Write;

use syntect::easy::HighlightLines;
use syntect::highlighting::{Color, FontStyle, Style};
use syntect::util::LinesWithEndings;
use two_face::theme::EmbeddedThemeName;

/// More than anybody looks at, and it must not take long.
const MOST: usize = 64 * 1024;

/// A text of a language, coloured; as it is if the language is not known. It must not have control characters.
pub(super) fn highlight(code: &str, language: &str) -> String {
    let syntaxes = two_face::syntax::extra_newlines();
    let Some(syntax) = syntaxes.find_syntax_by_token(language).filter(|_| code.len() <= MOST) else {
        return code.to_owned();
    };
    let themes = two_face::theme::extra();
    let mut lines = HighlightLines::new(syntax, themes.get(EmbeddedThemeName::Ansi));
    let mut coloured = String::new();
    for line in LinesWithEndings::from(code) {
        match lines.highlight_line(line, &syntaxes) {
            Ok(parts) => parts.into_iter().for_each(|(style, part)| paint(style, part, &mut coloured)),
            Err(_) => coloured.push_str(line),
        }
    }
    coloured
}

fn paint(style: Style, part: &str, to: &mut String) {
    // In this theme a colour without opacity is one of the terminal's, by its number; with one it is the usual one.
    let number = match style.foreground {
        Color { r, a: 0, .. } => Some(r),
        _ => None,
    };
    let bold = style.font_style.contains(FontStyle::BOLD);
    // The colour ends before the line does.
    let (text, end) = part.strip_suffix('\n').map_or((part, ""), |text| (text, "\n"));
    let codes = match (number, bold) {
        _ if text.is_empty() => String::new(),
        (None, false) => String::new(),
        (None, true) => "1".to_owned(),
        (Some(number @ 0..=7), bold) => format!("{}{}", if bold { "1;" } else { "" }, 30 + number),
        (Some(number), bold) => format!("{}38;5;{number}", if bold { "1;" } else { "" }),
    };
    let _ = match codes.is_empty() {
        true => write!(to, "{text}{end}"),
        false => write!(to, "\x1b[{codes}m{text}\x1b[0m{end}"),
    };
}

#[cfg(test)]
mod tests {
    use super::highlight;

    #[test]
    fn known_languages_are_coloured() {
        let code = "def f():\n    return 'a'\n";
        let coloured = highlight(code, "python");
        assert!(coloured.contains("\x1b[3"), "{coloured:?}");
        let mut plain = coloured;
        while let Some(start) = plain.find('\x1b') {
            let end = plain[start..].find('m').unwrap() + start;
            plain.replace_range(start..=end, "");
        }
        assert_eq!(plain, code, "nothing but colours is added");
        assert_eq!(highlight(code, "no such language"), code);
    }
}
