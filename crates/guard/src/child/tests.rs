//! Children that behave and children that hide.

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

use super::*;

fn sh(script: &str) -> ChildSpec {
    ChildSpec::new("/bin/sh", "/tmp").args(["-c", script])
}

fn alive(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).is_ok_and(|stat| !stat.contains(") Z "))
}

#[tokio::test]
async fn it_talks_over_its_pipes_and_ends_when_its_input_does() {
    let (mut child, mut pipes) = ChildSpec::new("cat", "/tmp").start().await.unwrap();
    pipes.stdin.write_all(b"hello\n").await.unwrap();
    drop(pipes.stdin);
    let mut said = String::new();
    pipes.stdout.read_to_string(&mut said).await.unwrap();
    assert_eq!(said, "hello\n");
    assert!(child.ended().await.unwrap().success());
}

#[tokio::test]
async fn the_environment_is_what_is_listed_passed_and_declared() {
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some() && std::env::var_os("CARGO_PKG_NAME").is_some());
    let spec = sh("env").pass(["CARGO_PKG_NAME".to_owned()]).declare([("TOKEN", "a b\"c")]);
    let (_child, mut pipes) = spec.start().await.unwrap();
    let mut said = String::new();
    pipes.stdout.read_to_string(&mut said).await.unwrap();
    assert!(said.contains("\nTOKEN=a b\"c\n") && said.contains("CARGO_PKG_NAME=") && said.contains("PATH="), "{said}");
    assert!(!said.contains("CARGO_MANIFEST_DIR"), "{said}");
}

#[tokio::test]
async fn arguments_are_as_they_are() {
    let spec = ChildSpec::new("/bin/echo", "/").args(["a b", "\"q\"", "$HOME;ls", ""]);
    let (_child, mut pipes) = spec.start().await.unwrap();
    let mut said = String::new();
    pipes.stdout.read_to_string(&mut said).await.unwrap();
    assert_eq!(said, "a b \"q\" $HOME;ls \n");
}

#[tokio::test]
async fn what_cannot_start_says_why() {
    let missing = ChildSpec::new("no-such-program-here", "/").start().await.unwrap_err();
    assert!(matches!(missing, StartError::NotFound(_)), "{missing}");
    let with_space = ChildSpec::new("/bin/echo hello", "/").start().await.unwrap_err();
    assert!(matches!(with_space, StartError::NotFound(_)), "{with_space}");
    let nowhere = ChildSpec::new("/bin/echo", "/no/such/folder").start().await.unwrap_err();
    assert!(matches!(nowhere, StartError::NoFolder(_)), "{nowhere}");
    let bad = ChildSpec::new("/bin/echo", "/").declare([("A=B", "c")]).start().await.unwrap_err();
    assert!(matches!(bad, StartError::BadVariable(_)), "{bad}");
}

/// Starts `script`, which prints a process id, stops it, and says the id.
async fn stopped(script: &str) -> String {
    let (child, pipes) = sh(script).start().await.unwrap();
    let mut pid = String::new();
    BufReader::new(pipes.stdout).read_line(&mut pid).await.unwrap();
    assert!(alive(&pid), "{pid}");
    drop(pipes.stdin);
    child.stop(Duration::from_millis(200)).await;
    pid
}

#[tokio::test]
async fn a_stop_ends_one_that_ignores_everything() {
    let pid = stopped("trap '' TERM; echo $$; while :; do sleep 1; done").await;
    assert!(!alive(&pid));
}

#[tokio::test]
async fn a_stop_ends_a_descendant_in_a_session_of_its_own() {
    // The middle one ends at once, so that the last one belongs to nobody.
    let pid = stopped("(setsid sh -c 'trap \"\" TERM; echo $$; while :; do sleep 1; done' & ) ; cat").await;
    assert!(!alive(&pid));
}

#[tokio::test]
async fn a_stop_ends_one_that_wiped_its_environment() {
    let pid = stopped("env -i /bin/sh -c 'echo $$; exec sleep 600' & cat").await;
    assert!(!alive(&pid));
}

#[tokio::test]
async fn what_outlives_its_leader_is_ended_too() {
    // The leader ends at once, so that the other has no parent, and it is in no session of ours.
    let pid = stopped("setsid sh -c 'echo $$; exec sleep 600' &").await;
    assert!(!alive(&pid));
}

#[tokio::test]
async fn a_dropped_child_takes_its_family_along() {
    let (child, pipes) = sh("setsid sh -c 'echo $$; exec sleep 600' & wait").start().await.unwrap();
    let mut pid = String::new();
    BufReader::new(pipes.stdout).read_line(&mut pid).await.unwrap();
    drop(child);
    while alive(&pid) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn a_child_does_not_die_with_the_thread_that_asked_for_it() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let start = || runtime.block_on(async { ChildSpec::new("cat", "/tmp").start().await.unwrap() });
    let (mut child, mut pipes) = std::thread::scope(|scope| scope.spawn(start).join().unwrap());
    runtime.block_on(async {
        pipes.stdin.write_all(b"still here\n").await.unwrap();
        drop(pipes.stdin);
        assert!(child.ended().await.unwrap().success());
    });
}
