//! The migrations, embedded, and the few words in which their two dialects differ (`migrations/README.md`).

use sha2::{Digest, Sha256};

/// Which database a text is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Dialect {
    Sqlite,
    Postgres,
}

/// One step of the schema.
#[derive(Clone)]
pub(crate) struct Migration {
    pub(crate) version: i64,
    pub(crate) name: &'static str,
    /// The oldest program that still works with a schema that has this, as the newest version that it knows itself: nodes of that one
    /// go on, and may be started again, while the others are exchanged. Its own, unless it says another one.
    pub(crate) oldest_program: i64,
    text: &'static str,
}

macro_rules! migrations {
    (@ $version:literal) => { $version };
    (@ $version:literal $oldest:literal) => { $oldest };
    ($($version:literal $name:literal $(survived by $oldest:literal)?),+ $(,)?) => {
        &[$(Migration {
            version: $version,
            name: $name,
            oldest_program: migrations!(@ $version $($oldest)?),
            text: include_str!(concat!("../../migrations/", $name, ".sql")),
        }),+]
    };
}

/// All of them, in order.
pub(crate) fn all() -> &'static [Migration] {
    migrations![
        1 "0001_organisations",
        2 "0002_toolsets",
        3 "0003_chats",
        4 "0004_row_level_security",
        5 "0005_bundles",
        6 "0006_calls",
        7 "0007_servers",
        8 "0008_agreed_revisions",
        9 "0009_strict_records",
        10 "0010_sandboxed_servers",
        11 "0011_mcp_chats",
        12 "0012_people",
        13 "0013_gallery",
        14 "0014_settings",
        15 "0015_issuers",
        16 "0016_audit",
        17 "0017_agent_runs",
        18 "0018_toolset_builder",
        19 "0019_run_renderings",
        20 "0020_nodes",
        21 "0021_blob_generations",
        22 "0022_containers",
        23 "0023_server_leases",
        24 "0024_keys_first",
        25 "0025_oldest_program" survived by 24,
        26 "0026_owner_reads_people" survived by 24,
        27 "0027_for_any_machine" survived by 24,
        28 "0028_kinds_of_runs" survived by 24,
    ]
}

impl Migration {
    /// One that comes after all that there are, and that this program survives.
    pub(crate) fn after_all(name: &'static str, text: &'static str) -> Self {
        let newest = super::newest();
        Self { version: newest + 1, name, oldest_program: newest, text }
    }

    /// The statements for one database.
    pub(crate) fn sql(&self, dialect: Dialect) -> String {
        self.text.lines().filter_map(|line| translate(line, dialect)).collect::<Vec<_>>().join("\n")
    }

    /// The oldest program that works with it, if that is another one than knows it.
    pub(crate) fn survived_by(&self) -> Option<i64> {
        (self.oldest_program < self.version).then_some(self.oldest_program)
    }

    /// What shows that an applied migration is this one.
    pub(crate) fn sha256(&self) -> String {
        Sha256::digest(self.text.as_bytes()).iter().map(|b| format!("{b:02x}")).collect()
    }
}

/// One line in the words of one database; nothing for comments and the other's lines.
fn translate(line: &str, dialect: Dialect) -> Option<String> {
    let (own, other) = match dialect {
        Dialect::Sqlite => ("--@sqlite ", "--@postgres "),
        Dialect::Postgres => ("--@postgres ", "--@sqlite "),
    };
    let line = line.strip_prefix(own).unwrap_or(line);
    if line.starts_with(other) || line.trim_start().starts_with("--") {
        return None;
    }
    if line == ");" && dialect == Dialect::Sqlite {
        return Some(") STRICT;".to_owned());
    }
    Some(line.split(' ').map(|word| translate_word(word, dialect)).collect::<Vec<_>>().join(" "))
}

fn translate_word(word: &str, dialect: Dialect) -> String {
    let bare = word.trim_end_matches([',', ';']);
    let tail = &word[bare.len()..];
    let own = match (bare, dialect) {
        ("ID", Dialect::Sqlite) | ("JSON", _) | ("TIMESTAMP", Dialect::Sqlite) => "TEXT",
        ("ID", Dialect::Postgres) => "TEXT COLLATE \"C\"",
        ("BOOLEAN", Dialect::Sqlite) => "INTEGER",
        ("BYTES", Dialect::Sqlite) => "BLOB",
        ("BYTES", Dialect::Postgres) => "BYTEA",
        ("INTEGER", Dialect::Postgres) => "BIGINT",
        ("TIMESTAMP", Dialect::Postgres) => "TIMESTAMPTZ",
        _ => return word.to_owned(),
    };
    format!("{own}{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_without_a_gap_and_each_says_why() {
        for (index, migration) in all().iter().enumerate() {
            assert_eq!(migration.version, index as i64 + 1);
            assert!(migration.name.starts_with(&format!("{:04}_", migration.version)));
            assert!((1..=migration.version).contains(&migration.oldest_program), "{}", migration.name);
            assert!(migration.text.starts_with("-- Why: "), "{} does not say why it is there", migration.name);
        }
    }

    #[test]
    fn dialects() {
        let both = |line| (translate(line, Dialect::Sqlite), translate(line, Dialect::Postgres));
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(both("    id ID,"), (some("    id TEXT,"), some("    id TEXT COLLATE \"C\",")));
        assert_eq!(
            both("    on BOOLEAN NOT NULL,"),
            (some("    on INTEGER NOT NULL,"), some("    on BOOLEAN NOT NULL,"))
        );
        assert_eq!(both("--@postgres SELECT 1;"), (None, some("SELECT 1;")));
        assert_eq!(both("--@sqlite SELECT 1;"), (some("SELECT 1;"), None));
        assert_eq!(both("    -- an ID"), (None, None));
        assert_eq!(both(");"), (some(") STRICT;"), some(");")));
    }
}
