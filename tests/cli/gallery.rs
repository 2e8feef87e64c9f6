//! The gallery on the command line, with and without a server.

use kitbag_testkit::{Program, Server, on_both};
use serde_json::json;

use crate::{BINARY, assert_failed};

/// What a person does with the gallery.
fn use_gallery(program: &Program) {
    let home = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| program.run(args);
    let json = |args: &[&str]| program.run(&[&["--json"], args].concat()).json();
    assert_eq!(run(&["gallery", "list"]).stdout, "Nothing is published.\n");
    let source = home.path().join("app");
    std::fs::create_dir(&source).unwrap();
    let manifest = "id: app\nname: The app\nversion: 1.0.0\ndescription: For tests\n\
         mcp_servers: [{id: srv, command: nopx, args: [it's], env: {KEY: '${ENV:MY_KEY}'}}]\n";
    std::fs::write(source.join("toolset.yaml"), manifest).unwrap();
    assert_eq!(run(&["toolset", "import", source.to_str().unwrap()]).code, Some(0));

    let published = run(&["toolset", "publish", "app", "--slug", "the-app"]);
    assert_eq!((published.code, published.stdout.as_str()), (Some(0), "published app as the-app\n"), "{published:?}");
    assert_failed(&run(&["toolset", "publish", "app", "--slug", "other"]), 1, "the-app");
    assert_failed(&run(&["toolset", "publish", "app", "--slug", "No"]), 2, "public slug");
    assert_failed(&run(&["toolset", "publish", "nope", "--slug", "other"]), 1, "nope");
    let list = run(&["gallery", "list"]).stdout;
    assert!(list.contains("the-app") && list.contains("1 servers") && list.contains("The app"), "{list}");
    assert_eq!(json(&["gallery", "list", "tests"])["items"][0]["publicSlug"], "the-app");
    assert_eq!(json(&["gallery", "list", "no", "such words"]), json!({ "items": [] }));
    let shown = run(&["gallery", "show", "the-app"]).stdout;
    for word in ["the-app 1.0.0", "nopx 'it'\\''s'", "KEY", "1 files"] {
        assert!(shown.contains(word), "{word:?} is not in {shown}");
    }
    assert!(!shown.contains("MY_KEY"), "{shown}");
    assert_failed(&run(&["gallery", "show", "nothing"]), 1, "nothing");

    let adopted = run(&["gallery", "adopt", "the-app", "--name", "Mine"]);
    assert_eq!(adopted.code, Some(0), "{adopted:?}");
    assert!(
        adopted.stdout.contains("adopted the-app as app-1") && adopted.stdout.contains("kitbag toolset trust app-1"),
        "{adopted:?}"
    );
    let copy = json(&["toolset", "show", "app-1"]);
    assert_eq!((&copy["name"], &copy["description"]), (&json!("Mine"), &json!("For tests")));
    assert_eq!(copy["mcpServers"][0]["trusted"], false);
    assert_failed(&run(&["gallery", "adopt", "the-app", "--id", "app"]), 1, "app is taken");

    assert_eq!(json(&["toolset", "unpublish", "app", "--private"])["visibility"], "private");
    assert_eq!(json(&["gallery", "list"]), json!({ "items": [] }));
    assert_failed(&run(&["gallery", "adopt", "the-app"]), 1, "the-app");
    assert_eq!(json(&["toolset", "show", "app-1"])["name"], "Mine");
}

on_both! {
    async fn the_gallery_without_a_server(database: TestDatabase) {
        use_gallery(&Program::on(BINARY, &database));
    }

    async fn the_gallery_with_a_server(database: TestDatabase) {
        let _server = Server::start(BINARY, &database, &[]);
        use_gallery(&Program::on(BINARY, &database));
    }
}
