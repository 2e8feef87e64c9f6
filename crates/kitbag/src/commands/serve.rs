//! `kitbag serve`

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kitbag_guard::dial::EgressPolicy;
use kitbag_server::{App, Bucket, Settings, embedded};
use kitbag_store::{Location, OpenError, Store};
use kitbag_trace::Exporter;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::net::TcpListener;
use tokio::sync::Notify;

use crate::cli::{Place, ServeFlags};
use crate::config::Config;
use crate::data::{Attempt, DataFolder, Hold};
use crate::failure::{Doing, Failure, not_opened};
use crate::signals::Signals;
use crate::{logging, output};

/// How long a command may be in the way of a server that starts.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);

/// How long a collector may take for the last spans.
const TRACES_PATIENCE: Duration = Duration::from_secs(5);

/// How long a database may take to be there: machines that start together do not start in order.
const DATABASE_PATIENCE: Duration = Duration::from_secs(30);

pub(crate) async fn run(place: &Place, flags: ServeFlags) -> Result<ExitCode, Failure> {
    let folder = DataFolder::open(place)?;
    let config = Config::load(&folder, place.config.as_deref(), flags)?;
    logging::start(&config.log, config.log_format.as_deref())?;
    // From the first: a signal that comes early must stop us in good order too.
    let signals = Signals::listen()?;
    raise_file_limit();
    if let Some(mode) = folder.open_to_others() {
        tracing::warn!(mode = format!("{mode:o}"), data = %folder.path().display(), "the data folder is open to others; chmod 700");
    }
    let _hold = hold(&folder).await?;
    settle_bytes(&folder, &config.settings)?;
    // Made now, so that a key that cannot be read is told at the start and not when somebody signs in.
    kitbag_server::check_master_key(folder.path(), config.settings.servers.master_key.as_ref())
        .map_err(|error| Failure::wrong_use(error.to_string()))?;
    for issuer in &config.settings.issuers {
        let secret = issuer.client.as_ref().and_then(|client| client.secret.as_ref());
        if let Some(Err(error)) = secret.map(|secret| secret.read()) {
            return Err(Failure::wrong_use(format!("issuers: {}: {error}", issuer.id)));
        }
    }
    let traces = start_traces(config.otlp.as_deref(), &config.settings.egress).await?;
    let store = open_store(&config.database).await?;
    if let Some(bucket) = &config.settings.blobs.bucket {
        reach_bucket(bucket).await?;
    }
    let token = embedded::ensure(&folder.token_file(), &store).await?;
    let (listener, settings) = bind(config.settings).await?;
    let url = format!("http://{}", settings.address);
    let app = App::new(store.clone(), settings, Some(start_metrics()?));

    app.check_shared_key().await.map_err(|error| Failure::failed(error.to_string()))?;
    if app.settings().nodes.advertise.is_some() && app.settings().blobs.bucket.is_none() && store.nodes().is_some() {
        tracing::warn!(
            "others are to reach this server (--advertise), but bytes are kept in its data folder alone: what is written here, no other \
             server can read. Give all of them the same bucket with --blobs"
        );
    }
    app.join().await.doing("cannot be one of the servers of this database")?;
    app.check_home().await.map_err(|error| Failure::wrong_use(error.to_string()))?;
    app.tidy_up().await;
    app.check_lists().await.map_err(|problems| Failure::wrong_use(problems.join("\n")))?;
    let announcement = folder.announce(&url, &token)?;
    tracing::info!(%url, database = store.kind(), data = %folder.path().display(), "ready");
    output::print(&format!("kitbag listening on {url}/?token={}", token.expose()))?;
    let quiet = app.clone();
    let resting = tokio::spawn(kitbag_guard::rest::when_quiet(move || quiet.forget_menus()));
    let drained = serve_until_stopped(listener, app.clone(), signals, config.drain).await;

    drop(announcement);
    resting.abort();
    if !drained {
        tracing::warn!("some requests did not finish in time and were cut off");
    }
    app.shut_down().await;
    app.save();
    store.close().await;
    if let Some(traces) = traces {
        traces.stop(TRACES_PATIENCE).await;
    }
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// Originals must not be taken for copies, nor copies for all that there is.
pub(crate) fn settle_bytes(folder: &DataFolder, settings: &Settings) -> Result<(), Failure> {
    kitbag_server::settle_bytes(folder.path(), settings.blobs.bucket.is_some())
        .map_err(|error| Failure::wrong_use(error.to_string()))
}

/// One server per data folder. A command may hold it for a moment; a server holds it for good.
async fn hold(folder: &DataFolder) -> Result<Hold, Failure> {
    let _queue = folder.queue()?;
    let end = Instant::now() + LOCK_PATIENCE;
    loop {
        if let Attempt::Held(hold) = folder.hold_alone()? {
            return Ok(hold);
        }
        // Commands share the folder with each other. If it cannot even be shared, a server has it.
        if folder.is_held_alone()? || Instant::now() > end {
            let holder = folder.announced()?.map_or_else(
                || "another kitbag process".to_owned(),
                |server| format!("process {} at {}", server.pid, server.url),
            );
            return Err(Failure::wrong_use(format!(
                "the data folder {} is in use by {holder}. Stop that one, or give another folder with --data",
                folder.path().display()
            )));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Opens the database, and waits for one that is still starting.
pub(crate) async fn open_store(location: &Location) -> Result<Store, Failure> {
    let end = Instant::now() + DATABASE_PATIENCE;
    loop {
        match Store::open(location).await {
            Err(OpenError::Unreachable(cause)) if Instant::now() < end => {
                tracing::warn!(%cause, "cannot reach the database yet; trying again");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            done => return done.map_err(not_opened),
        }
    }
}

/// Asks for the bucket, and waits for one that is still starting.
async fn reach_bucket(bucket: &Bucket) -> Result<(), Failure> {
    let end = Instant::now() + DATABASE_PATIENCE;
    loop {
        match bucket.check().await {
            Err(cause) if Instant::now() < end => {
                tracing::warn!(%cause, "cannot reach the bucket yet; trying again");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            done => return done.map_err(|cause| Failure::failed(format!("blobs: {cause}"))),
        }
    }
}

/// Every connection takes a file descriptor, and the usual soft limit is low. The hard one is what we were given.
fn raise_file_limit() {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum, ..limit };
    if let Err(error) = rustix::process::setrlimit(rustix::process::Resource::Nofile, raised) {
        tracing::warn!(%error, "cannot raise the limit of open files");
    }
}

/// Binds the address; afterwards the settings have the port that was picked.
pub(crate) async fn bind(settings: Settings) -> Result<(TcpListener, Settings), Failure> {
    let listener = TcpListener::bind(settings.address).await.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => Failure::failed(format!(
            "{} is in use by another program. Give another address with --listen; port 0 picks a free one",
            settings.address
        )),
        _ => Failure::failed(format!("cannot listen on {}: {error}", settings.address)),
    })?;
    let address = listener.local_addr()?;
    let mut nodes = settings.nodes.clone();
    if let Some(url) = nodes.advertise.as_mut().filter(|url| url.port() == Some(0)) {
        // It cannot fail: the URL has a host.
        let _ = url.set_port(Some(address.port()));
    }
    Ok((listener, Settings { address, nodes, ..settings }))
}

/// Traces what happens from now on, if there is somewhere to send it.
async fn start_traces(otlp: Option<&str>, egress: &EgressPolicy) -> Result<Option<Exporter>, Failure> {
    let Some(endpoint) = otlp else { return Ok(None) };
    let started = Exporter::start(endpoint, egress, "kitbag", env!("CARGO_PKG_VERSION")).await;
    started.map(Some).map_err(|error| Failure::wrong_use(format!("otlp: {error}")))
}

fn start_metrics() -> Result<PrometheusHandle, Failure> {
    // Histograms, and not quantiles: those of several servers can be put together.
    let builder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &kitbag_server::BUCKETS)
        .doing("cannot keep metrics")?;
    let handle = builder.install_recorder().doing("cannot keep metrics")?;
    kitbag_server::register_metrics();
    metrics::gauge!("kitbag_build_info", "version" => env!("CARGO_PKG_VERSION"), "commit" => env!("BUILT_FROM_COMMIT"))
        .set(1);
    let upkeep = handle.clone();
    tokio::spawn(async move {
        let mut tick = tokio::time::interval(Duration::from_secs(5));
        loop {
            tick.tick().await;
            upkeep.run_upkeep();
        }
    });
    Ok(handle)
}

/// Serves until the first signal, then drains until the deadline or the second. Whether every request finished.
async fn serve_until_stopped(listener: TcpListener, app: App, mut signals: Signals, drain: Duration) -> bool {
    let stop = Arc::new(Notify::new());
    let stopped = Arc::clone(&stop);
    let serving = kitbag_server::serve(listener, app, async move { stopped.notified().await }, drain);
    let asked_twice = async {
        signals.next().await;
        tracing::info!("stopping: waiting for running requests; a second signal ends them");
        stop.notify_one();
        signals.next().await;
    };
    tokio::select! {
        drained = serving => drained,
        () = asked_twice => false,
    }
}
