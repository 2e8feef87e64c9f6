//! One answer: what is written, and what happens when it is too large, too slow, broken or not for us.

use std::env;
use std::net::SocketAddr;
use std::time::Duration;

use super::twin::{Answer, Stub, Twin, ample, ok};
use crate::dial::fetch::fetch_by;
use crate::dial::{EgressPolicy, FetchError, FetchLimits, Fetched, Kind, Refused, Stage, fetch};
use crate::process::Spec;

const HEAD: &str = "HTTP/1.1 200 OK\r\n\r\n";

async fn try_fetch(twin: &Twin, limits: &FetchLimits) -> (Result<Fetched, FetchError>, Vec<u8>) {
    let mut body = Vec::new();
    let answer = fetch(&twin.url("/x?key=hunter2"), &twin.policy(), limits, &mut body).await;
    if let Err(error) = &answer {
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
    }
    (answer, body)
}

#[tokio::test]
async fn an_allowed_server_is_fetched_from() {
    let twin = Twin::start(|_| ok("hello")).await;
    let (fetched, body) = try_fetch(&twin, &ample()).await;
    let content_type = Some("text/plain".to_owned());
    assert_eq!(fetched.unwrap(), Fetched { final_url: twin.url("/x?key=hunter2"), content_type, size: 5 });
    assert_eq!(body, b"hello");
    let head = twin.heads().remove(0).to_lowercase();
    assert!(head.starts_with("get /x?key=hunter2 http/1.1\r\n"), "{head}");
    assert!(head.contains("accept-encoding: identity\r\n") && head.contains("user-agent: kitbag/"), "{head}");
    assert!(!head.contains("authorization") && !head.contains("cookie") && !head.contains("referer"), "{head}");
}

#[tokio::test]
async fn a_server_that_is_not_allowed_never_hears_of_us() {
    let twin = Twin::start(|_| ok("hello")).await;
    let by_name = |name: &str| twin.named(name, "/");
    for url in
        [twin.url("/"), by_name("localhost"), by_name("localhost."), by_name("127.1"), by_name("[::ffff:127.0.0.1]")]
    {
        let answer = fetch(&url, &EgressPolicy::default(), &ample(), &mut Vec::new()).await;
        assert!(
            matches!(answer, Err(FetchError::Refused(Refused::Address { kind: Kind::Loopback, .. }))),
            "{url} {answer:?}"
        );
    }
    assert!(twin.heads().is_empty());
}

#[tokio::test]
async fn a_name_is_looked_up_by_the_machine() {
    let twin = Twin::start(|_| ok("hello")).await;
    let policy = EgressPolicy { allow_private: true, ..EgressPolicy::default() };
    let fetched = fetch(&twin.named("LOCALHOST", "/"), &policy, &ample(), &mut Vec::new()).await.unwrap();
    assert_eq!(fetched.size, 5);
    // Not every machine knows this spelling, but a connection by it must still be the one that was judged.
    let (names, url) = (Stub::new(&[&["127.0.0.1"]]), twin.named("localhost.", "/"));
    assert_eq!(fetch_by(&names, &url, &policy, &ample(), &mut Vec::new()).await.unwrap().size, 5);
    assert_eq!(names.asked(), ["localhost."]);
}

#[tokio::test]
async fn a_name_is_refused_when_any_of_its_addresses_is() {
    let twin = Twin::start(|_| ok("hello")).await;
    for addresses in [
        &["127.0.0.1"][..],
        &["8.8.8.8", "127.0.0.1"],
        &["127.0.0.1", "8.8.8.8"],
        &["2606:4700::1111", "::ffff:127.0.0.1"],
        &["8.8.8.8", "fd00::1"],
    ] {
        let names = Stub::new(&[addresses]);
        let answer =
            fetch_by(&names, &twin.named("a.test", "/"), &EgressPolicy::default(), &ample(), &mut Vec::new()).await;
        assert!(matches!(answer, Err(FetchError::Refused(Refused::Address { .. }))), "{addresses:?} {answer:?}");
    }
    assert!(twin.heads().is_empty());
    let nobody =
        fetch_by(&Stub::new(&[&[]]), &twin.named("a.test", "/"), &twin.policy(), &ample(), &mut Vec::new()).await;
    assert!(matches!(nobody, Err(FetchError::NotFound { .. })));
}

#[tokio::test]
async fn a_name_that_changes_its_mind_is_asked_once() {
    let twin = Twin::start(|_| ok("right")).await;
    let inside = SocketAddr::new("127.0.0.2".parse().unwrap(), twin.address.port());
    let inside = Twin::at(inside, None, |_| ok("wrong")).await;
    let (names, mut body) = (Stub::new(&[&["127.0.0.1"], &["127.0.0.2"]]), Vec::new());
    fetch_by(&names, &twin.named("rebind.test", "/"), &twin.policy(), &ample(), &mut body).await.unwrap();
    assert_eq!(body, b"right");
    assert_eq!(names.asked(), ["rebind.test"]);
    assert!(inside.heads().is_empty());
}

#[tokio::test]
async fn a_body_is_counted_as_it_comes() {
    let limits = FetchLimits { bytes: 100_000, ..ample() };
    for head in [HEAD.to_owned(), HEAD.replace("OK\r\n", "OK\r\ntransfer-encoding: chunked\r\n") + "fffffff\r\n"] {
        let twin = Twin::start(move |_| Answer::Flood(head.clone())).await;
        let (answer, body) = try_fetch(&twin, &limits).await;
        assert!(matches!(answer, Err(FetchError::TooLarge { limit: 100_000, .. })), "{answer:?}");
        assert!(body.len() <= 100_000, "{}", body.len());
    }
    let exact = Twin::start(|_| ok(&"x".repeat(100_000))).await;
    assert_eq!(try_fetch(&exact, &limits).await.0.unwrap().size, 100_000);
}

#[tokio::test]
async fn a_declared_length_is_not_believed() {
    let limits = FetchLimits { bytes: 10, ..ample() };
    let with_length = |length: &str, body: &str| format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}");
    // It promises too much: refused before a byte of it is waited for.
    let huge = with_length("11", "");
    let twin = Twin::start(move |_| Answer::Hang(huge.clone())).await;
    assert!(matches!(try_fetch(&twin, &limits).await.0, Err(FetchError::TooLarge { .. })));
    // It sends less than it promised: half a file must not pass for a whole one.
    let short = with_length("9", "four");
    let twin = Twin::start(move |_| Answer::Say(short.clone())).await;
    assert!(matches!(try_fetch(&twin, &limits).await.0, Err(FetchError::Broken { .. })));
    // It sends more than it promised: the rest is not part of the answer.
    let long = with_length("4", "");
    let twin = Twin::start(move |_| Answer::Flood(long.clone())).await;
    let (fetched, body) = try_fetch(&twin, &limits).await;
    assert_eq!((fetched.unwrap().size, body.len()), (4, 4));
    for length in ["-1", "x", "99999999999999999999999"] {
        let odd = with_length(length, "four");
        let twin = Twin::start(move |_| Answer::Say(odd.clone())).await;
        assert!(matches!(try_fetch(&twin, &limits).await.0, Err(FetchError::Broken { .. })), "{length}");
    }
}

#[tokio::test]
async fn silence_ends_at_the_idle_deadline() {
    let limits = FetchLimits { connect: Duration::from_millis(50), idle: Duration::from_millis(50), ..ample() };
    for said in ["", "HTTP/1.1 200", "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nfour"] {
        let twin = Twin::start(move |_| Answer::Hang(said.to_owned())).await;
        let (answer, _) = try_fetch(&twin, &limits).await;
        assert!(matches!(answer, Err(FetchError::Slow { stage: Stage::Idle, .. })), "{said:?} {answer:?}");
    }
}

#[tokio::test]
async fn a_drip_ends_at_the_total_deadline() {
    // Without the deadline the drip would sooner or later be too large.
    let limits = FetchLimits { total: Duration::from_millis(200), bytes: 1000, ..ample() };
    for head in ["HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nx: "] {
        let twin = Twin::start(move |_| Answer::Drip(head.to_owned())).await;
        let (answer, _) = try_fetch(&twin, &limits).await;
        assert!(matches!(answer, Err(FetchError::Slow { stage: Stage::Total, .. })), "{answer:?}");
    }
}

#[tokio::test]
async fn only_success_is_a_success() {
    for (line, expected) in [("404 Not Found", 404), ("500 Oh", 500), ("304 Not Modified", 304), ("300 Many", 300)] {
        let twin = Twin::start(move |_| Answer::Say(format!("HTTP/1.1 {line}\r\ncontent-length: 4\r\n\r\nbody"))).await;
        let (answer, body) = try_fetch(&twin, &ample()).await;
        assert!(matches!(answer, Err(FetchError::Status { status, .. }) if status == expected), "{answer:?}");
        assert!(body.is_empty());
    }
    let twin = Twin::start(|_| Answer::Say("SSH-2.0-OpenSSH\r\n".to_owned())).await;
    assert!(matches!(try_fetch(&twin, &ample()).await.0, Err(FetchError::Broken { .. })));
}

#[tokio::test]
async fn a_compressed_answer_is_not_taken() {
    for encoding in ["gzip", "br", "identity, gzip"] {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-encoding: {encoding}\r\ncontent-length: 4\r\n\r\nbody");
        let twin = Twin::start(move |_| Answer::Say(head.clone())).await;
        assert!(matches!(try_fetch(&twin, &ample()).await.0, Err(FetchError::Encoded { .. })), "{encoding}");
    }
}

#[tokio::test]
async fn a_full_disk_is_told_from_a_broken_server() {
    let twin = Twin::start(|_| ok(&"x".repeat(10_000))).await;
    let mut full = tokio::fs::OpenOptions::new().write(true).open("/dev/full").await.unwrap();
    let answer = fetch(&twin.url("/"), &twin.policy(), &ample(), &mut full).await;
    assert!(matches!(answer, Err(FetchError::Sink(_))), "{answer:?}");
}

#[tokio::test]
async fn nobody_listening_is_said_so() {
    let twin = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", twin.local_addr().unwrap()).parse().unwrap();
    drop(twin);
    let policy = EgressPolicy { allow_private: true, ..EgressPolicy::default() };
    let error = fetch(&url, &policy, &ample(), &mut Vec::new()).await.unwrap_err();
    assert!(matches!(&error, FetchError::Connect { reason, .. } if reason.contains("refused")), "{error:?}");
}

/// This test runs itself again in a process whose environment names a proxy, since the environment of this one is shared.
#[tokio::test]
async fn a_proxy_of_the_environment_is_not_used() {
    const TARGET: &str = "KITBAG_TEST_FETCH_FROM";
    if let Ok(url) = env::var(TARGET) {
        let policy = EgressPolicy { allow_private: true, ..EgressPolicy::default() };
        let mut body = Vec::new();
        fetch(&url.parse().unwrap(), &policy, &ample(), &mut body).await.unwrap();
        assert_eq!(body, b"direct");
        return;
    }
    let twin = Twin::start(|_| ok("direct")).await;
    let proxy = Twin::start(|_| ok("proxied")).await;
    let mut args = vec![format!("{TARGET}={}", twin.url("/"))];
    args.extend(
        ["http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"].map(|name| format!("{name}={}", proxy.url("/"))),
    );
    args.push(env::current_exe().unwrap().into_os_string().into_string().unwrap());
    args.extend(["--exact", "dial::tests::fetching::a_proxy_of_the_environment_is_not_used"].map(str::to_owned));
    let ended = Spec::new("env").args(args).deadline(Duration::from_secs(60)).run().await.unwrap();
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert!(proxy.heads().is_empty());
    assert_eq!(twin.heads().len(), 1, "{}", ended.stdout);
}
