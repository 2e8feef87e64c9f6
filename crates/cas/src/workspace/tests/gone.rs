//! Folders of chats that went on elsewhere: what is known of them may be gone.

use std::fs;

use super::{Chat, on_disk};
use crate::care;
use crate::error::CasError;
use crate::tree::{NodeError, NodeMap, Nodes as _};

/// The chat went on elsewhere, and what this folder was at is not needed by anybody any more.
#[test]
fn a_folder_whose_state_is_gone_is_made_anew() {
    for saved in [true, false] {
        let mut chat = Chat::watching();
        chat.write("a/one.txt", "one");
        chat.write("two.txt", "two");
        let kept = chat.snapshot();
        chat.write("two.txt", "not two");
        chat.write("three.txt", "three");
        chat.snapshot();
        let nodes = NodeMap::default();
        let needed = care::needed(&[kept], &chat.nodes).nodes;
        for hash in needed {
            let node = chat.nodes.node(&hash).unwrap();
            nodes.add(&[(hash, node.encode())]).unwrap();
        }
        chat.nodes = nodes;
        if saved {
            chat.reopen(true);
        }
        chat.materialise(&kept);
        assert_eq!(on_disk(chat.workspace.path()), chat.stored(&kept), "saved: {saved}");
        assert_eq!(chat.snapshot(), kept);
    }
}

/// That the state itself is gone is told, and is no reason to take everything away.
#[test]
fn a_state_that_is_gone_cannot_be_had() {
    let mut chat = Chat::new();
    chat.write("a.txt", "a");
    let gone = chat.snapshot();
    chat.write("a.txt", "b");
    let here = chat.snapshot();
    chat.nodes = NodeMap::default();
    let refused = chat.workspace.materialise(&gone, &chat.nodes);
    assert!(matches!(refused, Err(CasError::Node(NodeError::Missing { .. }))), "{refused:?}");
    assert_eq!(fs::read_to_string(chat.path("a.txt")).unwrap(), "b");
    assert_ne!(gone, here);
}
