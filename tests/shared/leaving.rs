//! What a node leaves behind that is lost with its data folder.

use std::time::Duration;

use kitbag_testkit::{Gate, Program};

use crate::kit::{BINARY, Chat, installation, node, node_with};

#[tokio::test(flavor = "multi_thread")]
async fn bytes_of_a_deleted_chat_go_though_the_folder_of_who_deleted_it_is_lost() {
    let (database, bucket) = installation().await;
    let gate = Gate::before(&bucket);
    let behind_a_gate = database.beside().in_bucket(&bucket.through(&gate));
    let one = node(&behind_a_gate);
    let here = Chat::new(&one).await;
    here.put("a.txt", "to be forgotten").await.expect(201);
    let folder = bucket.open().folder(&format!("orgs/local/chats/{}", here.id));
    gate.shut();
    one.delete(here.path("").trim_end_matches('/')).await.expect(204);
    assert_eq!(folder.list().await.unwrap().len(), 1, "the bucket was away");
    drop(one);
    drop(behind_a_gate);
    let _other = node(&database);
    for _ in 0..600 {
        if folder.list().await.unwrap().is_empty() && database.count("SELECT count(*) FROM deleted_chats").await == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("its bytes are still there: {:?}", folder.list().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_another_master_key_does_not_start_among_the_others() {
    const ONE: &str = "11f0d5c2a7e4938b6d1c0f3e8a79254716f3c8d9e0b2a4f5d6c7b8a998877660";
    const OTHER: &str = "22f0d5c2a7e4938b6d1c0f3e8a79254716f3c8d9e0b2a4f5d6c7b8a998877661";
    let (database, _) = installation().await;
    let beside = database.beside();
    let one = node_with(&database, ONE);
    let with = |key: &str| {
        let program = Program::on(BINARY, &beside).env("KITBAG_ADVERTISE", "http://127.0.0.1:0");
        if key.is_empty() { program } else { program.env("KITBAG_MASTER_KEY", key) }
    };
    // Without a key it makes one, which is nobody else's.
    for key in [OTHER, ""] {
        let refused = with(key).run(&["serve", "--listen", "127.0.0.1:0"]);
        assert!(refused.code == Some(1) && refused.stderr.contains("KITBAG_MASTER_KEY"), "{refused:?}");
    }
    // A new key comes in front of the old one, first at all nodes, and then everything is sealed with it.
    let both = format!("{OTHER},{ONE}");
    let other = node_with(&beside, &both);
    drop(one);
    let one = node_with(&database, &both);
    drop(other);
    Program::on(BINARY, &database).run(&["--json", "admin", "reseal"]).json();
    drop(one);
    let _one = node_with(&database, OTHER);
    let refused = with(ONE).run(&["serve", "--listen", "127.0.0.1:0"]);
    assert!(refused.code == Some(1) && refused.stderr.contains("reseal"), "{refused:?}");
}
