//! Two servers, one database, one bucket: what one of them keeps, the other one has.

use serde_json::json;

use crate::kit::{Chat, TOOLSETS, import, installation, node};

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_goes_on_at_another_server() {
    let (database, bucket) = installation().await;
    let beside = database.beside();
    let (one, other) = (node(&database), node(&beside));
    let here = Chat::new(&one).await;
    let there = here.at(&other);
    here.put("notes/hello.txt", "hello").await.expect(201);
    // Larger than what is sent in one piece.
    let large: Vec<u8> = (0..5_000_000_u32).flat_map(u32::to_le_bytes).collect();
    here.put("large.bin", large.clone()).await.expect(201);
    for number in 0..30 {
        here.put(&format!("many/{number}.txt"), format!("file {number}")).await.expect(201);
    }
    assert_eq!(there.text("notes/hello.txt").await, "hello");
    assert!(there.read("large.bin").await.unwrap() == large);
    there.put("notes/hello.txt", "hello again").await.expect(200);
    assert_eq!(there.text("many/17.txt").await, "file 17");
    assert_eq!(here.text("notes/hello.txt").await, "hello again");
    here.put("from-here.txt", "1").await.expect(201);
    there.put("from-there.txt", "2").await.expect(201);
    let (mine, theirs) = (here.manifest().await, there.manifest().await);
    assert_eq!(mine["files"].as_object().unwrap().len(), 34, "{mine}");
    assert_eq!(mine["files"], theirs["files"]);
    here.is_whole().await;
    there.is_whole().await;
    // A server that was killed does not know any more what its folder was at. The chat went on without it.
    drop(other);
    here.put("notes/hello.txt", "while it was gone").await.expect(200);
    let other = node(&beside);
    let there = here.at(&other);
    there.put("last.txt", "3").await.expect(201);
    assert_eq!(there.text("notes/hello.txt").await, "while it was gone");
    assert_eq!(here.text("last.txt").await, "3");
    // What belongs to a chat goes with it, wherever that is asked for.
    let folder = bucket.open().folder(&format!("orgs/local/chats/{}", here.id));
    assert!(!folder.list().await.unwrap().is_empty());
    other.delete(there.path("").trim_end_matches('/')).await.expect(204);
    assert!(folder.list().await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_toolset_that_one_installs_another_runs() {
    let (database, bucket) = installation().await;
    let beside = database.beside();
    let (one, other) = (node(&database), node(&beside));
    import(&one).await;
    let here = Chat::new(&one).await;
    let there = here.at(&other);
    there.call("app:write", json!({ "path": "a.txt", "content": "from there" })).await;
    assert_eq!(here.text("a.txt").await, "from there");
    let call = here.call("app:large", json!({ "count": 600_000 })).await;
    let result = there.path(&format!("tool-calls/{}/result", call["id"].as_str().unwrap()));
    assert_eq!(other.get(&result).await.expect(200)["text"].as_str().unwrap().len(), 600_000, "a large result");
    here.is_whole().await;
    let folder = bucket.open().folder("orgs/local/toolsets");
    assert_eq!(folder.list().await.unwrap().len(), 3, "two files and a list of them");
    other.delete(&format!("{TOOLSETS}/app")).await.expect(204);
    assert!(folder.list().await.unwrap().is_empty());
}
