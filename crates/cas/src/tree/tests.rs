//! Trees against the plainest model there is: a sorted map.

use std::collections::BTreeMap;

use kitbag_model::{ContentHash, WorkPath};
use proptest::prelude::*;

use super::*;

fn entry(content: u64) -> Entry {
    Entry { kind: Kind::File, size: content, hash: ContentHash::of(&content.to_le_bytes()) }
}

fn path(number: u32) -> WorkPath {
    format!("folder-{}/file-{number}.txt", number % 7).parse().unwrap()
}

fn map(paths: impl IntoIterator<Item = (u32, u64)>) -> BTreeMap<WorkPath, Entry> {
    paths.into_iter().map(|(number, content)| (path(number), entry(content))).collect()
}

/// Keeps everything that is ever made, like the database.
fn kept(trees: &[&Tree]) -> NodeMap {
    let nodes = NodeMap::default();
    trees.iter().for_each(|tree| nodes.add(&tree.new_nodes).unwrap());
    nodes
}

fn naive_diff(before: &BTreeMap<WorkPath, Entry>, after: &BTreeMap<WorkPath, Entry>) -> Vec<Change> {
    let paths: std::collections::BTreeSet<&WorkPath> = before.keys().chain(after.keys()).collect();
    let change = |path: &&WorkPath| Change {
        path: (*path).clone(),
        before: before.get(*path).copied(),
        after: after.get(*path).copied(),
    };
    paths.iter().map(change).filter(|change| change.before != change.after).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// One set of paths has one tree, however it came about; and reading it gives the map back.
    #[test]
    fn an_edited_tree_is_the_tree_of_the_edited_map(
        start in proptest::collection::btree_map(0_u32..3000, 0_u64..50, 0..1200),
        edits in proptest::collection::btree_map(0_u32..3000, proptest::option::of(0_u64..50), 0..60),
    ) {
        let mut model = map(start);
        let before = model.clone();
        let tree = build(&model);
        let nodes = kept(&[&tree]);
        prop_assert_eq!(entries(&tree.root, &nodes).unwrap(), model.clone().into_iter().collect::<Vec<_>>());

        let edits: BTreeMap<WorkPath, Option<Entry>> = edits.into_iter().map(|(number, content)| (path(number), content.map(entry))).collect();
        for (path, content) in &edits {
            match content {
                Some(entry) => model.insert(path.clone(), *entry),
                None => model.remove(path),
            };
        }
        let edited = edit(&tree.root, &edits, &nodes).unwrap();
        prop_assert_eq!(edited.root, build(&model).root);
        nodes.add(&edited.new_nodes).unwrap();
        prop_assert_eq!(entries(&edited.root, &nodes).unwrap(), model.clone().into_iter().collect::<Vec<_>>());
        prop_assert_eq!(diff(&tree.root, &edited.root, &nodes).unwrap(), naive_diff(&before, &model));
        prop_assert_eq!(diff(&edited.root, &tree.root, &nodes).unwrap(), naive_diff(&model, &before));
        for path in edits.keys() {
            prop_assert_eq!(find(&edited.root, path.as_str(), &nodes).unwrap(), model.get(path).copied());
        }
        let bytes: u64 = model.values().map(|entry| entry.size).sum();
        prop_assert_eq!(totals(&edited.root, &nodes).unwrap(), (model.len() as u64, bytes));
    }

    #[test]
    fn damaged_nodes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200), flip in any::<prop::sample::Index>()) {
        // Whatever has the right hash is read or refused, never a panic.
        let _ = Node::decode(&ContentHash::of(&bytes), &bytes);
        let tree = build(&map((0..100).map(|n| (n, 1))));
        let (hash, good) = &tree.new_nodes[0];
        let mut bad = good.clone();
        let index = flip.index(bad.len());
        bad[index] ^= 1;
        prop_assert!(Node::decode(hash, &bad).is_err());
        let _ = Node::decode(&ContentHash::of(&bad), &bad);
    }
}

#[test]
fn the_empty_tree() {
    let empty = build(&BTreeMap::new());
    let nodes = kept(&[&empty]);
    assert!(entries(&empty.root, &nodes).unwrap().is_empty());
    let filled = edit(&empty.root, &BTreeMap::from([(path(1), Some(entry(1)))]), &nodes).unwrap();
    assert_eq!(filled.root, build(&map([(1, 1)])).root);
    nodes.add(&filled.new_nodes).unwrap();
    let emptied = edit(&filled.root, &BTreeMap::from([(path(1), None)]), &nodes).unwrap();
    assert_eq!(emptied.root, empty.root);
}

/// A thousand states of ten thousand files, one change each, in one folder: the document's promise is 10 MB in all.
#[test]
fn a_stored_state_grows_with_what_changed() {
    let mut files: BTreeMap<WorkPath, Entry> =
        (0..10_000).map(|n| (format!("file-{n:05}.txt").parse().unwrap(), entry(n))).collect();
    let mut tree = build(&files);
    let nodes = kept(&[&tree]);
    let mut stored = 0;
    for round in 0..1000_u64 {
        let path: WorkPath = format!("file-{:05}.txt", round * 7919 % 10_000).parse().unwrap();
        files.insert(path.clone(), entry(1_000_000 + round));
        tree = edit(&tree.root, &BTreeMap::from([(path.clone(), Some(files[&path]))]), &nodes).unwrap();
        stored += tree.new_nodes.iter().map(|(_, bytes)| bytes.len() + 32).sum::<usize>();
        nodes.add(&tree.new_nodes).unwrap();
    }
    assert_eq!(tree.root, build(&files).root);
    assert!(stored < 8 << 20, "{stored} bytes for a thousand states");
}
