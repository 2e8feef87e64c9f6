//! An MCP server that is dialled: the one that others wrote, behind a door that sees the headers of every request.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::kit::installed;

pub(crate) struct Dialled {
    child: Child,
    pub(crate) url: String,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Dialled {
    #[allow(clippy::disallowed_methods, reason = "it is started around the program, not by it")]
    pub(crate) fn new() -> Self {
        // A number that was free a moment ago: the server cannot be given none.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let script = installed("KITBAG_TEST_NODE_MODULES", "@modelcontextprotocol/server-everything/dist/index.js");
        let child = Command::new(installed("KITBAG_TEST_NODE_MODULES", ".bin/node"))
            .args([&script, "streamableHttp"])
            .env("PORT", port.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let begun = (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        assert!(begun, "server-everything does not listen");
        let door = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://127.0.0.1:{}/mcp", door.local_addr().unwrap().port());
        let heads = Arc::new(Mutex::new(Vec::new()));
        let kept = heads.clone();
        std::thread::spawn(move || {
            for came in door.incoming().map_while(Result::ok) {
                let (there, kept) = (TcpStream::connect(("127.0.0.1", port)).unwrap(), kept.clone());
                let (from, to) = (came.try_clone().unwrap(), there.try_clone().unwrap());
                std::thread::spawn(move || carry(from, to, |text| kept.lock().unwrap().push(text.to_lowercase())));
                std::thread::spawn(move || carry(there, came, |_| ()));
            }
        });
        Self { child, url, heads }
    }

    /// Whether a request came with this header.
    pub(crate) fn heard(&self, name: &str, value: &str) -> bool {
        let line = format!("{name}: {value}").to_lowercase();
        self.heads.lock().unwrap().iter().any(|head| head.contains(&line))
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, see: impl Fn(&str)) {
    let mut part = [0; 16 << 10];
    while let Ok(read @ 1..) = from.read(&mut part) {
        see(&String::from_utf8_lossy(&part[..read]));
        if to.write_all(&part[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

impl Drop for Dialled {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
