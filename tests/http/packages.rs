//! The packages of toolsets, as a server keeps them: as long as one toolset of anybody needs them.

use std::fs;
use std::path::Path;

use kitbag_testkit::{Program, Server, TestDatabase, on_both};
use serde_json::json;

use crate::BINARY;
use crate::calls::ask;
use crate::kit::{TOOLSETS, bundle, import, manifest};
use crate::new_chat;

/// A package that is only unpacked.
fn wheel() -> Vec<u8> {
    bundle(&[
        ("kb_tiny/__init__.py", "VERSION = 1\n"),
        ("kb_tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: kb-tiny\nVersion: 1.0\n"),
        ("kb_tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"),
        ("kb_tiny-1.0.dist-info/RECORD", "kb_tiny/__init__.py,,\n"),
    ])
}

/// A server that gets packages from a folder and from nowhere else.
fn serve(database: &TestDatabase, shop: &Path) -> Server {
    let program = Program::on(BINARY, database)
        .env("UV_OFFLINE", "1")
        .env("UV_FIND_LINKS", shop.to_str().unwrap())
        .env("UV_CACHE_DIR", shop.join("cache").to_str().unwrap());
    Server::start_program(&program, database.data(), &["serve", "--listen", "127.0.0.1:0"])
}

fn toolset(id: &str) -> Vec<u8> {
    let needs = "tools: [{id: f, entrypoint: 't:f'}]\npython: {dependencies: [kb-tiny]}\n";
    let code = "import kb_tiny\ndef f(): return kb_tiny.VERSION\n";
    bundle(&[("toolset.yaml", &manifest(id, "1.0.0", needs)), ("t.py", code)])
}

/// The environments that there are, with those that are none.
fn environments(database: &TestDatabase) -> Vec<String> {
    let entries = fs::read_dir(database.data().join("environments")).unwrap().map(Result::unwrap);
    let folders = entries.filter(|entry| entry.path().is_dir());
    folders.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

on_both! {
    async fn packages_go_with_the_last_toolset_that_needs_them(database: TestDatabase) {
        let shop = tempfile::tempdir().unwrap();
        fs::write(shop.path().join("kb_tiny-1.0-py3-none-any.whl"), wheel()).unwrap();
        let server = serve(&database, shop.path());
        let chat = new_chat(&server).await;
        for id in ["one", "two"] {
            import(&server, "", &toolset(id)).await.expect(201);
            let prepared = server.post(&format!("{TOOLSETS}/{id}/prepare"), &json!({})).await.expect(200);
            assert_eq!(prepared["tools"][0]["problem"], json!(null), "{prepared}");
        }
        let both = environments(&database);
        assert_eq!(both.len(), 1, "{both:?}");
        let leave_something = || fs::create_dir(database.data().join("environments/.staged-by-a-killed-server")).unwrap();
        leave_something();
        server.delete(&format!("{TOOLSETS}/one")).await.expect(204);
        assert_eq!(environments(&database), both);
        leave_something();
        drop(server);
        let server = serve(&database, shop.path());
        assert_eq!(environments(&database), both, "a start removes what nobody needs, and nothing else");
        assert_eq!(ask(&server, &chat, "two:f", json!({})).await.expect(200)["result"], 1);
        server.delete(&format!("{TOOLSETS}/two")).await.expect(204);
        assert_eq!(environments(&database), [""; 0]);
    }
}
