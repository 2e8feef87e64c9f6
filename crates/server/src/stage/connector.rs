//! How the stage reaches a port of a chat's processes. Whose they are and in which network is known to the workers alone.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use kitbag_model::{ChatId, OrgId};
use tokio::net::TcpStream;

type Connecting = Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send>>;

/// Connects to a port on which a process of a chat listens. Clones share it.
#[derive(Clone)]
pub struct Connector(Arc<dyn Fn(OrgId, ChatId, u16) -> Connecting + Send + Sync>);

impl Connector {
    /// By this function.
    pub fn new<F>(connect: impl Fn(OrgId, ChatId, u16) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = io::Result<TcpStream>> + Send + 'static,
    {
        Self(Arc::new(move |org, chat, port| Box::pin(connect(org, chat, port))))
    }

    pub(super) async fn connect(&self, org: &OrgId, chat: ChatId, port: u16) -> io::Result<TcpStream> {
        (self.0)(org.clone(), chat, port).await
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}
