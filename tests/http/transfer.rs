//! Files in and out: large ones, many at once, archives, and the limits on all of them.

use kitbag_formats::archive::ArchiveWriter;
use kitbag_testkit::{Answer, Server, TestDatabase, on_both};
use reqwest::{Method, header};
use serde_json::{Value, json};

use crate::{BINARY, CHATS, new_chat, serve, whole_list};

/// A form with files, as a browser sends it.
fn form(files: &[(&str, &str)]) -> (String, String) {
    let part = |(name, content): &(&str, &str)| {
        format!("--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n{content}\r\n")
    };
    let body = files.iter().map(part).collect::<String>() + "--b--\r\n";
    ("multipart/form-data; boundary=b".to_owned(), body)
}

async fn send(server: &Server, chat: &str, query: &str, (kind, body): (String, impl Into<reqwest::Body>)) -> Answer {
    let address = format!("{CHATS}/{chat}/workspace/uploads{query}");
    Answer::of(server.request(Method::POST, &address).header(header::CONTENT_TYPE, kind).body(body)).await
}

async fn content(server: &Server, chat: &str, path: &str) -> String {
    let answer = server.request(Method::GET, &format!("{CHATS}/{chat}/workspace/files/{path}")).send().await.unwrap();
    assert_eq!(answer.status(), 200, "{path}");
    answer.text().await.unwrap()
}

async fn paths(server: &Server, chat: &str) -> Vec<String> {
    let files = whole_list(server, &format!("{CHATS}/{chat}/workspace/files"), 200).await;
    files.iter().map(|file| file["path"].as_str().unwrap().to_owned()).collect()
}

/// The most memory that the server ever used, in bytes.
fn peak_memory(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() * 1024
}

on_both! {
    async fn names_that_are_taken_get_a_number(database: TestDatabase) {
        let server = serve(&database);
        let chat = new_chat(&server).await;
        let first = send(&server, &chat, "", form(&[("a.txt", "1"), ("x/b.txt", "2"), ("a.txt", "3")])).await.expect(200);
        let names = |answer: &Value| -> Vec<(String, String)> {
            let text = |file: &Value, key: &str| file[key].as_str().unwrap().to_owned();
            answer["files"].as_array().unwrap().iter().map(|file| (text(file, "requestedPath"), text(file, "path"))).collect()
        };
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(names(&first), [pair("a.txt", "a.txt"), pair("x/b.txt", "x/b.txt"), pair("a.txt", "a_1.txt")]);
        let second = send(&server, &chat, "?folder=x", form(&[("b.txt", "4"), ("%22q%22.txt", "5")])).await.expect(200);
        assert_eq!(names(&second), [pair("x/b.txt", "x/b_1.txt"), pair("x/\"q\".txt", "x/\"q\".txt")]);
        assert_eq!(content(&server, &chat, "a_1.txt").await, "3");
        assert_eq!(content(&server, &chat, "x/b.txt").await, "2");
        assert_eq!(content(&server, &chat, "x/b_1.txt").await, "4");
        let third = send(&server, &chat, "?replace=true", form(&[("a.txt", "new")])).await.expect(200);
        assert_eq!(names(&third), [pair("a.txt", "a.txt")]);
        assert_eq!(content(&server, &chat, "a.txt").await, "new");
        let state = server.get(&format!("{CHATS}/{chat}/workspace/manifest")).await.expect(200);
        assert_eq!((&state["source"], &state["id"]), (&json!("user_upload"), &third["manifestId"]));
    }
}

#[tokio::test]
async fn an_upload_arrives_whole_or_not_at_all() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    let chat = new_chat(&server).await;
    send(&server, &chat, "", form(&[("taken", "a file"), ("keep.txt", "old")])).await.expect(200);
    let before = server.get(&format!("{CHATS}/{chat}/workspace/manifest")).await.expect(200);
    // The second cannot be placed: a file is where it needs a folder. The first was placed by then.
    send(&server, &chat, "?replace=true", form(&[("keep.txt", "new"), ("taken/below.txt", "x")]))
        .await
        .expect_error(409, "CONFLICT");
    assert_eq!(server.get(&format!("{CHATS}/{chat}/workspace/manifest")).await.expect(200), before);
    assert_eq!(content(&server, &chat, "keep.txt").await, "old");
    for (query, body, status, code) in [
        ("", form(&[("../up", "x")]), 400, "BAD_REQUEST"),
        ("", form(&[("a\\b", "x")]), 400, "BAD_REQUEST"),
        ("", form(&[("ok", "x"), ("/abs", "x")]), 400, "BAD_REQUEST"),
        ("", form(&[]), 400, "BAD_REQUEST"),
        ("?folder=../x", form(&[("a", "x")]), 400, "BAD_REQUEST"),
        ("?overwrite=yes", form(&[("a", "x")]), 400, "BAD_REQUEST"),
        ("", ("multipart/form-data".to_owned(), "x".to_owned()), 400, "BAD_REQUEST"),
        ("", ("multipart/form-data; boundary=b".to_owned(), "--b\r\nbroken".to_owned()), 400, "BAD_REQUEST"),
        ("", ("text/plain".to_owned(), "x".to_owned()), 415, "UNSUPPORTED_MEDIA_TYPE"),
    ] {
        send(&server, &chat, query, body).await.expect_error(status, code);
    }
    let nobody = "01890a5d-ac96-774b-bcce-b302099a8057";
    send(&server, nobody, "", form(&[("a", "x")])).await.expect_error(404, "NOT_FOUND");
    assert_eq!(paths(&server, &chat).await, ["keep.txt", "taken"]);
    let inbox: Vec<_> = std::fs::read_dir(database.data().join("inbox")).unwrap().collect();
    assert!(inbox.is_empty(), "{inbox:?}");
}

/// An archive with these files; a name that ends with `/` is a folder, and `*` in front makes a file executable.
fn zip(files: &[(&str, &str)]) -> (String, Vec<u8>) {
    let mut archive = ArchiveWriter::new(Vec::new());
    for (name, content) in files {
        match name.strip_suffix('/') {
            Some(folder) => archive.folder(&folder.parse().unwrap()).unwrap(),
            None => {
                let path = name.trim_start_matches('*').parse().unwrap();
                archive.file(&path, name.starts_with('*'), &mut content.as_bytes()).unwrap();
            }
        }
    }
    ("application/zip".to_owned(), archive.finish().unwrap())
}

#[tokio::test]
async fn an_archive_is_unpacked_and_comes_back() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    let chat = new_chat(&server).await;
    let sent = zip(&[("*bin/run.sh", "#!/bin/sh"), ("empty/", ""), ("notes/a.txt", "a"), ("ü.txt", "u")]);
    send(&server, &chat, "", sent.clone()).await.expect(200);
    let listed = whole_list(&server, &format!("{CHATS}/{chat}/workspace/files"), 200).await;
    let modes: Vec<_> =
        listed.iter().map(|file| (file["path"].as_str().unwrap(), file["mode"].as_str().unwrap())).collect();
    assert_eq!(modes, [("bin/run.sh", "100755"), ("empty", "040000"), ("notes/a.txt", "100644"), ("ü.txt", "100644")]);
    std::os::unix::fs::symlink("a.txt", database.data().join(format!("chats/{chat}/workspace/notes/link"))).unwrap();
    let whole = server.request(Method::GET, &format!("{CHATS}/{chat}/workspace/archive")).send().await.unwrap();
    assert_eq!((whole.status().as_u16(), &whole.headers()["kitbag-links-left-out"]), (200, &"1".parse().unwrap()));
    assert_eq!(whole.bytes().await.unwrap(), sent.1, "the same files make the same archive");
    let part =
        server.request(Method::GET, &format!("{CHATS}/{chat}/workspace/archive?folder=notes")).send().await.unwrap();
    assert_eq!(part.bytes().await.unwrap(), zip(&[("a.txt", "a")]).1);
    for (query, status) in [("?folder=none", 404), ("?folder=..", 400), ("?manifest=none", 404), ("?what=x", 400)] {
        let answer = server.get(&format!("{CHATS}/{chat}/workspace/archive{query}")).await;
        assert_eq!(answer.status.as_u16(), status, "{query}");
    }
    let taken = send(&server, &chat, "?folder=notes", zip(&[("a.txt", "other")])).await.expect(200);
    assert_eq!(taken["files"][0]["path"], "notes/a_1.txt");
}

#[tokio::test]
async fn a_hostile_archive_changes_nothing() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    let chat = new_chat(&server).await;
    send(&server, &chat, "", zip(&[("a.txt", "a")])).await.expect(200);
    let before = server.get(&format!("{CHATS}/{chat}/workspace/manifest")).await.expect(200);
    let (kind, good) = zip(&[("first.txt", "good"), ("second.txt", "good")]);
    let broken = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        (kind.clone(), bytes)
    };
    let renamed = |bytes: &mut Vec<u8>| {
        let at: Vec<usize> =
            bytes.windows(9).enumerate().filter(|(_, w)| w == b"first.txt").map(|(at, _)| at).collect();
        at.iter().for_each(|at| bytes[*at..at + 9].copy_from_slice(b"../st.txt"));
    };
    for body in [
        broken(&renamed),
        broken(&|bytes| bytes.truncate(bytes.len() - 1)),
        broken(&|bytes| bytes.push(0)),
        broken(&|bytes| {
            let at = bytes.windows(4).rposition(|window| window == b"good").unwrap();
            bytes[at] = b'b';
        }),
        (kind.clone(), b"not an archive".to_vec()),
        (kind.clone(), Vec::new()),
    ] {
        send(&server, &chat, "", body).await.expect_error(400, "BAD_REQUEST");
    }
    assert_eq!(server.get(&format!("{CHATS}/{chat}/workspace/manifest")).await.expect(200), before);
    assert_eq!(std::fs::read_dir(database.data().join("inbox")).unwrap().count(), 0);
}

#[tokio::test]
async fn large_files_pass_through_little_memory() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    let chat = new_chat(&server).await;
    let at = format!("{CHATS}/{chat}/workspace/files/large.bin");
    let large: Vec<u8> = (0..60_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let before = peak_memory(&server);
    let put = Answer::of(server.request(Method::PUT, &at).body(large.clone())).await.expect(201);
    assert_eq!(put["size"], 60_000_000);
    let got = server.request(Method::GET, &at).send().await.unwrap();
    assert_eq!(got.headers()[header::CONTENT_LENGTH], "60000000");
    assert!(got.bytes().await.unwrap() == large, "the file came back changed");
    let part = server.request(Method::GET, &at).header(header::RANGE, "bytes=59999990-").send().await.unwrap();
    assert_eq!((part.status().as_u16(), &part.headers()[header::CONTENT_LENGTH]), (206, &"10".parse().unwrap()));
    assert_eq!(part.bytes().await.unwrap(), large[59_999_990..]);
    let body = json!({ "path": "large.bin", "manifestId": put["manifestId"] });
    server.post(&format!("{CHATS}/{chat}/workspace/restore"), &body).await.expect(200);
    server.post(&format!("{CHATS}/{chat}/workspace/fsck"), &json!({})).await.expect(200);
    let grown = peak_memory(&server) - before;
    assert!(grown < 30_000_000, "the server needed {grown} bytes more for a file of 60,000,000");
}

#[tokio::test]
async fn limits_are_kept_and_do_not_forbid_tidying_up() {
    let database = TestDatabase::sqlite();
    let start = |more: &[&str]| Server::start(BINARY, &database, more);
    let server = start(&["--max-upload-bytes", "1000", "--max-workspace-files", "3", "--max-workspace-bytes", "1500"]);
    let chat = new_chat(&server).await;
    let put = async |server: &Server, path: &str, size: usize| {
        let address = format!("{CHATS}/{chat}/workspace/files/{path}");
        Answer::of(server.request(Method::PUT, &address).body("x".repeat(size))).await
    };
    put(&server, "a", 900).await.expect(201);
    put(&server, "b", 1001).await.expect_error(413, "PAYLOAD_TOO_LARGE");
    let without_length = reqwest::Body::wrap_stream(tokio_stream::iter(
        [600, 600].map(|size| Ok::<_, std::io::Error>("x".repeat(size))),
    ));
    let address = format!("{CHATS}/{chat}/workspace/files/b");
    Answer::of(server.request(Method::PUT, &address).body(without_length)).await.expect_error(413, "PAYLOAD_TOO_LARGE");
    put(&server, "b", 700).await.expect_error(429, "QUOTA_EXCEEDED");
    assert_eq!(paths(&server, &chat).await, ["a"], "what was refused must not stay in the folder");
    let many = form(&[("1", ""), ("2", ""), ("3", "")]);
    send(&server, &chat, "", many).await.expect_error(429, "QUOTA_EXCEEDED");
    put(&server, "b", 500).await.expect(201);
    put(&server, "c", 0).await.expect(201);
    assert_eq!(paths(&server, &chat).await, ["a", "b", "c"]);
    drop(server);
    // The operator gives less from now on: what is there stays, can be read, and can become less.
    let server = start(&["--max-workspace-files", "1"]);
    put(&server, "d", 1).await.expect_error(429, "QUOTA_EXCEEDED");
    let gone = Answer::of(server.request(Method::DELETE, &format!("{CHATS}/{chat}/workspace/files/b"))).await;
    gone.expect(204);
    assert_eq!(paths(&server, &chat).await, ["a", "c"]);
}

#[tokio::test]
async fn a_part_is_of_the_content_that_the_caller_has_or_it_is_the_whole() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    let chat = new_chat(&server).await;
    let done = send(&server, &chat, "", form(&[("a.txt", "hello")])).await.expect(200);
    let tag = format!("\"{}\"", done["files"][0]["sha256"].as_str().unwrap());
    let at = format!("{CHATS}/{chat}/workspace/files/a.txt");
    for (if_range, status, text) in [(tag.as_str(), 206, "he"), ("\"another\"", 200, "hello")] {
        let request =
            server.request(Method::GET, &at).header(header::RANGE, "bytes=0-1").header(header::IF_RANGE, if_range);
        let answer = request.send().await.unwrap();
        assert_eq!((answer.status().as_u16(), answer.text().await.unwrap().as_str()), (status, text), "{if_range}");
    }
    let outside = Answer::of(server.request(Method::GET, &at).header(header::RANGE, "bytes=5-")).await;
    outside.expect_error(416, "RANGE_NOT_SATISFIABLE");
}

/// Empty files cost no byte of the limit and an inode each.
#[tokio::test]
async fn a_form_has_only_so_many_files() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    let chat = new_chat(&server).await;
    send(&server, &chat, "", form(&vec![("q", ""); 10_001])).await.expect_error(413, "PAYLOAD_TOO_LARGE");
    assert!(paths(&server, &chat).await.is_empty());
    assert_eq!(std::fs::read_dir(database.data().join("inbox")).unwrap().count(), 0);
}
