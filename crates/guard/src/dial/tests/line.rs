//! Connections without a task: they are used again, and one that ended meanwhile is not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{HeaderMap, Method};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use url::Url;

use super::twin::{Answer, Stub, Twin, ok};
use crate::dial::{EgressPolicy, OriginClient, Unsent};

const MINUTE: Duration = Duration::from_secs(60);

/// Sends a request and brings the body, or why there is none.
async fn ask(client: &OriginClient, method: Method, url: &Url, body: Option<&'static str>) -> Result<String, Unsent> {
    let mut answer = client.send(method, url, HeaderMap::new(), body.map(Into::into)).await?;
    let mut text = Vec::new();
    while let Some(piece) = answer.chunk().await? {
        text.extend_from_slice(&piece);
    }
    Ok(String::from_utf8(text).unwrap())
}

/// A server that keeps its connections until it is told to hang up, and counts those that it had and those that it ended.
/// It answers with how often it was asked on this one.
async fn keeping() -> (Url, Arc<[AtomicUsize; 2]>, Arc<Notify>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
    let (connections, hang_up) = (Arc::<[AtomicUsize; 2]>::default(), Arc::new(Notify::new()));
    let (counted, told) = (Arc::clone(&connections), Arc::clone(&hang_up));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            counted[0].fetch_add(1, Ordering::SeqCst);
            let (told, counted) = (Arc::clone(&told), Arc::clone(&counted));
            tokio::spawn(async move {
                let (mut asked, mut seen) = (0, vec![0; 4096]);
                loop {
                    tokio::select! {
                        read = stream.read(&mut seen) => match read {
                            Ok(1..) => {
                                asked += 1;
                                // In two pieces, so that the body comes after its head.
                                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n").await.unwrap();
                                tokio::task::yield_now().await;
                                stream.write_all(format!("{asked}").as_bytes()).await.unwrap();
                            }
                            _ => return,
                        },
                        () = told.notified() => {
                            drop(stream);
                            counted[1].fetch_add(1, Ordering::SeqCst);
                            return;
                        }
                    }
                }
            });
        }
    });
    (url, connections, hang_up)
}

fn local() -> EgressPolicy {
    EgressPolicy { allow: vec!["127.0.0.1/32".parse().unwrap()], ..EgressPolicy::default() }
}

#[tokio::test]
async fn a_connection_is_used_again_until_it_ends() {
    let (url, connections, hang_up) = keeping().await;
    let client = OriginClient::new(&url, &local(), MINUTE).await.unwrap();
    for asked in ["1", "2", "3"] {
        assert_eq!(ask(&client, Method::POST, &url, Some("{}")).await.unwrap(), asked);
    }
    assert_eq!(connections[0].load(Ordering::SeqCst), 1);
    hang_up.notify_one();
    while connections[1].load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    // Once more, so that the runtime hears of it.
    tokio::task::yield_now().await;
    assert_eq!(ask(&client, Method::POST, &url, Some("{}")).await.unwrap(), "1");
    assert_eq!(connections[0].load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn many_at_once_have_a_connection_each() {
    let (url, connections, _) = keeping().await;
    let client = OriginClient::new(&url, &local(), MINUTE).await.unwrap();
    let ask_too = |_| {
        let (client, url) = (client.clone(), url.clone());
        tokio::spawn(async move { ask(&client, Method::GET, &url, None).await.unwrap() })
    };
    for asking in (0..8).map(ask_too).collect::<Vec<_>>() {
        asking.await.unwrap();
    }
    assert!((2..=8).contains(&connections[0].load(Ordering::SeqCst)));
}

#[tokio::test]
async fn a_name_is_judged_for_every_connection() {
    // It hangs up after each answer and says so, so that the second request is a connection of its own.
    let said = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 4\r\n\r\nhere";
    let twin = Twin::start(|_| Answer::Say(said.to_owned())).await;
    let url = twin.named("rebind.example", "/a?b=c");
    let names = Stub::new(&[&["127.0.0.1"], &["169.254.169.254"]]);
    let client = OriginClient::looking_up(names, &url, &twin.policy(), MINUTE).await.unwrap();
    assert_eq!(ask(&client, Method::GET, &url, None).await.unwrap(), "here");
    let Unsent::Unanswered(refused) = ask(&client, Method::GET, &url, None).await.unwrap_err() else { panic!("it is") };
    assert!(refused.at_connecting && refused.reason.contains("`rebind.example` leads to"), "{refused}");
    let head = twin.heads().remove(0);
    assert!(head.starts_with("GET /a?b=c HTTP/1.1\r\n"), "{head}");
    assert!(head.to_lowercase().contains(&format!("host: rebind.example:{}\r\n", twin.address.port())), "{head}");
    assert_eq!(twin.heads().len(), 1);
}

#[tokio::test]
async fn another_origin_and_nobody_are_told() {
    let (twin, other) = (Twin::start(|_| ok("here")).await, Twin::start(|_| ok("there")).await);
    let client = OriginClient::new(&twin.url("/"), &twin.policy(), MINUTE).await.unwrap();
    assert!(matches!(ask(&client, Method::GET, &other.url("/"), None).await, Err(Unsent::Refused(_))));
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url: Url = format!("http://{}/", nobody.local_addr().unwrap()).parse().unwrap();
    drop(nobody);
    let client = OriginClient::new(&url, &local(), MINUTE).await.unwrap();
    let Unsent::Unanswered(error) = ask(&client, Method::GET, &url, None).await.unwrap_err() else { panic!("it is") };
    assert!(error.at_connecting, "{error}");
}
