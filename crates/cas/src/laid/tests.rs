//! What is laid out, and how large it is.

use super::*;

#[test]
fn what_is_laid_out_is_found_and_measured() {
    let folder = tempfile::tempdir().expect("a folder");
    let home = folder.path().join("one");
    fs::create_dir_all(home.join("workspace/deep/deeper")).expect("make folders");
    fs::create_dir_all(folder.path().join("never-used")).expect("make a folder");
    fs::write(home.join("workspace/deep/deeper/file"), vec![7; 100_000]).expect("write");
    fs::write(home.join("blob"), vec![7; 500_000]).expect("write");
    std::os::unix::fs::symlink("/usr", home.join("workspace/link")).expect("link");
    let found = chats(folder.path());
    assert_eq!(found, [(home.clone(), SystemTime::UNIX_EPOCH)], "nobody used it");
    fs::write(home.join("index"), "").expect("write");
    let used = fs::metadata(home.join("index")).and_then(|about| about.modified()).expect("a time");
    assert_eq!(chats(folder.path()), [(home.clone(), used)]);
    let size = size(&home);
    assert!((100_000..200_000).contains(&size), "{size}");
}
