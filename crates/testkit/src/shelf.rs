//! The files of installed toolsets, as they lie where this run of the tests keeps them: in the data folder, or in a bucket. What is in a bucket is
//! read from there and hashed, and not believed because of what it is called.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tokio::task::JoinSet;

use crate::bucket::TestBucket;
use crate::database::TestDatabase;
use crate::sha256;

/// So many of them are read at a time.
const AT_ONCE: usize = 16;

/// A file that lies there.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Found {
    /// Of its bytes.
    pub sha256: String,
    /// Whether it may be run.
    pub executable: bool,
}

/// Files by their paths.
pub type Files = BTreeMap<String, Found>;

/// The files below a folder; none if there is no such folder.
pub fn on_disk(folder: &Path) -> Files {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(at) = folders.pop() {
        let Ok(entries) = fs::read_dir(&at) else { continue };
        for entry in entries.map(Result::unwrap) {
            let kind = entry.file_type().unwrap();
            let path = entry.path().strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
            if kind.is_dir() {
                folders.push(entry.path());
            } else {
                assert!(kind.is_file(), "{path} is neither a file nor a folder");
                let executable = entry.metadata().unwrap().permissions().mode() & 0o111 != 0;
                found.insert(path, Found { sha256: sha256(&fs::read(entry.path()).unwrap()), executable });
            }
        }
    }
    found
}

/// Where an organisation's toolsets are below a data folder.
fn shelf(org: &str) -> String {
    if org == "local" { "toolsets".to_owned() } else { format!("orgs/{org}/toolsets") }
}

impl TestDatabase {
    /// The files of a toolset where they are kept; none if no row names it. In a bucket nothing else is beside them.
    pub async fn files_of_toolset(&self, org: &str, id: &str) -> Files {
        let Some(bucket) = self.bucket() else { return on_disk(&self.data().join(shelf(org)).join(id)) };
        match self.generation(org, id).await {
            Some(generation) => in_bucket(bucket, org, &generation).await.expect("a list of its files"),
            None => Files::new(),
        }
    }

    /// Where a server that has used a toolset has its files: they themselves, or the copy that it runs.
    pub async fn folder_of_toolset(&self, org: &str, id: &str) -> PathBuf {
        let shelf = self.data().join(shelf(org));
        match self.bucket() {
            None => shelf.join(id),
            Some(_) => shelf.join(".staged").join(self.generation(org, id).await.expect("an installed toolset")),
        }
    }

    /// Which files a toolset has just now.
    async fn generation(&self, org: &str, id: &str) -> Option<String> {
        let toolsets = self.toolsets().await;
        toolsets.into_iter().find(|one| one.0 == org && one.1 == id).map(|(_, _, generation)| generation)
    }

    /// Everything that is kept: the files of the data folder, and what is in the bucket if there is one. Files of toolsets have the same names either
    /// way, and what no row names lies in `.staged/`. A copy of what is in the bucket is compared with that, and left out.
    pub async fn all_files(&self) -> Files {
        let mut files = on_disk(self.data());
        let Some(bucket) = self.bucket() else { return files };
        let toolsets = self.toolsets().await;
        let mut generations = BTreeSet::new();
        for top in ["orgs", "gallery"] {
            let folder = bucket.open().folder(top);
            for object in folder.list().await.unwrap() {
                if let [org, "toolsets", generation, _] = object.key.split('/').collect::<Vec<_>>()[..] {
                    generations.insert((org.to_owned(), generation.to_owned()));
                    continue;
                }
                // What was listed may be gone by now.
                if let Some(bytes) = folder.read(&object.key).await.unwrap() {
                    let found = Found { sha256: sha256(&bytes), executable: false };
                    files.insert(format!("bucket/{top}/{}", object.key), found);
                }
            }
        }
        for (org, generation) in generations {
            let place = format!("{}/.staged/{generation}", shelf(&org));
            let Some((_, id, _)) = toolsets.iter().find(|one| one.0 == org && one.2 == generation) else {
                files.insert(place, Found { sha256: String::new(), executable: false });
                continue;
            };
            let kept = in_bucket(bucket, &org, &generation).await.expect("a list of its files");
            if self.data().join(&place).is_dir() {
                assert_eq!(on_disk(&self.data().join(&place)), kept, "the copy of {id} is another than what it is of");
                files.retain(|path, _| !path.starts_with(&place));
            }
            files.extend(kept.into_iter().map(|(path, file)| (format!("{}/{id}/{path}", shelf(&org)), file)));
        }
        files
    }
}

/// The files of a generation, each read and hashed; none without a list of them. Nothing is beside them.
async fn in_bucket(bucket: &TestBucket, org: &str, generation: &str) -> Option<Files> {
    let folder = bucket.open().folder(&format!("orgs/{org}/toolsets/{generation}"));
    let list: Value = serde_json::from_slice(&folder.read("files.json").await.unwrap()?).expect("a list in JSON");
    let (mut files, mut wanted) = (Files::new(), BTreeSet::from(["files.json".to_owned()]));
    for part in list.as_array().expect("a list").chunks(AT_ONCE) {
        let mut reading = JoinSet::new();
        for file in part {
            let (folder, said) = (folder.clone(), file["sha256"].as_str().unwrap().to_owned());
            let (path, executable) = (file["path"].as_str().unwrap().to_owned(), file["executable"].as_bool().unwrap());
            wanted.insert(said.clone());
            reading.spawn(async move {
                let bytes = folder.read(&said).await.unwrap().unwrap_or_else(|| panic!("{path} is not in the bucket"));
                let found = Found { sha256: sha256(&bytes), executable };
                assert_eq!(found.sha256, said, "what is in the bucket of {path} is not what its name says");
                (path, found)
            });
        }
        files.extend(reading.join_all().await);
    }
    let there: BTreeSet<String> = folder.list().await.unwrap().into_iter().map(|object| object.key).collect();
    assert_eq!(there, wanted, "what is there and what is listed");
    Some(files)
}
