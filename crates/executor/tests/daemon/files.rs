//! The files of a run: down before it begins, up when it is over, each content once.

use std::collections::BTreeMap;

use kitbag_executor::daemon::Stop;
use kitbag_model::run::wire::{Assignment, AttemptId, FileRef, SkillSnapshot, ToolsetSnapshot};
use kitbag_model::run::{Application, Profile, RunState, ToolsetFrom};
use kitbag_model::{ContentHash, WorkPath};

use crate::machine::{Bench, job};
use crate::stand_in::{Seen, StandIn};

fn file(content: &str, executable: bool) -> FileRef {
    FileRef { sha256: ContentHash::of(content.as_bytes()), size: content.len() as u64, executable }
}

/// Lets the server have a content.
fn kept(server: &StandIn, content: &str) -> FileRef {
    server.seen().blobs.insert(ContentHash::of(content.as_bytes()), content.into());
    file(content, false)
}

fn path(text: &str) -> WorkPath {
    text.parse().unwrap()
}

fn files(list: &[(&str, FileRef)]) -> BTreeMap<WorkPath, FileRef> {
    list.iter().map(|(name, file)| (path(name), *file)).collect()
}

fn with_skill(server: &StandIn, mut job: Assignment) -> Assignment {
    job.application = Application::Toolset {
        toolset_id: "tools".parse().unwrap(),
        from: ToolsetFrom::Config,
        profile: Profile::Gateway,
    };
    job.toolset = Some(ToolsetSnapshot {
        id: "tools".into(),
        name: "Tools".into(),
        version: "1".into(),
        mcp_servers: Vec::new(),
        agent_skills: vec![SkillSnapshot {
            id: "hello".into(),
            enabled: true,
            files: files(&[("SKILL.md", kept(server, "a skill"))]),
        }],
        program: None,
        containers: Vec::new(),
    });
    job
}

#[tokio::test]
async fn what_the_agent_left_goes_up_and_only_what_is_missing_travels() {
    let (bench, server) = (Bench::new(), StandIn::start().await);
    let executor = bench.start(&server, |_| ()).await;
    let script = "cat a.txt > copy; printf 'new\\n' > deep.txt; mkdir -p deep/er; mv deep.txt deep/er/new; rm gone.txt
        printf 'known' > known; printf '#!/bin/sh' > run.sh; chmod +x run.sh
        ln -s /etc/passwd leak; ln -s / root; mkfifo pipe; printf '*.log\\n' > .kitbagignore; echo x > noise.log
        test -e skills/hello/SKILL.md && test -e $HOME/.agents/skills/hello/SKILL.md && say staged";
    let mut job = with_skill(&server, job(script));
    job.keep_files = true;
    job.files = files(&[("a.txt", kept(&server, "alpha")), ("gone.txt", kept(&server, "gone"))]);
    kept(&server, "known");
    // A server that is busy is asked again.
    server.seen().busy = 3;
    let id = job.id;
    server.give(job);
    assert_eq!(server.result(id).await.state, RunState::Succeeded);
    check_all(&server.seen(), id);
    bench.empty().await;
    executor.stop.send_replace(Stop::Soon);
    executor.end().await;
}

fn check_all(seen: &Seen, id: AttemptId) {
    assert_eq!(seen.texts(id), ["staged"]);
    let expected = files(&[
        (".kitbagignore", file("*.log\n", false)),
        ("a.txt", file("alpha", false)),
        ("copy", file("alpha", false)),
        ("deep/er/new", file("new\n", false)),
        ("known", file("known", false)),
        ("run.sh", file("#!/bin/sh", true)),
    ]);
    assert_eq!(seen.results[&id].1.as_ref(), Some(&expected));
    let mut put = seen.put.clone();
    put.sort();
    let mut sent = ["*.log\n", "new\n", "#!/bin/sh"].map(|content| ContentHash::of(content.as_bytes()));
    sent.sort();
    assert_eq!(put, sent);
    let told: Vec<String> = seen.events[&id].iter().map(|event| serde_json::to_string(event).unwrap()).collect();
    for odd in ["leak", "root", "pipe"] {
        assert!(told.iter().any(|event| event.contains(&format!("`{odd}`"))), "{odd}: {told:?}");
    }
}

#[tokio::test]
async fn a_folder_that_is_too_large_is_told() {
    let (bench, server) = (Bench::new(), StandIn::start().await);
    let executor = bench.start(&server, |setup| setup.limits.files = 3).await;
    let mut large = job("for n in 1 2 3 4; do echo $n > $n; done; say done");
    large.keep_files = true;
    let id = large.id;
    server.give(large);
    assert_eq!(server.result(id).await.state, RunState::Failed);
    assert_eq!(server.seen().code(id).as_deref(), Some("WORKSPACE_TOO_LARGE"));
    // Nobody asked for these.
    let unasked = job("for n in 1 2 3 4; do echo $n > $n; done; say done");
    let id = unasked.id;
    server.give(unasked);
    assert_eq!(server.result(id).await.state, RunState::Succeeded);
    assert!(server.seen().results[&id].1.is_none());
    assert_eq!(server.seen().put, []);
    executor.stop.send_replace(Stop::Soon);
    executor.end().await;
}

#[tokio::test]
async fn a_file_that_is_not_what_was_promised_ends_it_before_the_agent_begins() {
    let (bench, server) = (Bench::new(), StandIn::start().await);
    let executor = bench.start(&server, |_| ()).await;
    let ran = bench.at("ran");
    for lie in ["longer than it should be", "short", ""] {
        let mut job = job(&format!("touch {}", ran.display()));
        job.keep_files = true;
        let honest = kept(&server, "0123456789");
        server.seen().blobs.insert(honest.sha256, lie.into());
        job.files = files(&[("a.txt", honest)]);
        let id = job.id;
        server.give(job);
        assert_eq!(server.result(id).await.state, RunState::Failed);
        assert_eq!(server.seen().code(id).as_deref(), Some("WORKSPACE_FAILED"));
        assert!(server.seen().results[&id].1.is_none(), "a folder that was never filled is no state");
    }
    assert!(!ran.exists());
    executor.stop.send_replace(Stop::Soon);
    executor.end().await;
}
