//! A whole server inside a command, for as long as the command needs one. It listens on a free port of this machine alone and is
//! announced like any other, so that other commands find it instead of working beside it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use kitbag_server::{App, NodeSettings, Settings, embedded};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::commands::serve::{bind, open_store, settle_bytes};
use crate::config::Config;
use crate::data::{DataFolder, Hold, RunningServer};
use crate::failure::{Doing, Failure};

/// How long the requests of others may take to finish when the command ends.
const DRAIN: Duration = Duration::from_secs(2);

/// A server that runs here.
pub(crate) struct Embedded {
    server: RunningServer,
    stop: Arc<Notify>,
    serving: JoinHandle<()>,
}

impl Embedded {
    /// Serves the folder, which nobody else does.
    pub(crate) async fn start(
        folder: &DataFolder,
        config: Option<&std::path::Path>,
        hold: Hold,
    ) -> Result<Self, Failure> {
        let config = Config::of_folder(folder, config)?;
        settle_bytes(folder, &config.settings)?;
        kitbag_server::check_master_key(folder.path(), config.settings.servers.master_key.as_ref())
            .map_err(|error| Failure::wrong_use(error.to_string()))?;
        let store = open_store(&config.database).await?;
        let token = embedded::ensure(&folder.token_file(), &store).await?;
        // Who is let in must show a token, whatever is configured: an agent at the other end must not be the owner.
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let nodes = NodeSettings { advertise: None, ..config.settings.nodes.clone() };
        let (listener, settings) = bind(Settings { address, no_auth: false, nodes, ..config.settings }).await?;
        let url = format!("http://{}", settings.address);
        let app = App::new(store.clone(), settings, None);
        app.join().await.doing("cannot be one of the servers of this database")?;
        app.check_home().await.map_err(|error| Failure::wrong_use(error.to_string()))?;
        app.tidy_up().await;
        app.check_lists().await.map_err(|problems| Failure::wrong_use(problems.join("\n")))?;
        let announcement = folder.announce(&url, &token)?;
        let server = RunningServer { url, token: token.expose().to_owned(), pid: std::process::id() };
        let stop = Arc::new(Notify::new());
        let stopped = stop.clone();
        let serving = tokio::spawn(async move {
            kitbag_server::serve(listener, app.clone(), async move { stopped.notified().await }, DRAIN).await;
            drop(announcement);
            app.shut_down().await;
            app.save();
            store.close().await;
            drop(hold);
        });
        Ok(Self { server, stop, serving })
    }

    pub(crate) fn server(&self) -> &RunningServer {
        &self.server
    }

    /// Stops it, and waits until everything is put away.
    pub(crate) async fn end(self) {
        self.stop.notify_one();
        let _ = self.serving.await;
    }
}
