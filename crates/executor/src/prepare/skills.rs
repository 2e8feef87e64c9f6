//! Stages skills: each enabled one gets a folder of its own below the profile's folder. Nothing is written over.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use kitbag_model::run::Profile;
use kitbag_model::run::wire::SkillSnapshot;
use kitbag_model::{SkillId, WorkPath};

use super::Files;
use super::folder::{fetched, own_folder, write_new};
use crate::Failure;

/// The file that makes a folder a skill.
const ENTRY: &str = "SKILL.md";
/// How many files a skill may have.
const MOST_FILES: usize = 512;
/// How many bytes one file may have.
const LARGEST_FILE: u64 = 2_000_000;
/// How many bytes the files of one skill may have.
const LARGEST_SKILL: u64 = 16 << 20;

/// Puts the enabled skills into `work`. Their ids, in order. All are looked at before the first byte is fetched.
pub async fn stage(
    skills: &[SkillSnapshot],
    profile: Profile,
    work: &Path,
    contents: &impl Files,
) -> Result<Vec<String>, Failure> {
    let enabled: Vec<&SkillSnapshot> = skills.iter().filter(|skill| skill.enabled).collect();
    let mut known = BTreeSet::new();
    for skill in &enabled {
        check(skill)?;
        if !known.insert(skill.id.as_str()) {
            return Err(Failure::new("INVALID_SKILL_BUNDLE", format_args!("there are two skills {:?}", skill.id)));
        }
    }
    for skill in &enabled {
        let place = place(work, profile, &skill.id).map_err(|error| {
            let folder = profile.skills_folder();
            Failure::new("SKILL_STAGING_FAILED", format_args!("there is no room for {folder}/{}: {error}", skill.id))
        })?;
        for (path, file) in &skill.files {
            let failed = |why: &dyn std::fmt::Display| {
                Failure::new("SKILL_STAGING_FAILED", format_args!("{path} of the skill {:?}: {why}", skill.id))
            };
            let content = fetched(contents, path, file).await.map_err(|why| failed(&why))?;
            write_new(&place, path, file.executable, &content).map_err(|error| failed(&error))?;
        }
    }
    Ok(enabled.iter().map(|skill| skill.id.clone()).collect())
}

/// Takes staged skills away again: they are no work of the agent's, and the next run of the same files stages its own.
pub fn unstage(skills: &[String], profile: Profile, work: &Path) {
    let folder = work.join(profile.skills_folder());
    for id in skills {
        // The agent may have made it deeper than a stack.
        if let Err(error) = kitbag_cas::clear::remove_folder(&folder.join(id)) {
            tracing::warn!(%error, skill = id, "a staged skill could not be removed");
        }
    }
    // Whatever else is in there is the run's own.
    let mut place = Some(folder.as_path()).filter(|_| !skills.is_empty());
    while let Some(folder) = place.filter(|folder| *folder != work && std::fs::remove_dir(folder).is_ok()) {
        place = folder.parent();
    }
}

fn check(skill: &SkillSnapshot) -> Result<(), Failure> {
    let id = &skill.id;
    let _: SkillId =
        id.parse().map_err(|reason| Failure::new("INVALID_SKILL_BUNDLE", format_args!("{id:?}: {reason}")))?;
    let entry: WorkPath = ENTRY.parse().expect("a plain name");
    if !skill.files.contains_key(&entry) {
        return Err(Failure::new("INVALID_SKILL_BUNDLE", format_args!("the skill {id:?} has no {ENTRY}")));
    }
    if skill.files.len() > MOST_FILES {
        let reason = format!("the skill {id:?} has {} files, and may have {MOST_FILES}", skill.files.len());
        return Err(Failure::new("SKILL_BUNDLE_TOO_LARGE", reason));
    }
    if let Some((path, _)) = skill.files.iter().find(|(_, file)| file.size > LARGEST_FILE) {
        let reason = format!("{path} of the skill {id:?} has more than {LARGEST_FILE} bytes");
        return Err(Failure::new("SKILL_FILE_TOO_LARGE", reason));
    }
    let size = skill.files.values().fold(0u64, |sum, file| sum.saturating_add(file.size));
    if size > LARGEST_SKILL {
        let reason = format!("the skill {id:?} has {size} bytes, and may have {LARGEST_SKILL}");
        return Err(Failure::new("SKILL_BUNDLE_TOO_LARGE", reason));
    }
    Ok(())
}

/// A new folder for a skill. If the run's files have one of that name, it is theirs.
fn place(work: &Path, profile: Profile, id: &str) -> io::Result<std::path::PathBuf> {
    let mut folder = work.to_owned();
    for part in profile.skills_folder().split('/') {
        folder.push(part);
        own_folder(&folder)?;
    }
    folder.push(id);
    std::fs::create_dir(&folder)?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};
    use std::os::unix::fs::PermissionsExt;

    use kitbag_model::ContentHash;
    use kitbag_model::run::wire::FileRef;

    use super::*;

    #[derive(Default)]
    struct Kept(HashMap<ContentHash, Vec<u8>>);

    impl Files for Kept {
        async fn get(&self, hash: ContentHash) -> Result<Vec<u8>, Failure> {
            self.0.get(&hash).cloned().ok_or_else(|| Failure::new("NOT_FOUND", "nobody has it"))
        }
    }

    impl Kept {
        fn file(&mut self, text: &str, executable: bool) -> FileRef {
            let sha256 = ContentHash::of(text.as_bytes());
            self.0.insert(sha256, text.as_bytes().to_vec());
            FileRef { sha256, size: text.len() as u64, executable }
        }

        fn skill(&mut self, id: &str, files: &[(&str, &str)]) -> SkillSnapshot {
            let file = |(path, text): &(&str, &str)| (path.parse().unwrap(), self.file(text, path.ends_with(".sh")));
            SkillSnapshot { id: id.into(), enabled: true, files: files.iter().map(file).collect() }
        }
    }

    #[tokio::test]
    async fn enabled_skills_are_staged_where_the_profile_says() {
        for (profile, folder) in [(Profile::Gateway, "skills"), (Profile::Node, ".claude/skills")] {
            let work = tempfile::tempdir().unwrap();
            let mut kept = Kept::default();
            let mut off = kept.skill("off", &[("SKILL.md", "no")]);
            off.enabled = false;
            // What is off is not even looked at.
            off.files.clear();
            let skills = [kept.skill("hello", &[("SKILL.md", "hi"), ("scripts/run.sh", "true")]), off];
            assert_eq!(stage(&skills, profile, work.path(), &kept).await.unwrap(), ["hello"]);
            let place = work.path().join(folder).join("hello");
            assert_eq!(std::fs::read_to_string(place.join("SKILL.md")).unwrap(), "hi");
            assert_eq!(place.join("scripts/run.sh").metadata().unwrap().permissions().mode() & 0o111, 0o111);
            assert!(!work.path().join(folder).join("off").exists());
        }
    }

    #[tokio::test]
    async fn what_cannot_be_staged_says_why_and_leaves_the_runs_files_alone() {
        let mut kept = Kept::default();
        let good = kept.skill("hello", &[("SKILL.md", "hi")]);
        let too_many: Vec<String> = (0..512).map(|number| format!("f{number}")).collect();
        let mut many = vec![("SKILL.md", "x")];
        many.extend(too_many.iter().map(|name| (name.as_str(), "x")));
        let mut large = good.clone();
        large.files.values_mut().for_each(|file| file.size = LARGEST_FILE + 1);
        let mut heavy = kept.skill("heavy", &[("SKILL.md", "x")]);
        for number in 0..9 {
            let file = FileRef { sha256: ContentHash::of(&[]), size: LARGEST_FILE, executable: false };
            heavy.files.insert(format!("{number}").parse().unwrap(), file);
        }
        let mut lying = good.clone();
        lying.files.values_mut().for_each(|file| file.size = 3);
        let unknown = FileRef { sha256: ContentHash::of(b"nobody has it"), size: 13, executable: false };
        let absent = SkillSnapshot { files: BTreeMap::from([("SKILL.md".parse().unwrap(), unknown)]), ..good.clone() };
        for (skills, code) in [
            (vec![kept.skill("Hello", &[("SKILL.md", "x")])], "INVALID_SKILL_BUNDLE"),
            (vec![kept.skill("hello", &[("README.md", "x")])], "INVALID_SKILL_BUNDLE"),
            (vec![good.clone(), good.clone()], "INVALID_SKILL_BUNDLE"),
            (vec![kept.skill("many", &many)], "SKILL_BUNDLE_TOO_LARGE"),
            (vec![large], "SKILL_FILE_TOO_LARGE"),
            (vec![heavy], "SKILL_BUNDLE_TOO_LARGE"),
            (vec![lying], "SKILL_STAGING_FAILED"),
            (vec![absent], "SKILL_STAGING_FAILED"),
        ] {
            let work = tempfile::tempdir().unwrap();
            let failure = stage(&skills, Profile::Gateway, work.path(), &kept).await.unwrap_err();
            assert_eq!(failure.code, code, "{failure}");
        }
        // A folder, a file or a link that the run has already.
        let work = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(work.path().join("skills/hello")).unwrap();
        let failure = stage(std::slice::from_ref(&good), Profile::Gateway, work.path(), &kept).await.unwrap_err();
        assert_eq!(failure.code, "SKILL_STAGING_FAILED");
        assert!(!work.path().join("skills/hello/SKILL.md").exists());
        let outside = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), work.path().join(".claude")).unwrap();
        let failure = stage(&[good], Profile::Node, work.path(), &kept).await.unwrap_err();
        assert_eq!(failure.code, "SKILL_STAGING_FAILED");
        assert_eq!(outside.path().read_dir().unwrap().count(), 0);
    }
}
