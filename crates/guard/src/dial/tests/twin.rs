//! A web server's misbehaving twin: it listens on a real port and writes raw bytes, right or wrong.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use url::Url;

use crate::dial::client::Lookup;
use crate::dial::{EgressPolicy, FetchLimits};

/// What the twin does with a request.
#[derive(Clone)]
pub enum Answer {
    /// Says this and hangs up.
    Say(String),
    /// Says this and nothing more, without hanging up.
    Hang(String),
    /// Says this, and then more and more as fast as it can.
    Flood(String),
    /// Says this, and then a byte now and then.
    Drip(String),
}

/// A listening twin and what it was asked.
pub struct Twin {
    pub address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Twin {
    pub async fn start(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Self {
        Self::at("127.0.0.1:0".parse().unwrap(), None, answer).await
    }

    pub async fn at(
        address: SocketAddr,
        tls: Option<TlsAcceptor>,
        answer: impl Fn(&str) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let (seen, answer) = (heads.clone(), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (seen, answer, tls) = (seen.clone(), answer.clone(), tls.clone());
                tokio::spawn(async move {
                    // The other side hangs up on us in many of these tests: that is no failure of the twin.
                    let _ = match tls {
                        None => serve(stream, &seen, &*answer).await,
                        Some(tls) => match tls.accept(stream).await {
                            Ok(stream) => serve(stream, &seen, &*answer).await,
                            Err(error) => Err(error),
                        },
                    };
                });
            }
        });
        Self { address, heads }
    }

    /// The URL of a path, by the twin's address.
    pub fn url(&self, path: &str) -> Url {
        format!("http://{}{path}", self.address).parse().unwrap()
    }

    /// The URL of a path, by a name that only [`Stub`] knows.
    pub fn named(&self, name: &str, path: &str) -> Url {
        format!("http://{name}:{}{path}", self.address.port()).parse().unwrap()
    }

    /// The heads of all requests so far.
    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    /// A policy that allows this twin, by address and port, and nothing else that is special.
    pub fn policy(&self) -> EgressPolicy {
        EgressPolicy { allow: vec![self.address.to_string().parse().unwrap()], ..EgressPolicy::default() }
    }
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    seen: &Mutex<Vec<String>>,
    answer: &(impl Fn(&str) -> Answer + ?Sized),
) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8(head).unwrap();
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    seen.lock().unwrap().push(head);
    match answer(&path) {
        Answer::Say(text) => {
            stream.write_all(text.as_bytes()).await?;
            stream.shutdown().await
        }
        Answer::Hang(text) => {
            stream.write_all(text.as_bytes()).await?;
            stream.flush().await?;
            stream.read_u8().await.map(drop)
        }
        Answer::Flood(text) => {
            stream.write_all(text.as_bytes()).await?;
            loop {
                stream.write_all(&[b'x'; 16 * 1024]).await?;
            }
        }
        Answer::Drip(text) => {
            stream.write_all(text.as_bytes()).await?;
            loop {
                stream.write_all(b"x").await?;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }
}

pub fn ok(body: &str) -> Answer {
    Answer::Say(format!("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\r\n{body}", body.len()))
}

pub fn redirect(location: &str) -> Answer {
    Answer::Say(format!("HTTP/1.1 302 Found\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n"))
}

/// Limits that no well-behaved answer of these tests comes near.
pub fn ample() -> FetchLimits {
    let minute = Duration::from_secs(60);
    FetchLimits { bytes: 1 << 20, connect: minute, idle: minute, total: minute, redirects: 3 }
}

/// A resolver that answers each question with the next of its answers, and the last one ever after.
pub struct Stub {
    answers: Vec<Vec<IpAddr>>,
    asked: Mutex<Vec<String>>,
}

impl Stub {
    pub fn new(answers: &[&[&str]]) -> Self {
        let parse = |answer: &&[&str]| answer.iter().map(|address| address.parse().unwrap()).collect();
        Self { answers: answers.iter().map(parse).collect(), asked: Mutex::default() }
    }

    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Lookup for Stub {
    async fn lookup(&self, host: &str, _port: u16) -> io::Result<Vec<IpAddr>> {
        let mut asked = self.asked.lock().unwrap();
        asked.push(host.to_owned());
        Ok(self.answers[(asked.len() - 1).min(self.answers.len() - 1)].clone())
    }
}
