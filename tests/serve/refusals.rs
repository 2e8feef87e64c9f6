//! What it refuses to start with, and how it says so.

use kitbag_testkit::cluster::{OWNER, SUPERUSER, run};
use kitbag_testkit::{Finished, Program, Server, TestDatabase};
use rustix::process::Signal;

use crate::BINARY;

fn serve_fails(program: &Program, args: &[&str]) -> Finished {
    let mut all = vec!["serve", "--listen", "127.0.0.1:0"];
    all.extend(args);
    let finished = program.run(&all);
    assert!(finished.stdout.is_empty(), "{finished:?}");
    finished
}

#[track_caller]
fn assert_refused(finished: &Finished, words: &[&str]) {
    assert_eq!(finished.code, Some(2), "{finished:?}");
    for word in words {
        assert!(finished.stderr.contains(word), "{word:?} is not in {finished:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_row_level_security_does_not_bind() {
    let database = TestDatabase::postgres().await;
    for (role, why) in [(SUPERUSER, "superuser"), (OWNER, "owns tables")] {
        let url = database.url(role);
        let finished = serve_fails(&Program::new(BINARY, database.data()).env("KITBAG_DATABASE", url.expose()), &[]);
        assert_refused(&finished, &["row-level security", role, why]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_not_migrated_or_newer() {
    let database = TestDatabase::postgres().await;
    let mut owner = database.connect(OWNER).await;
    run(&mut owner, "INSERT INTO schema_migrations VALUES (9999, 'future', '', '')").await;
    assert_refused(&serve_fails(&Program::on(BINARY, &database), &[]), &["9999", "newer Kitbag"]);
    run(&mut owner, "DELETE FROM schema_migrations WHERE version > 2").await;
    assert_refused(&serve_fails(&Program::on(BINARY, &database), &[]), &["kitbag admin migrate --database"]);
}

#[tokio::test]
async fn a_newer_sqlite_database() {
    let database = TestDatabase::sqlite();
    database.open().await.close().await;
    database.make_newer().await;
    assert_refused(&serve_fails(&Program::on(BINARY, &database), &[]), &["9999", "newer Kitbag"]);
}

#[tokio::test]
async fn an_open_door_to_the_network() {
    let database = TestDatabase::sqlite();
    let finished = Program::on(BINARY, &database).run(&["serve", "--listen", "0.0.0.0:0", "--no-auth"]);
    assert_refused(&finished, &["loopback", "0.0.0.0:0"]);
}

#[tokio::test]
async fn configuration_that_is_wrong() {
    let database = TestDatabase::sqlite();
    let program = Program::on(BINARY, &database);
    let file = database.data().join("kitbag.toml");
    for (text, words) in [
        ("listn = \"127.0.0.1:0\"", ["listn", "listen"]),
        ("listen = 8700", ["listen", "string"]),
        ("listen = \"nowhere\"\n", ["nowhere", "IP:PORT"]),
        ("[server]\nlisten = \"x\"", ["server", "listen"]),
        ("listen = ", ["kitbag.toml", "line 1"]),
        ("log_format = \"xml\"", ["log_format", "json"]),
        ("request_timeout_seconds = 0", ["request-timeout-seconds", "at least 1"]),
    ] {
        std::fs::write(&file, text).unwrap();
        // No --listen here: the file's own value must be looked at.
        let finished = program.run(&["serve"]);
        assert_refused(&finished, &words);
    }
    std::fs::remove_file(file).unwrap();
    assert_refused(&serve_fails(&program.clone().env("KITBAG_LISTN", "x"), &[]), &["KITBAG_LISTN", "KITBAG_LISTEN"]);
    assert_refused(&serve_fails(&program.clone().env("KITBAG_NO_AUTH", "perhaps"), &[]), &["perhaps", "--no-auth"]);
    assert_refused(&serve_fails(&program, &["--log", "kitbag=loud"]), &["kitbag=loud"]);
    assert_refused(&serve_fails(&program, &["--listn", "x"]), &["--listn"]);
    let missing = database.data().join("missing.toml");
    assert_refused(&serve_fails(&program, &["--config", missing.to_str().unwrap()]), &["missing.toml"]);
    assert_refused(
        &serve_fails(&program, &["--allowed-hosts", "a.example, https://b.example"]),
        &["https://b.example"],
    );
    assert_refused(&serve_fails(&program, &["--stage-domain", "127.0.0.1"]), &["stage-domain", "*.stage.example.org"]);
    assert_refused(
        &serve_fails(&program, &["--frame-allow", "a.example,b.example/x"]),
        &["frame-allow", "b.example/x"],
    );
    let secret = "databse = \"postgres://a:s3cret@db/k\"";
    std::fs::write(database.data().join("kitbag.toml"), secret).unwrap();
    let finished = serve_fails(&program, &[]);
    assert_refused(&finished, &["databse", "line 1"]);
    assert!(!finished.stderr.contains("s3cret"), "{finished:?}");
}

/// A flag wins over a variable, a variable over the file.
#[tokio::test]
async fn configuration_has_an_order() {
    let database = TestDatabase::sqlite();
    let program = Program::on(BINARY, &database);
    let too_large = |server: Server| async move {
        let body = serde_json::json!({ "title": "x".repeat(150) });
        let status = server.post("/v1/orgs/local/chats", &body).await.status.as_u16();
        server.signal(Signal::TERM);
        let mut server = server;
        server.wait();
        status == 413
    };
    let start = |program: &Program, args: &[&str]| {
        let mut all = vec!["serve"];
        all.extend(args);
        Server::start_program(program, database.data(), &all)
    };
    let file = database.data().join("kitbag.toml");
    std::fs::write(&file, "listen = \"127.0.0.1:0\"\nmax_body_bytes = 100\n").unwrap();
    assert!(too_large(start(&program, &[])).await, "the file counts");
    let with_variable = program.clone().env("KITBAG_MAX_BODY_BYTES", "1000");
    assert!(!too_large(start(&with_variable, &[])).await, "the variable wins over the file");
    assert!(too_large(start(&with_variable, &["--max-body-bytes", "100"])).await, "the flag wins over both");
}

#[tokio::test]
async fn an_address_that_is_taken() {
    let database = TestDatabase::sqlite();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let finished = Program::on(BINARY, &database).run(&["serve", "--listen", &taken.local_addr().unwrap().to_string()]);
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert!(finished.stderr.contains("--listen"), "{finished:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_that_name_what_is_not_there() {
    let database = TestDatabase::sqlite();
    let program = Program::on(BINARY, &database);
    let finished = serve_fails(
        &program,
        &["--toolsets", "nope,builtin", "--enabled-tools", "one,two", "--disabled-tools", "three"],
    );
    let problems =
        "Unknown toolset: nope\nUnknown enabled tool: one\nUnknown enabled tool: two\nUnknown disabled tool: three";
    assert_refused(&finished, &[problems]);
    assert_refused(&serve_fails(&program, &["--toolsets="]), &["No tools left"]);
    assert_refused(&serve_fails(&program, &["--disabled-tools=-run_command"]), &["-run_command", "no entry with -"]);
    assert_refused(&serve_fails(&program, &["--dynamic=maybe"]), &["dynamic: Expected one of: yes, y, true, 1"]);
    assert_refused(&serve_fails(&program, &["--header-prefix", "X Mcp"]), &["header-prefix", "X Mcp"]);
    let by_variable = program.clone().env("KITBAG_TOOLSETS", "nope");
    assert_refused(&serve_fails(&by_variable, &[]), &["Unknown toolset: nope"]);
    // A good one starts.
    drop(Server::start(BINARY, &database, &["--toolsets", "builtin", "--disabled-tools", "run_command"]));
}
