//! Numbers, when they matter most.

use kitbag_testkit::cluster::Cluster;
use kitbag_testkit::{Program, Server, TestDatabase};
use reqwest::Method;

use crate::BINARY;

/// Why calls are refused. An alert on it must see the first.
const REFUSED: [&str; 3] = [
    "kitbag_calls_refused_total{reason=\"quota\"} 0",
    "kitbag_calls_refused_total{reason=\"busy\"} 0",
    "kitbag_calls_refused_total{reason=\"rate\"} 0",
];

async fn scrape(server: &Server, path: &str) -> (u16, String) {
    let answer = server.request(Method::GET, path).send().await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

/// Off loopback a scraper shows a token, which is looked up in the very database whose absence it is to tell of.
#[tokio::test(flavor = "multi_thread")]
async fn who_scrapes_hears_that_the_database_is_away() {
    let cluster = Cluster::own().await;
    let database = TestDatabase::of(cluster.clone()).await;
    let server =
        Server::start_program(&Program::on(BINARY, &database), database.data(), &["serve", "--listen", "0.0.0.0:0"]);
    let without = server.anonymous(Method::GET, "/metrics").send().await.unwrap();
    assert_eq!(without.status().as_u16(), 401);
    let (status, text) = scrape(&server, "/metrics").await;
    assert_eq!(status, 200, "{text}");
    for line in ["kitbag_database_up 1", "kitbag_nodes{state=\"alive\"} 1", "kitbag_calls_unrecorded 0"]
        .into_iter()
        .chain(REFUSED)
    {
        assert!(text.lines().any(|it| it == line), "{line}: {text}");
    }
    cluster.kill();
    let (status, text) = scrape(&server, "/metrics").await;
    assert!(status == 200 && text.lines().any(|line| line == "kitbag_database_up 0"), "{status}: {text}");
    // Nobody else is let in by that, nor this one anywhere else.
    assert_eq!(scrape(&server, "/v1/orgs/local/chats").await.0, 503);
    let (shape, _) = server.token.rsplit_once(|letter: char| !letter.is_alphanumeric()).unwrap();
    for token in [format!("{}0", server.token), shape.to_owned()] {
        let other = server.anonymous(Method::GET, "/metrics").bearer_auth(token).send().await.unwrap();
        assert_ne!(other.status().as_u16(), 200);
    }
    tokio::task::spawn_blocking(move || cluster.revive()).await.unwrap();
    for _ in 0..600 {
        if scrape(&server, "/metrics").await.1.contains("kitbag_database_up 1") {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("it never came back: {}", server.log());
}
