//! Workspaces: files, states, branches.

use std::io::{Read, Write};

use kitbag_testkit::{Answer, Server, TestDatabase, on_both};
use reqwest::{Method, header};
use serde_json::{Value, json};

use crate::{CHATS, new_chat, serve, whole_list};

const HELLO: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

/// The workspace of one chat.
struct Folder<'a> {
    server: &'a Server,
    chat: String,
}

impl<'a> Folder<'a> {
    async fn new(server: &'a Server) -> Self {
        Self { server, chat: new_chat(server).await }
    }

    fn at(&self, rest: &str) -> String {
        format!("{CHATS}/{}/{rest}", self.chat)
    }

    async fn put(&self, path: &str, content: &str) -> Answer {
        Answer::of(
            self.server.request(Method::PUT, &self.at(&format!("workspace/files/{path}"))).body(content.to_owned()),
        )
        .await
    }

    async fn text(&self, path: &str) -> Option<String> {
        let answer =
            self.server.request(Method::GET, &self.at(&format!("workspace/files/{path}"))).send().await.unwrap();
        (answer.status().as_u16() == 200).then_some(answer.text().await.unwrap())
    }

    async fn active(&self) -> Value {
        self.server.get(&self.at("workspace/manifest")).await.expect(200)
    }

    async fn say(&self, body: Value) -> String {
        let message = self.server.post(&self.at("messages"), &body).await.expect(201);
        message["id"].as_str().unwrap().to_owned()
    }
}

on_both! {
    async fn files_are_written_listed_read_and_deleted(database: TestDatabase) {
        let server = serve(&database);
        let folder = Folder::new(&server).await;
        assert!(whole_list(&server, &folder.at("workspace/files"), 9).await.is_empty());
        let made = folder.put("notes/hello.txt", "hello").await.expect(201);
        assert_eq!((&made["path"], &made["sha256"], &made["size"], &made["mode"]), (&json!("notes/hello.txt"), &json!(HELLO), &json!(5), &json!("100644")));
        folder.put("a%20b%C3%BC.txt", "x").await.expect(201);
        folder.put("notes/hello.txt", "hello").await.expect(200);
        let listed = whole_list(&server, &folder.at("workspace/files"), 1).await;
        let paths: Vec<_> = listed.iter().map(|file| file["path"].as_str().unwrap()).collect();
        assert_eq!(paths, ["a bü.txt", "notes/hello.txt"]);
        assert!(listed.iter().all(|file| file["changedInLastRun"] == false));
        assert_eq!(folder.active().await["files"], json!({ "a bü.txt": "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881", "notes/hello.txt": HELLO }));

        let read = server.request(Method::GET, &folder.at("workspace/files/notes/hello.txt")).header(header::RANGE, "bytes=1-3").send().await.unwrap();
        assert_eq!((read.status().as_u16(), read.headers()[header::CONTENT_RANGE].to_str().unwrap()), (206, "bytes 1-3/5"));
        assert_eq!(read.headers()[header::ETAG].to_str().unwrap(), format!("\"{HELLO}\""));
        assert!(read.headers()[header::CONTENT_DISPOSITION].to_str().unwrap().starts_with("attachment"));
        assert_eq!(read.text().await.unwrap(), "ell");

        server.delete(&folder.at("workspace/files/notes/hello.txt")).await.expect(204);
        server.delete(&folder.at("workspace/files/notes/hello.txt")).await.expect_error(404, "NOT_FOUND");
        assert_eq!(folder.text("notes/hello.txt").await, None);
        // The folder of the chat is where it should be, and goes with the chat.
        let home = database.data().join("chats").join(&folder.chat);
        assert!(home.join("workspace/a bü.txt").is_file() && home.join("blobs").is_dir());
        server.delete(&format!("{CHATS}/{}", folder.chat)).await.expect(204);
        assert!(!home.exists());
    }

    async fn a_late_writer_is_told(database: TestDatabase) {
        let server = serve(&database);
        let folder = Folder::new(&server).await;
        folder.put("f", "hello").await.expect(201);
        let put = |tag: &str, content: &'static str| {
            Answer::of(server.request(Method::PUT, &folder.at("workspace/files/f")).header(header::IF_MATCH, tag).body(content))
        };
        let tag = format!("\"{HELLO}\"");
        let second = put(&tag, "second").await.expect(200);
        put(&tag, "third").await.expect_error(412, "PRECONDITION_FAILED");
        assert_eq!(folder.text("f").await.as_deref(), Some("second"));
        let delete = server.request(Method::DELETE, &folder.at("workspace/files/f")).header(header::IF_MATCH, &tag);
        Answer::of(delete).await.expect_error(412, "PRECONDITION_FAILED");
        let anew = server.request(Method::PUT, &folder.at("workspace/files/f")).header(header::IF_NONE_MATCH, "*").body("x");
        Answer::of(anew).await.expect_error(412, "PRECONDITION_FAILED");
        put(&format!("\"{}\"", second["sha256"].as_str().unwrap()), "third").await.expect(200);
    }

    async fn every_state_can_be_brought_back_and_compared(database: TestDatabase) {
        let server = serve(&database);
        let folder = Folder::new(&server).await;
        server.get(&folder.at("workspace/manifest")).await.expect_error(404, "NOT_FOUND");
        folder.put("keep", "same\n").await.expect(201);
        folder.put("old-name", "content that moves").await.expect(201);
        folder.put("text", "one\ntwo\nthree\n").await.expect(201);
        let first = folder.active().await;
        folder.put("text", "one\n2\nthree\n").await.expect(200);
        folder.put("new-name", "content that moves").await.expect(201);
        server.delete(&folder.at("workspace/files/old-name")).await.expect(204);
        let second = folder.active().await;
        let id = |manifest: &Value| manifest["id"].as_str().unwrap().to_owned();
        let diff = server.get(&folder.at(&format!("workspace/diff?from={}&to={}", id(&first), id(&second)))).await.expect(200);
        let changes: Vec<_> = diff["items"].as_array().unwrap().iter().map(|c| (c["path"].as_str().unwrap(), c["change"].as_str().unwrap())).collect();
        assert_eq!(changes, [("new-name", "renamed"), ("text", "changed")]);
        assert_eq!(diff["items"][0]["renamedFrom"], "old-name");
        assert_eq!(diff["items"][1]["patch"], "--- a/text\n+++ b/text\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n");

        let back = server.post(&folder.at("workspace/checkout"), &json!({ "manifestId": first["id"] })).await.expect(200);
        assert_eq!((&back["files"], &back["source"], &back["sourceRef"], &back["parentId"]), (&first["files"], &json!("edit"), &first["id"], &second["id"]));
        assert_eq!(folder.text("text").await.as_deref(), Some("one\ntwo\nthree\n"));
        let read = server.get(&folder.at(&format!("workspace/files?manifest={}", id(&second)))).await.expect(200);
        assert_eq!(read["items"].as_array().unwrap().len(), 3);
        let states = whole_list(&server, &folder.at("workspace/manifests"), 2).await;
        assert_eq!(states.len(), 7);
        assert_eq!((&states[0]["id"], &states[1]["id"]), (&back["id"], &second["id"]));
        for wrong in ["nope", "01890a5d-ac96-774b-bcce-b302099a8057"] {
            server.post(&folder.at("workspace/checkout"), &json!({ "manifestId": wrong })).await.expect_error(404, "NOT_FOUND");
        }
    }

    async fn files_are_renamed_and_restored_one_by_one(database: TestDatabase) {
        let server = serve(&database);
        let folder = Folder::new(&server).await;
        folder.put("a/one", "1").await.expect(201);
        folder.put("a/two", "2").await.expect(201);
        let before = folder.active().await;
        let rename = |from: &str, to: &str| {
            let body = json!({ "from": from, "to": to });
            Answer::of(server.request(Method::POST, &folder.at("workspace/rename")).json(&body))
        };
        let moved = rename("a", "b/c").await.expect(200);
        assert_eq!(moved["files"].as_object().unwrap().keys().collect::<Vec<_>>(), ["b/c/one", "b/c/two"]);
        rename("b/c/one", "b/c/two").await.expect_error(409, "CONFLICT");
        rename("nothing", "x").await.expect_error(404, "NOT_FOUND");
        rename("b", "b/c/d").await.expect_error(409, "CONFLICT");
        rename("../x", "y").await.expect_error(400, "BAD_REQUEST");
        let restore = |path: &str| json!({ "path": path, "manifestId": before["id"] });
        let back = server.post(&folder.at("workspace/restore"), &restore("a/one")).await.expect(200);
        assert_eq!(back["files"].as_object().unwrap().keys().collect::<Vec<_>>(), ["a/one", "b/c/one", "b/c/two"]);
        assert_eq!(folder.text("a/one").await.as_deref(), Some("1"));
        server.post(&folder.at("workspace/restore"), &restore("nothing")).await.expect_error(404, "NOT_FOUND");
    }

    async fn branches_have_their_own_files(database: TestDatabase) {
        let server = serve(&database);
        let folder = Folder::new(&server).await;
        let question = folder.say(json!({ "role": "user", "content": "question" })).await;
        folder.put("shared", "from the question").await.expect(201);
        let left = folder.say(json!({ "role": "assistant", "content": "left" })).await;
        folder.put("answer", "left").await.expect(201);
        // A second answer to the question: it begins with what the question had.
        let right = folder.say(json!({ "role": "assistant", "content": "right", "parentId": question })).await;
        assert_eq!((folder.text("shared").await.as_deref(), folder.text("answer").await), (Some("from the question"), None));
        folder.put("answer", "right").await.expect(201);
        for _ in 0..2 {
            for (leaf, content) in [(&left, Some("left")), (&right, Some("right")), (&question, None)] {
                let chat = server.post(&folder.at("active-leaf"), &json!({ "messageId": leaf })).await.expect(200);
                assert_eq!(chat["activeLeafMessageId"], leaf.as_str());
                assert_eq!(folder.text("answer").await.as_deref(), content);
                assert_eq!(folder.text("shared").await.as_deref(), Some("from the question"));
                let by_message = server.get(&folder.at(&format!("workspace/manifest?messageId={leaf}"))).await.expect(200);
                assert_eq!(by_message["id"], chat["activeManifestId"]);
            }
        }
        server.post(&folder.at("active-leaf"), &json!({ "messageId": "nope" })).await.expect_error(400, "BAD_REQUEST");
    }

    async fn files_from_before_the_first_message_stay(database: TestDatabase) {
        let server = serve(&database);
        let folder = Folder::new(&server).await;
        folder.put("early", "here").await.expect(201);
        let first = folder.say(json!({ "role": "user", "content": "one" })).await;
        folder.say(json!({ "role": "assistant", "content": "two", "parentId": first })).await;
        assert_eq!(folder.text("early").await.as_deref(), Some("here"));
        server.post(&folder.at("active-leaf"), &json!({ "messageId": first })).await.expect(200);
        assert_eq!(folder.text("early").await.as_deref(), Some("here"));
    }

    async fn what_was_changed_by_hand_is_not_lost_by_switching(database: TestDatabase) {
        let mut server = serve(&database);
        let chat = {
            let folder = Folder::new(&server).await;
            folder.say(json!({ "role": "user", "content": "one" })).await;
            folder.put("f", "kept").await.expect(201);
            folder.chat
        };
        let disk = database.data().join("chats").join(&chat).join("workspace");
        std::fs::write(disk.join("by-hand"), "mine").unwrap();
        server.signal(rustix::process::Signal::TERM);
        server.wait();
        std::fs::write(disk.join("while-stopped"), "mine too").unwrap();
        let server = serve(&database);
        let folder = Folder { server: &server, chat };
        let leaf = server.get(&folder.at("messages")).await.expect(200)["items"][0]["id"].as_str().unwrap().to_owned();
        let other = folder.say(json!({ "role": "user", "content": "two", "parentId": null })).await;
        assert_eq!(folder.text("by-hand").await, None, "another branch");
        assert!(!disk.join("by-hand").exists());
        server.post(&folder.at("active-leaf"), &json!({ "messageId": leaf })).await.expect(200);
        assert_eq!(std::fs::read_to_string(disk.join("by-hand")).unwrap(), "mine");
        assert_eq!(std::fs::read_to_string(disk.join("while-stopped")).unwrap(), "mine too");
        server.post(&folder.at("active-leaf"), &json!({ "messageId": other })).await.expect(200);
        assert_eq!(std::fs::read_dir(&disk).unwrap().count(), 0);
    }

    async fn clients_that_hang_up_leave_the_workspace_whole(database: TestDatabase) {
        let server = serve(&database);
        let folder = Folder::new(&server).await;
        for number in 0..60_u64 {
            let path = folder.at(&format!("workspace/files/f{}", number % 7));
            let patience = std::time::Duration::from_micros(300 * (number % 20));
            let request = server.request(Method::PUT, &path).body(number.to_string()).timeout(patience);
            let _ = request.send().await;
        }
        folder.put("last", "last").await.expect(201);
        let found = Answer::of(server.request(Method::POST, &folder.at("workspace/fsck"))).await.expect(200);
        assert_eq!(found["ok"], true, "{found}");
    }

    async fn many_writers_on_one_chat_lose_nothing(database: TestDatabase) {
        let server = serve(&database);
        let folder = Folder::new(&server).await;
        let writes = (0..20).map(|number| {
            let path = format!("f{number}");
            let folder = &folder;
            async move { folder.put(&path, &path).await.expect(201) }
        });
        for write in futures_join(writes).await {
            assert!(write["manifestId"].is_string());
        }
        assert_eq!(whole_list(&server, &folder.at("workspace/files"), 200).await.len(), 20);
    }
}

/// Runs futures side by side.
async fn futures_join<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        let mut waiting = false;
        for (future, done) in &mut running {
            if done.is_none() {
                match future.as_mut().poll(context) {
                    std::task::Poll::Ready(output) => *done = Some(output),
                    std::task::Poll::Pending => waiting = true,
                }
            }
        }
        if waiting { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
    })
    .await;
    running.into_iter().filter_map(|(_, done)| done).collect()
}

#[tokio::test]
async fn paths_that_lead_out_are_refused() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    let folder = Folder::new(&server).await;
    for path in ["..%2fevil", "%2fetc/passwd", "a%5cb", "a%00b", "a//b", "a/", "..%2f..%2fkitbag.db"] {
        let answer = folder.put(path, "x").await;
        assert!(matches!(answer.status.as_u16(), 400 | 404), "{path}: {answer:?}");
        let read = server.get(&folder.at(&format!("workspace/files/{path}"))).await;
        assert!(matches!(read.status.as_u16(), 400 | 404), "{path}: {read:?}");
    }
    // A client would resolve these before it sends them.
    for path in ["../evil", "%2e%2e/evil", "a/%2e%2e/b", "a/../../../../token", "%2e", "./x"] {
        let mut stream = server.connect();
        let head = format!(
            "PUT {} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx",
            folder.at(&format!("workspace/files/{path}")),
            server.token
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 400") || answer.starts_with("HTTP/1.1 404"), "{path}: {answer}");
    }
    assert!(
        !database.data().join("evil").exists()
            && !database.data().join("chats").join(&folder.chat).join("evil").exists()
    );
    let outside = tempfile::tempdir().unwrap();
    folder.put("x", "x").await.expect(201);
    let disk = database.data().join("chats").join(&folder.chat).join("workspace");
    std::os::unix::fs::symlink(outside.path(), disk.join("out")).unwrap();
    folder.put("out/evil", "x").await.expect_error(409, "CONFLICT");
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0, "it was written through a link");
    folder.put("x/below-a-file", "x").await.expect_error(409, "CONFLICT");
}

#[tokio::test]
async fn a_damaged_blob_is_an_error_and_not_content() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    let folder = Folder::new(&server).await;
    folder.put("f", "hello").await.expect(201);
    let blob = database.data().join("chats").join(&folder.chat).join("blobs").join(&HELLO[..2]).join(HELLO);
    std::fs::remove_file(&blob).unwrap();
    std::fs::write(&blob, "hallo").unwrap();
    if let Some(bucket) = database.bucket() {
        // A copy is brought again, so what it is of must be damaged, too.
        let there = bucket.open().folder(&format!("orgs/local/chats/{}", folder.chat));
        let mut objects = there.list().await.unwrap().into_iter().map(|object| object.key);
        let blob = objects.find(|key| key.ends_with(HELLO)).expect("the blob is in the bucket");
        there.put_bytes(&blob, "hallo".into()).await.unwrap();
    }
    server.get(&folder.at("workspace/files/f")).await.expect_error(500, "BLOB_CORRUPT");
}
