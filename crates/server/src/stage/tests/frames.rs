//! Frames: a real server behind the proxy, which says what it heard, and its misbehaving twins.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{Response, StatusCode, header};
use axum::routing::{any, get, post};
use hyper_util::rt::TokioIo;
use kitbag_model::{ChatId, OrgId};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::StreamExt;

use super::kit::{Theatre, parse, read_until};
use super::plan;

const BIG: usize = 20 << 20;

/// A server that behaves.
async fn upstream(name: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let echo = |request: Request| async move {
        let heard = format!("{} {}\n", request.method(), request.uri());
        let headers =
            request.headers().iter().map(|(name, value)| format!("{name}: {}\n", value.to_str().unwrap_or("?")));
        heard + &headers.collect::<String>()
    };
    let odd = || async {
        let rows = [
            ("location", "http://localhost:3000/next"),
            ("set-cookie", "a=b; Domain=localhost; Path=/"),
            ("x-frame-options", "DENY"),
            ("content-security-policy", "default-src 'self'; frame-ancestors 'none'"),
            ("x-own", "kept"),
        ];
        rows.into_iter()
            .fold(Response::builder().status(302), |response, (name, value)| response.header(name, value))
            .body(Body::empty())
            .expect("an answer")
    };
    let count = |body: Body| async move {
        let mut parts = body.into_data_stream();
        let mut length = 0;
        while let Some(part) = parts.next().await {
            length += part.expect("the body arrives").len();
        }
        length.to_string()
    };
    let big = || async {
        let parts = (0..BIG >> 16).map(|_| Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; 1 << 16])));
        Body::from_stream(tokio_stream::iter(parts))
    };
    let socket = |mut request: Request| async move {
        let upgrade = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            let mut io = TokioIo::new(upgrade.await.expect("an upgrade"));
            let mut buffer = [0; 1024];
            while let Ok(length @ 1..) = io.read(&mut buffer).await {
                let said = buffer[..length].to_ascii_uppercase();
                io.write_all(&said).await.expect("the other side is there");
            }
        });
        let switch = Response::builder().status(StatusCode::SWITCHING_PROTOCOLS);
        switch
            .header(header::CONNECTION, "upgrade")
            .header(header::UPGRADE, "websocket")
            .header("sec-websocket-accept", "yes")
            .body(Body::empty())
            .expect("an answer")
    };
    let router = Router::new()
        .route("/echo", any(echo))
        .route("/name", get(move || async move { name }))
        .route("/odd", get(odd))
        .route("/count", post(count))
        .route("/big", get(big))
        .route("/socket", get(socket));
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// A server that does what it likes with a connection, whose request's head was read.
async fn rude<F: Future<Output = ()> + Send>(behave: impl Fn(TcpStream) -> F + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            read_until(&mut stream, "\r\n\r\n").await;
            behave(stream).await;
        }
    });
    address
}

/// A theatre with a frame on port 3000, and its host.
async fn frame(address: SocketAddr) -> (Theatre, String) {
    let theatre = Theatre::open(|_| ()).await;
    theatre.listen(theatre.chat, 3000, address);
    let host = theatre.show(theatre.chat, &plan("frame", json!({"port": 3000})));
    (theatre, host)
}

#[tokio::test]
async fn messages_are_passed_on() {
    let (theatre, host) = frame(upstream("one").await).await;
    let request = format!(
        "PATCH /echo?a=b%20c HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nReferer: http://{host}/x\r\nCookie: own=1\r\n\
         Authorization: Bearer own\r\nX-Forwarded-For: 1.2.3.4\r\nX-Hop: 1\r\nConnection: close, x-hop\r\n\r\n"
    );
    let answer = theatre.send(&request).await;
    assert_eq!(
        (answer.status, answer.body.as_str()),
        (
            200,
            "PATCH /echo?a=b%20c\nhost: localhost:3000\norigin: http://localhost:3000\nreferer: http://localhost:3000/x\n\
             cookie: own=1\nauthorization: Bearer own\n"
        )
    );
    // The API's paths are the frame's own under this name.
    assert_eq!(theatre.get(&host, "/v1/orgs/local/chats").await.status, 404);

    let answer = theatre.get(&host, "/odd").await;
    assert_eq!((answer.status, answer.header("location")), (302, vec!["/next"]));
    assert_eq!(answer.header("set-cookie"), ["a=b; Path=/"]);
    assert_eq!((answer.header("x-own"), answer.header("x-frame-options")), (vec!["kept"], vec![]));
    let policies = answer.header("content-security-policy");
    assert_eq!((policies.len(), policies[0]), (2, "default-src 'self'"));
    assert!(policies[1].contains("frame-ancestors http://localhost:* "), "{policies:?}");
    for method in ["TRACE", "CONNECT"] {
        let target = if method == "CONNECT" { host.as_str() } else { "/" };
        let request = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        assert_eq!(theatre.send(&request).await.status, 405, "{method}");
    }
}

#[tokio::test]
async fn two_chats_may_use_one_port() {
    let (theatre, host) = frame(upstream("one").await).await;
    let other = ChatId::generate();
    theatre.listen(other, 3000, upstream("two").await);
    let other = theatre.show(other, &plan("frame", json!({"port": 3000})));
    assert_eq!(theatre.get(&host, "/name").await.body, "one");
    assert_eq!(theatre.get(&other, "/name").await.body, "two");
}

#[tokio::test]
async fn large_bodies() {
    let (theatre, host) = frame(upstream("one").await).await;
    let mut stream = theatre.connect().await;
    let head = format!("POST /count HTTP/1.1\r\nHost: {host}\r\nContent-Length: {BIG}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    for _ in 0..BIG >> 16 {
        stream.write_all(&[b'x'; 1 << 16]).await.unwrap();
    }
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    assert_eq!(parse(&bytes).body, BIG.to_string());

    let answer = theatre.get(&host, "/big").await;
    assert!(answer.body.len() == BIG && answer.body.bytes().all(|byte| byte == b'x'));
}

/// Each part is passed on when it comes, both ways: neither side sends its next one before the other has had this one.
#[tokio::test]
async fn parts_are_not_collected() {
    let address = rude(|mut stream| async move {
        stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfrom\r\n").await.unwrap();
        read_until(&mut stream, "said").await;
        stream.write_all(b"6\r\nserver\r\n0\r\n\r\n").await.unwrap();
    });
    let (theatre, host) = frame(address.await).await;
    let mut stream = theatre.connect().await;
    let head = format!("POST /x HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let heard = read_until(&mut stream, "from").await;
    assert!(!heard.contains("server"));
    stream.write_all(b"4\r\nsaid\r\n0\r\n\r\n").await.unwrap();
    read_until(&mut stream, "server").await;
}

#[tokio::test]
async fn web_sockets() {
    let (theatre, host) = frame(upstream("one").await).await;
    let mut stream = theatre.connect().await;
    let head = format!(
        "GET /socket HTTP/1.1\r\nHost: {host}\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Key: x\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let answer = read_until(&mut stream, "\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 101 ") && answer.contains("sec-websocket-accept: yes"), "{answer}");
    for (said, heard) in [("hello", "HELLO"), ("again", "AGAIN")] {
        stream.write_all(said.as_bytes()).await.unwrap();
        assert_eq!(read_until(&mut stream, heard).await, heard);
    }
    stream.shutdown().await.unwrap();
    assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 0, "the end is passed on too");
    // Any other protocol is not offered on, and the request is an ordinary one.
    let request = format!("GET /echo HTTP/1.1\r\nHost: {host}\r\nConnection: close, upgrade\r\nUpgrade: h2c\r\n\r\n");
    assert_eq!(theatre.send(&request).await.body, "GET /echo\nhost: localhost:3000\n");
}

/// Whoever was taken out of an organisation keeps no frame of it open, and nobody else loses theirs.
#[tokio::test]
async fn what_is_open_ends_with_the_right_to_see_it() {
    let (theatre, host) = frame(upstream("one").await).await;
    let request = format!(
        "GET /socket HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\n"
    );
    let mut socket = theatre.connect().await;
    socket.write_all(request.as_bytes()).await.unwrap();
    read_until(&mut socket, "\r\n\r\n").await;
    let mut part = [0; 16];
    theatre.app.stage().close_organization(&"other".parse().unwrap());
    socket.write_all(b"still").await.expect("it is open");
    assert_eq!(socket.read(&mut part).await.expect("an answer"), 5);
    theatre.app.stage().close_organization(&theatre.org);
    let ended = tokio::time::timeout(Duration::from_secs(10), socket.read(&mut part)).await.expect("it ends");
    assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
    assert_eq!(theatre.get(&host, "/name").await.status, 404);
    // Whoever still may see it gets another name.
    let again = theatre.show(theatre.chat, &plan("frame", json!({"port": 3000})));
    assert_ne!(again, host);
    assert_eq!(theatre.get(&again, "/name").await.body, "one");
}

#[tokio::test]
async fn one_frame_leaves_room_for_others() {
    let (theatre, host) = frame(upstream("one").await).await;
    let head = format!("GET /socket HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    let mut streams = Vec::new();
    for _ in 0..64 {
        let mut stream = theatre.connect().await;
        stream.write_all(head.as_bytes()).await.unwrap();
        assert!(read_until(&mut stream, "\r\n\r\n").await.starts_with("HTTP/1.1 101 "));
        streams.push(stream);
    }
    let refused = theatre.get(&host, "/name").await;
    assert_eq!((refused.status, refused.header("retry-after")), (429, vec!["5"]));
    let other = ChatId::generate();
    theatre.listen(other, 3000, upstream("two").await);
    let other = theatre.show(other, &plan("frame", json!({"port": 3000})));
    assert_eq!(theatre.get(&other, "/name").await.body, "two");
    let mut last = streams.pop().expect("there are many");
    last.shutdown().await.unwrap();
    // When the end has come back, both sides are done; what held the place lets go right after.
    assert_eq!(last.read(&mut [0; 1]).await.unwrap(), 0);
    let mut status = 429;
    while status == 429 {
        status = theatre.get(&host, "/name").await.status;
    }
    assert_eq!(status, 200);
}

#[tokio::test]
async fn one_organisation_leaves_frames_for_others() {
    let theatre = Theatre::open(|_| ()).await;
    let theirs: OrgId = "acme".parse().expect("an id");
    let grant = |org: &OrgId| {
        let shown = theatre.app.stage().present(org, ChatId::generate(), "call", &plan("frame", json!({"port": 3000})));
        let url = shown["config"]["url"].as_str().expect("an address").to_owned();
        url.split('/').nth(2).expect("a host").to_owned()
    };
    let frames = theatre.app.stage().frames();
    let take = |at: usize| frames.take(&theirs, &format!("frame {at}")).ok();
    let held: Vec<_> = (0..).map_while(take).collect();
    assert_eq!(held.len(), 256, "half of all");
    let refused = theatre.get(&grant(&theirs), "/").await;
    assert_eq!((refused.status, refused.header("retry-after")), (429, vec!["5"]));
    let other = theatre.get(&grant(&"bolt".parse().expect("an id")), "/").await;
    assert_eq!(other.status, 502, "nothing listens there, which was looked for");
}

#[tokio::test]
async fn servers_that_are_not_there_or_talk_nonsense() {
    let theatre = Theatre::open(|_| ()).await;
    let host = theatre.show(theatre.chat, &plan("frame", json!({"port": 3000})));
    let answer = theatre.get(&host, "/").await;
    assert_eq!((answer.status, answer.header("content-type")), (502, vec!["text/plain; charset=utf-8"]));
    assert!(answer.body.starts_with("Nothing listens on port 3000 in this chat."), "{}", answer.body);

    for said in [
        "",
        "hello\r\n\r\n",
        "HTTP/1.1 200",
        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
    ] {
        let address = rude(move |mut stream| async move {
            let _ = stream.write_all(said.as_bytes()).await;
        });
        theatre.listen(theatre.chat, 3000, address.await);
        let answer = theatre.get(&host, "/").await;
        assert_eq!(answer.status, 502, "{said}");
        assert!(answer.body.starts_with("The server on port 3000 of this chat gave no answer"), "{}", answer.body);
    }
}

#[tokio::test]
async fn a_server_that_dies_half_way() {
    let address = rude(|mut stream| async move {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf").await.unwrap();
    });
    let (theatre, host) = frame(address.await).await;
    let answer = theatre.get(&host, "/").await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "half"));
    assert_eq!(answer.header("content-length"), ["100"], "who reads it can see that something is missing");
    theatre.listen(theatre.chat, 3000, upstream("one").await);
    assert_eq!(theatre.get(&host, "/name").await.body, "one");
}

/// Reads to the end of the connection, and says so.
async fn silent(ended: mpsc::UnboundedSender<()>, asked: mpsc::UnboundedSender<()>) -> SocketAddr {
    let (ended, asked) = (Arc::new(ended), Arc::new(asked));
    rude(move |mut stream| {
        let (ended, asked) = (Arc::clone(&ended), Arc::clone(&asked));
        async move {
            asked.send(()).unwrap();
            while let Ok(1..) = stream.read(&mut [0; 64]).await {}
            let _ = ended.send(());
        }
    })
    .await
}

#[tokio::test]
async fn whoever_goes_away_is_not_waited_for() {
    let (ended, mut has_ended) = mpsc::unbounded_channel();
    let (asked, mut was_asked) = mpsc::unbounded_channel();
    let (theatre, host) = frame(silent(ended, asked).await).await;
    let mut stream = theatre.connect().await;
    stream.write_all(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).await.unwrap();
    was_asked.recv().await.expect("it was asked");
    drop(stream);
    tokio::time::timeout(Duration::from_secs(60), has_ended.recv()).await.expect("the proxy lets go of its server");
}

#[tokio::test]
async fn a_server_that_never_answers() {
    let (ended, mut has_ended) = mpsc::unbounded_channel();
    let (asked, mut was_asked) = mpsc::unbounded_channel();
    let (theatre, host) = frame(silent(ended, asked).await).await;
    let (send, answered) = oneshot::channel();
    let mut stream = theatre.connect().await;
    tokio::spawn(async move {
        stream
            .write_all(format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes())
            .await
            .unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        send.send(parse(&bytes)).unwrap();
    });
    was_asked.recv().await.expect("it was asked");
    // From here on nothing happens but time.
    tokio::time::pause();
    let answer = answered.await.unwrap();
    assert_eq!(answer.status, 504);
    assert_eq!(answer.body, "The server on port 3000 of this chat did not answer in 120 s.\n");
    tokio::time::resume();
    has_ended.recv().await.expect("the proxy lets go of its server");
}
