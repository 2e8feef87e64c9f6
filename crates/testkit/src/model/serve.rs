//! HTTP by hand, since a proper server would not let an answer break off where a test wants it.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::reply::{Ending, Reply, Step};
use super::stand_in::{Asked, State};

pub(super) async fn serve(listener: std::net::TcpListener, state: Arc<State>) {
    let listener = TcpListener::from_std(listener).expect("the stand-in's port");
    let mut connection = 0;
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        let (state, number) = (state.clone(), connection);
        // The other side hangs up on us in many of these tests: that is no failure of the stand-in.
        tokio::spawn(async move { converse(BufReader::new(stream), number, &state).await });
        connection += 1;
    }
}

/// Answers one request after the other.
async fn converse(mut stream: BufReader<TcpStream>, number: usize, state: &State) -> io::Result<()> {
    loop {
        let asked = read(&mut stream, number).await?;
        let reply = state.answer(asked);
        match answer(&mut stream, reply).await {
            Ok(true) => state.answered(),
            Ok(false) => return Ok(()),
            Err(error) => {
                state.hung_up();
                return Err(error);
            }
        }
    }
}

async fn read(stream: &mut BufReader<TcpStream>, connection: usize) -> io::Result<Asked> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8(head).expect("a head of plain letters");
    let mut lines = head.lines();
    let mut first = lines.next().unwrap_or_default().split(' ');
    let (method, target) = (first.next().unwrap_or_default(), first.next().unwrap_or_default());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let headers: HashMap<String, String> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.get("content-length").map_or(0, |length| length.parse().expect("a length"));
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(Asked {
        method: method.to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        body: if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).expect("a body of JSON") },
        headers,
        at: Instant::now(),
        connection,
    })
}

/// Says everything; whether the connection can serve again. An error is a client that is not there any more.
async fn answer(stream: &mut BufReader<TcpStream>, reply: Reply) -> io::Result<bool> {
    if !reply.mute {
        let mut head = format!("HTTP/1.1 {} Scripted\r\ntransfer-encoding: chunked\r\n", reply.status);
        for (name, value) in &reply.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        stream.write_all(format!("{head}\r\n").as_bytes()).await?;
    }
    for step in reply.steps {
        match step {
            Step::Say(bytes) => {
                let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
                chunk.extend(bytes);
                chunk.extend(b"\r\n");
                stream.write_all(&chunk).await?;
                stream.flush().await?;
                // What was written before is read before, so that pieces stay pieces as far as that can be had.
                tokio::task::yield_now().await;
            }
            Step::Wait(gate) => tokio::select! {
                () = gate.wait() => {}
                gone = stream.read_u8() => return Err(hung_up(gone)),
            },
        }
    }
    match reply.ending {
        Ending::Finish => {
            stream.write_all(b"0\r\n\r\n").await?;
            stream.flush().await?;
            Ok(true)
        }
        Ending::Cut => {
            stream.shutdown().await?;
            Ok(false)
        }
        Ending::Hang => Err(hung_up(stream.read_u8().await)),
    }
}

/// Nobody says anything while an answer is under way, but goes.
fn hung_up(read: io::Result<u8>) -> io::Error {
    read.err().unwrap_or_else(|| io::Error::other("the client spoke out of turn"))
}
