//! A server with a stage, and plain connections to it: the requests here are ones that no HTTP client would send.
#![allow(clippy::disallowed_methods, reason = "tests connect to the servers that they started")]

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kitbag_guard::dial::EgressPolicy;
use kitbag_model::{ChatId, OrgId, RenderPlan};
use kitbag_testkit::TestDatabase;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::app::{App, Settings};
use crate::page::PageFiles;
use crate::stage::Connector;

/// Ports of chats, and where the test's own servers for them are.
type Ports = Arc<Mutex<HashMap<(ChatId, u16), SocketAddr>>>;

/// A running server.
pub(crate) struct Theatre {
    pub(crate) app: App,
    pub(crate) address: SocketAddr,
    pub(crate) org: OrgId,
    pub(crate) chat: ChatId,
    ports: Ports,
    _database: TestDatabase,
}

/// What a server answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Vec<&str> {
        let of = |line: &'_ str| -> Option<(String, usize)> {
            let (key, _) = line.split_once(':')?;
            Some((key.to_ascii_lowercase(), key.len() + 1))
        };
        let lines = self.head.lines().skip(1);
        lines.filter_map(|line| of(line).filter(|(key, _)| key == name).map(|(_, at)| line[at..].trim())).collect()
    }
}

impl Theatre {
    pub(crate) async fn open(change: impl FnOnce(&mut Settings)) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let theatre = Self::make(address, change).await;
        let app = theatre.app.clone();
        tokio::spawn(crate::serve(listener, app, std::future::pending(), Duration::ZERO));
        // The server opens its stage before it takes the first connection.
        theatre.get("127.0.0.1", "/healthz").await;
        theatre
    }

    /// One that does not listen.
    pub(crate) async fn closed() -> Self {
        Self::make(SocketAddr::from(([127, 0, 0, 1], 8700)), |_| ()).await
    }

    async fn make(address: SocketAddr, change: impl FnOnce(&mut Settings)) -> Self {
        let database = TestDatabase::sqlite();
        let store = database.open().await;
        let mut settings = Settings {
            address,
            allowed_hosts: vec!["kitbag.example".to_owned()],
            public_url: None,
            stage_domain: None,
            frame_allow: Vec::new(),
            no_auth: true,
            max_body_bytes: 1 << 20,
            max_upload_bytes: 1 << 20,
            workspace_limits: crate::WorkspaceLimits { entries: 1000, bytes: 1 << 30 },
            egress: EgressPolicy::default(),
            calls: crate::CallSettings::default(),
            containers: crate::ContainerSettings { allowed: crate::ContainersFor::Nobody },
            servers: crate::ServerSettings::default(),
            resolution: crate::ResolutionSettings::default(),
            organizations: crate::OrganizationsRules::default(),
            mcp_rate: 0,
            nodes: crate::NodeSettings::default(),
            runs: crate::runs::RunSettings::default(),
            models: Default::default(),
            issuers: Vec::new(),
            trusted_proxies: Vec::new(),
            page: PageFiles::Folder(PathBuf::new()),
            request_timeout: Duration::from_secs(30),
            blobs: crate::BlobSettings::default(),
            data: database.data().to_owned(),
            config: None,
        };
        change(&mut settings);
        let ports = Ports::default();
        let known = Arc::clone(&ports);
        let connector = Connector::new(move |_, chat, port| {
            let address = known.lock().expect("no test panics here").get(&(chat, port)).copied();
            async move {
                match address {
                    Some(address) => TcpStream::connect(address).await,
                    None => Err(io::ErrorKind::ConnectionRefused.into()),
                }
            }
        });
        let app = App::with_connector(store, settings, connector);
        let (org, chat) = (OrgId::local(), ChatId::generate());
        Self { app, address, org, chat, ports, _database: database }
    }

    /// Lets a port of a chat be one of the test's servers.
    pub(crate) fn listen(&self, chat: ChatId, port: u16, address: SocketAddr) {
        self.ports.lock().expect("no test panics here").insert((chat, port), address);
    }

    /// The host, with the port, under which a plan is shown.
    pub(crate) fn show(&self, chat: ChatId, plan: &RenderPlan) -> String {
        let shown = self.app.stage().present(&self.org, chat, "call", plan);
        let url = shown["config"]["url"].as_str().unwrap_or_else(|| panic!("{shown}"));
        url.split('/').nth(2).expect("a host").to_owned()
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("a connection to the server")
    }

    pub(crate) async fn get(&self, host: &str, path: &str) -> Answer {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")).await
    }

    /// Sends a request, whose connection ends with the answer.
    pub(crate) async fn send(&self, request: &str) -> Answer {
        let mut stream = self.connect().await;
        stream.write_all(request.as_bytes()).await.expect("the server takes the request");
        let mut bytes = Vec::new();
        // A server that refuses a body may cut the connection after its answer.
        let _ = stream.read_to_end(&mut bytes).await;
        parse(&bytes)
    }
}

/// Reads an answer from its bytes; parts of a body that comes in parts are put together.
pub(crate) fn parse(bytes: &[u8]) -> Answer {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let mut answer = Answer { status, head: head.to_owned(), body: body.to_owned() };
    if answer.header("transfer-encoding") == ["chunked"] {
        let (mut whole, mut rest) = (String::new(), body);
        while let Some((length, after)) = rest.split_once("\r\n") {
            let length = usize::from_str_radix(length, 16).expect("a length");
            whole.push_str(&after[..length.min(after.len())]);
            rest = after.get(length + 2..).unwrap_or_default();
        }
        answer.body = whole;
    }
    answer
}

/// Reads until what was read so far has `wanted` in it.
pub(crate) async fn read_until(stream: &mut TcpStream, wanted: &str) -> String {
    let mut read = Vec::new();
    while !String::from_utf8_lossy(&read).contains(wanted) {
        let mut part = [0; 4096];
        let length = stream.read(&mut part).await.expect("the server is there");
        assert!(length > 0, "it ended before {wanted:?}: {}", String::from_utf8_lossy(&read));
        read.extend_from_slice(&part[..length]);
    }
    String::from_utf8(read).expect("text")
}
