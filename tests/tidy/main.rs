//! What `ARCHITECTURE.md` promises and neither the compiler nor clippy can see.
#![allow(clippy::unwrap_used, missing_docs)]

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every file below `folder` with one of these endings, except what was built or fetched.
fn files(folder: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
        if entry.file_type().unwrap().is_dir() {
            if !["target", "node_modules", "dist", "__pycache__"].contains(&name.as_str()) && !name.starts_with('.') {
                found.extend(files(&path, endings));
            }
        } else if !name.ends_with(".d.ts")
            && path.extension().is_some_and(|ending| endings.iter().any(|wanted| ending == *wanted))
        {
            found.push(path);
        }
    }
    found
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

/// The names of the crates whose own dependencies (not those of their tests) include `name`.
fn crates_that_depend_on(name: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join("crates")).unwrap().map(Result::unwrap) {
        let manifest = read(&entry.path().join("Cargo.toml"));
        let dependencies = manifest.split("[dependencies]").nth(1).unwrap_or_default().split("\n[").next().unwrap();
        if dependencies.lines().any(|line| line.split(['.', ' ', '=']).next() == Some(name)) {
            found.push(entry.file_name().into_string().unwrap());
        }
    }
    found.sort();
    found
}

#[test]
fn every_file_says_what_it_is_for() {
    let files = files(&root(), &["rs"]);
    assert!(files.len() > 50);
    let silent: Vec<_> = files.iter().filter(|path| !read(path).starts_with("//! ")).collect();
    assert!(silent.is_empty(), "these do not open with //! lines: {silent:#?}");
}

#[test]
fn files_are_small() {
    let large: Vec<_> = files(&root(), &["rs", "py", "ts", "svelte"])
        .into_iter()
        // It is made from the API's document.
        .filter(|path| !path.ends_with("api/schema.d.ts"))
        .map(|path| (read(&path).lines().count(), path))
        .filter(|(lines, _)| *lines > 600)
        .collect();
    assert!(large.is_empty(), "is there a room inside that wants its own name? {large:#?}");
}

#[test]
fn only_the_store_knows_sql() {
    assert_eq!(crates_that_depend_on("sqlx"), ["store", "testkit"]);
    let sources = files(&root().join("crates/store/src"), &["rs"]);
    let free_text: Vec<_> = sources
        .iter()
        .filter(|path| !path.to_str().unwrap().contains("/migrate/") && read(path).contains("AssertSqlSafe"))
        .collect();
    assert!(free_text.is_empty(), "statements are constants with parameters; these make their own: {free_text:?}");
}

#[test]
fn crates_depend_in_one_direction() {
    for (crate_, users) in [
        (
            "kitbag-model",
            &[
                "cas",
                "container",
                "executor",
                "formats",
                "identity",
                "kitbag",
                "llm",
                "mcp",
                "python",
                "runner",
                "server",
                "store",
                "testkit",
                "vault",
            ][..],
        ),
        ("kitbag-bucket", &["server", "testkit"]),
        ("kitbag-cas", &["bucket", "executor", "runner", "server"]),
        ("kitbag-container", &["executor", "runner", "server"]),
        ("kitbag-executor", &["kitbag"]),
        ("kitbag-formats", &["kitbag", "server"]),
        (
            "kitbag-guard",
            &[
                "bucket", "executor", "identity", "kitbag", "llm", "mcp", "python", "runner", "server", "testkit",
                "trace",
            ],
        ),
        ("kitbag-identity", &["server"]),
        ("kitbag-llm", &["server"]),
        ("kitbag-mcp", &["executor", "runner", "server"]),
        ("kitbag-page", &["kitbag"]),
        ("kitbag-python", &["executor", "runner", "server"]),
        ("kitbag-runner", &["executor", "server"]),
        ("kitbag-store", &["kitbag", "server", "testkit"]),
        ("kitbag-server", &["kitbag"]),
        ("kitbag-testkit", &[]),
        ("kitbag-trace", &["executor", "kitbag", "mcp", "python", "runner", "server"]),
        ("opentelemetry", &["trace"]),
        ("kitbag-vault", &["server"]),
        ("bollard", &["container"]),
        ("clap", &["executor", "kitbag"]),
        ("anyhow", &["kitbag"]),
    ] {
        assert_eq!(crates_that_depend_on(crate_), users, "who may depend on {crate_}");
    }
}

/// What an executor links of ours, directly or by way of others.
#[test]
fn an_executor_links_neither_the_database_nor_the_server() {
    let names = fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().file_name());
    let names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    let mut linked = vec!["executor".to_owned()];
    let mut next = 0;
    while let Some(user) = linked.get(next).cloned() {
        let used = names.iter().filter(|name| crates_that_depend_on(&format!("kitbag-{name}")).contains(&user));
        let new: Vec<String> = used.filter(|name| !linked.contains(name)).cloned().collect();
        linked.extend(new);
        next += 1;
    }
    assert!(linked.iter().any(|name| name == "guard"), "{linked:?}");
    for name in ["identity", "kitbag", "page", "server", "store", "testkit", "vault"] {
        assert!(!linked.iter().any(|linked| linked == name), "an executor links {name}: {linked:?}");
    }
    for outside in ["axum", "sqlx"] {
        let users = crates_that_depend_on(outside);
        assert!(!linked.iter().any(|linked| users.contains(linked)), "an executor links {outside}: {linked:?}");
    }
}

#[test]
fn the_model_and_the_formats_do_no_io() {
    for path in files(&root().join("crates/model/src"), &["rs"])
        .into_iter()
        .chain(files(&root().join("crates/formats/src"), &["rs"]))
    {
        let text = read(&path);
        for word in ["std::fs", "std::net", "std::env", "tokio", "async fn"] {
            assert!(!text.contains(word), "{} has {word}", path.display());
        }
    }
}

#[test]
fn only_one_room_of_the_store_changes_the_disk() {
    let verbs = [
        "fs::write",
        "fs::rename",
        "fs::remove",
        "fs::create_dir",
        "fs::copy",
        "fs::set_perm",
        "File::create",
        "unlinkat",
        "renameat",
        "mkdirat",
        "symlinkat",
        "fchmod",
        "ftruncate",
        "set_len",
        "sync_data",
        "sync_all",
        "OFlags::CREATE",
    ];
    for path in files(&root().join("crates/cas/src"), &["rs"]) {
        let name = path.strip_prefix(root().join("crates/cas/src")).unwrap().to_str().unwrap().to_owned();
        if name == "disk.rs" || name.starts_with("fault/") || name.contains("tests") {
            continue;
        }
        let text = read(&path);
        for verb in verbs {
            assert!(!text.contains(verb), "{name} has {verb}");
        }
    }
}

/// A release must not have a way to make it fail from outside.
#[test]
fn faults_are_for_debug_builds_alone() {
    let room = root().join("crates/cas/src/fault");
    let face = read(&room.join("mod.rs"));
    assert!(face.contains("#[cfg(debug_assertions)]\nmod armed;"));
    assert!(face.contains("#[cfg(not(debug_assertions))]\nmod unarmed;"));
    let unarmed = read(&room.join("unarmed.rs"));
    assert!(
        unarmed
            .contains("#[inline(always)]\npub const fn step(_name: &'static str) -> io::Result<()> {\n    Ok(())\n}")
    );
    let variable = concat!("TEST_KITBAG_", "FAULT");
    let reading: Vec<_> =
        files(&root().join("crates"), &["rs"]).into_iter().filter(|path| read(path).contains(variable)).collect();
    assert_eq!(reading, [room.join("armed.rs")]);
}

#[test]
fn nothing_is_left_to_do_or_skipped() {
    let marks = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("#[ig", "nore"), concat!("unimpl", "emented!")];
    for path in files(&root(), &["rs", "py", "ts", "js", "sh", "sql", "md"]) {
        let text = read(&path);
        for mark in marks {
            assert!(!text.contains(mark), "{} has {mark}", path.display());
        }
    }
}

#[test]
fn links_in_the_documents_lead_somewhere() {
    for path in files(&root(), &["md"]) {
        let text = read(&path);
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = target.split('#').next().unwrap();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            assert!(path.parent().unwrap().join(target).exists(), "{} links to {target}", path.display());
        }
    }
}
