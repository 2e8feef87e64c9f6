//! A data folder has bytes of its own, or copies of what is in a bucket, and is not taken for the other.

use kitbag_testkit::{Finished, Program, Server, TestBucket, TestDatabase};

use crate::kit::{BINARY, Chat};

const SERVE: [&str; 3] = ["serve", "--listen", "127.0.0.1:0"];

/// The program on the folder of a database, with its bucket or without one.
fn program(database: &TestDatabase, bucket: Option<&TestBucket>) -> Program {
    let program = Program::new(BINARY, database.data());
    let Some(bucket) = bucket else { return program };
    let with = |program: Program, (name, value): (&str, &str)| program.env(name, value);
    TestBucket::variables().into_iter().fold(program.env("KITBAG_BLOBS", &bucket.url()), with)
}

/// What does not serve ends by itself.
#[track_caller]
fn assert_refused(program: &Program, args: &[&str], words: &str) {
    let finished: Finished = program.clone().inside(&["timeout", "60"]).run(args);
    assert!(finished.code == Some(2) && finished.stderr.contains(words), "{words:?} is not in {finished:?}");
}

/// Has a chat with a file on the folder.
async fn write(program: &Program, database: &TestDatabase) -> String {
    let server = Server::start_program(program, database.data(), &SERVE);
    let chat = Chat::new(&server).await;
    chat.put("a.txt", "of the first").await.expect(201);
    chat.id.clone()
}

async fn reads(program: &Program, database: &TestDatabase, chat: &str) {
    let server = Server::start_program(program, database.data(), &SERVE);
    let chat = Chat { server: &server, id: chat.to_owned() };
    assert_eq!(chat.text("a.txt").await, "of the first");
    chat.is_whole().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn originals_are_not_taken_for_copies() {
    let (database, bucket) = (TestDatabase::sqlite(), TestBucket::new());
    let (own, shared) = (program(&database, None), program(&database, Some(&bucket)));
    let chat = write(&own, &database).await;
    assert_refused(&shared, &SERVE, "kitbag admin move");
    // Nor by a command that needs no server, and nothing is done to them.
    assert_refused(&shared, &["workspace", "--chat", &chat, "fsck"], "kitbag admin move");
    assert!(bucket.open().folder("orgs").list().await.unwrap().is_empty());
    reads(&own, &database, &chat).await;
    // Where nobody kept anything yet, they may be anywhere.
    let fresh = TestDatabase::sqlite();
    drop(Server::start_program(&program(&fresh, None), fresh.data(), &SERVE));
    drop(Server::start_program(&program(&fresh, Some(&bucket)), fresh.data(), &SERVE));
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_are_not_taken_for_originals() {
    let (database, bucket) = (TestDatabase::sqlite(), TestBucket::new());
    let (own, shared) = (program(&database, None), program(&database, Some(&bucket)));
    let chat = write(&shared, &database).await;
    assert_refused(&own, &SERVE, "--blobs");
    reads(&shared, &database, &chat).await;

    // What a restore leaves is for what it was restored to.
    let folder = tempfile::tempdir().unwrap();
    let backup = folder.path().join("backup");
    shared.run(&["--json", "admin", "backup", backup.to_str().unwrap()]).json();
    let (here, there, another) = (TestDatabase::sqlite(), TestDatabase::sqlite(), TestBucket::new());
    let (of_here, of_there) = (program(&here, None), program(&there, Some(&another)));
    for (program, database) in [(&of_here, &here), (&of_there, &there)] {
        program.run(&["--json", "admin", "restore", backup.to_str().unwrap()]).json();
        reads(program, database, &chat).await;
    }
    assert_refused(&program(&here, Some(&another)), &SERVE, "kitbag admin move");
    assert_refused(&program(&there, None), &SERVE, "--blobs");
    // A folder of copies is no place to bring everything to, and no source without its bucket.
    let to = ["admin", "move", "--from", backup.to_str().unwrap(), "--to", database.data().to_str().unwrap()];
    let refused = own.run(&to);
    assert!(refused.code == Some(1) && refused.stderr.contains("copies"), "{refused:?}");
}
