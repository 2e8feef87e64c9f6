//! The language of a file, by its name alone.

/// Endings whose language has another name.
const ENDINGS: [(&str, &str); 36] = [
    ("bash", "shell"),
    ("c++", "cpp"),
    ("cc", "cpp"),
    ("cjs", "javascript"),
    ("cs", "csharp"),
    ("cts", "typescript"),
    ("cxx", "cpp"),
    ("ex", "elixir"),
    ("exs", "elixir"),
    ("h", "c"),
    ("hpp", "cpp"),
    ("hs", "haskell"),
    ("htm", "html"),
    ("js", "javascript"),
    ("jsonc", "json"),
    ("kt", "kotlin"),
    ("kts", "kotlin"),
    ("markdown", "markdown"),
    ("md", "markdown"),
    ("mjs", "javascript"),
    ("mts", "typescript"),
    ("pl", "perl"),
    ("ps1", "powershell"),
    ("py", "python"),
    ("pyi", "python"),
    ("rb", "ruby"),
    ("rs", "rust"),
    ("sass", "scss"),
    ("sh", "shell"),
    ("svg", "xml"),
    ("tex", "latex"),
    ("ts", "typescript"),
    ("txt", "text"),
    ("yaml", "yaml"),
    ("yml", "yaml"),
    ("zsh", "shell"),
];

/// Files whose language is known by their whole name.
const NAMES: [(&str, &str); 6] = [
    (".bashrc", "shell"),
    (".gitignore", "text"),
    ("dockerfile", "dockerfile"),
    ("gemfile", "ruby"),
    ("makefile", "makefile"),
    ("rakefile", "ruby"),
];

/// The language of a file: from its ending, which itself is the name of most; `text` without one.
pub fn language_of(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file).to_lowercase();
    let known = |table: &[(&str, &str)], word: &str| {
        table.binary_search_by_key(&word, |(key, _)| key).ok().map(|at| table[at].1.to_owned())
    };
    if let Some(language) = known(&NAMES, &name) {
        return language;
    }
    match name.rsplit_once('.') {
        Some((stem, ending)) if !stem.is_empty() && !ending.is_empty() => {
            known(&ENDINGS, ending).unwrap_or_else(|| ending.to_owned())
        }
        _ => "text".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted() {
        assert!(ENDINGS.is_sorted() && NAMES.is_sorted());
    }

    #[test]
    fn languages() {
        for (file, language) in [
            ("a.py", "python"),
            ("src/a.b/main.RS", "rust"),
            ("x.js", "javascript"),
            ("x.jsx", "jsx"),
            ("x.ts", "typescript"),
            ("x.tsx", "tsx"),
            ("x.json", "json"),
            ("x.html", "html"),
            ("x.css", "css"),
            ("README.md", "markdown"),
            ("a.yml", "yaml"),
            ("a.yaml", "yaml"),
            ("run.sh", "shell"),
            ("a.tar.gz", "gz"),
            ("a.zig", "zig"),
            ("deploy/Dockerfile", "dockerfile"),
            ("Makefile", "makefile"),
            ("LICENSE", "text"),
            (".env", "text"),
            ("a.b/c", "text"),
            ("x.", "text"),
            ("", "text"),
        ] {
            assert_eq!(language_of(file), language, "{file}");
        }
    }
}
