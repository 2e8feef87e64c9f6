//! The configuration: flags, then `KITBAG_*`, then `kitbag.toml`, then defaults. A key that nobody knows is an error:
//! a mistyped one would otherwise silently do nothing.

mod blobs;
mod issuers;
mod models;
mod organizations;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, CommandFactory, FromArgMatches};
use kitbag_guard::dial::{Allowed, EgressPolicy, Proxy};
use kitbag_model::Secret;
use kitbag_model::resolution::{Lists, RawLists};
use kitbag_server::{
    CallSettings, ContainerSettings, ContainersFor, FrameOrigin, Network, NodeSettings, PageFile, PageFiles,
    ResolutionSettings, RunSettings, ServerSettings, Settings, StageDomain, WorkspaceLimits,
};
use kitbag_store::Location;
use serde::Deserialize;
use url::Url;

use crate::cli::{Cli, ServeFlags};
use crate::data::DataFolder;
use crate::failure::Failure;
pub(crate) use blobs::open as open_bucket;

/// So many folders with programs go to the sandbox at once.
const MOST_PROGRAMS: usize = 8;

/// What means something else inside.
const OWN: [&str; 5] = ["/tmp", "/dev", "/proc", "/server", "/toolset"];

const DEFAULT_LISTEN: &str = "127.0.0.1:8700";

/// The keys of `kitbag.toml`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    listen: Option<String>,
    database: Option<String>,
    blobs: Option<String>,
    blob_cache_bytes: Option<u64>,
    workspace_cache_bytes: Option<u64>,
    advertise: Option<String>,
    node_lease_seconds: Option<u64>,
    drain_delay_seconds: Option<u64>,
    no_auth: Option<bool>,
    toolsets: Option<Vec<String>>,
    enabled_tools: Option<Vec<String>>,
    disabled_tools: Option<Vec<String>>,
    dynamic: Option<bool>,
    header_prefix: Option<String>,
    allowed_hosts: Option<Vec<String>>,
    public_url: Option<String>,
    stage_domain: Option<String>,
    frame_allow: Option<Vec<String>>,
    max_body_bytes: Option<usize>,
    max_upload_bytes: Option<u64>,
    max_workspace_bytes: Option<u64>,
    max_workspace_files: Option<u64>,
    egress_allow: Option<Vec<String>>,
    egress_ca_file: Option<PathBuf>,
    egress_proxy: Option<String>,
    tool_timeout: Option<u64>,
    confirmation_timeout: Option<u64>,
    max_result_bytes: Option<usize>,
    tool_memory_bytes: Option<u64>,
    sandbox: Option<String>,
    max_processes: Option<usize>,
    pass_environment: Option<Vec<String>>,
    containers: Option<String>,
    mcp_start: Option<String>,
    mcp_idle_seconds: Option<u64>,
    mcp_connect_seconds: Option<u64>,
    mcp_rate: Option<u32>,
    executor_lease_seconds: Option<u64>,
    model: Option<String>,
    anthropic_url: Option<String>,
    openai_url: Option<String>,
    max_tool_schema_bytes: Option<usize>,
    page: Option<PathBuf>,
    sandbox_programs: Option<Vec<PathBuf>>,
    sandbox_network: Option<bool>,
    max_queue_per_chat: Option<usize>,
    max_queue: Option<usize>,
    max_queued_runs: Option<u64>,
    max_turns: Option<usize>,
    strict_records: Option<bool>,
    request_timeout_seconds: Option<u64>,
    drain_seconds: Option<u64>,
    otlp: Option<String>,
    log: Option<String>,
    log_format: Option<String>,
    #[serde(default)]
    organizations: organizations::Tables,
    trusted_proxies: Option<Vec<String>>,
    #[serde(default)]
    issuers: Vec<issuers::Entry>,
}

/// Everything that a server needs to know before it starts.
pub(crate) struct Config {
    pub(crate) settings: Settings,
    pub(crate) database: Location,
    pub(crate) drain: Duration,
    /// Where traces go; none: nowhere.
    pub(crate) otlp: Option<String>,
    pub(crate) log: String,
    pub(crate) log_format: Option<String>,
}

impl Config {
    /// Puts the layers together.
    pub(crate) fn load(folder: &DataFolder, file: Option<&Path>, flags: ServeFlags) -> Result<Self, Failure> {
        refuse_unknown_variables()?;
        let named = file.and_then(|file| std::path::absolute(file).ok());
        let file = read_file(folder, file)?;
        let listen = flags.listen.or(file.listen).unwrap_or_else(|| DEFAULT_LISTEN.to_owned());
        let public_url = public_url(flags.public_url.or(file.public_url))?;
        let mut allowed_hosts = host_names(flags.allowed_hosts.or(file.allowed_hosts).unwrap_or_default())?;
        allowed_hosts.extend(public_url.as_ref().and_then(Url::host_str).map(str::to_owned));
        let egress = EgressPolicy {
            allow: allowed(flags.egress_allow.or(file.egress_allow).unwrap_or_default())?,
            ca_file: flags.egress_ca_file.or(file.egress_ca_file),
            proxy: proxy(flags.egress_proxy.or(file.egress_proxy))?,
            ..EgressPolicy::default()
        };
        let settings = Settings {
            address: parse_address(&listen)?,
            allowed_hosts,
            public_url,
            stage_domain: stage_domain(flags.stage_domain.or(file.stage_domain))?,
            frame_allow: frame_allow(flags.frame_allow.or(file.frame_allow).unwrap_or_default())?,
            no_auth: flags.no_auth.or(file.no_auth).unwrap_or(false),
            max_body_bytes: flags.max_body_bytes.or(file.max_body_bytes).unwrap_or(4 << 20),
            max_upload_bytes: flags.max_upload_bytes.or(file.max_upload_bytes).unwrap_or(1 << 30),
            workspace_limits: WorkspaceLimits {
                entries: flags.max_workspace_files.or(file.max_workspace_files).unwrap_or(200_000),
                bytes: flags.max_workspace_bytes.or(file.max_workspace_bytes).unwrap_or(20 << 30),
            },
            blobs: blobs::read(
                flags.blobs.or(file.blobs).as_deref(),
                (
                    flags.blob_cache_bytes.or(file.blob_cache_bytes),
                    flags.workspace_cache_bytes.or(file.workspace_cache_bytes),
                ),
                &egress,
            )?,
            egress,
            calls: CallSettings {
                tool_timeout: seconds(flags.tool_timeout.or(file.tool_timeout), 300),
                confirmation_timeout: seconds(flags.confirmation_timeout.or(file.confirmation_timeout), 300),
                max_result_bytes: flags.max_result_bytes.or(file.max_result_bytes).unwrap_or(256 << 10),
                tool_memory_bytes: flags.tool_memory_bytes.or(file.tool_memory_bytes).unwrap_or(2 << 30),
                require_sandbox: is_required(flags.sandbox.or(file.sandbox).as_deref())?,
                max_processes: flags.max_processes.or(file.max_processes).unwrap_or(8),
                pass_environment: variables(flags.pass_environment.or(file.pass_environment))?,
                max_queue_per_chat: flags.max_queue_per_chat.or(file.max_queue_per_chat).unwrap_or(64),
                max_queue: flags.max_queue.or(file.max_queue).unwrap_or(256),
                strict_records: flags.strict_records.or(file.strict_records).unwrap_or(false),
            },
            containers: ContainerSettings { allowed: containers_for(flags.containers.or(file.containers).as_deref())? },
            servers: ServerSettings {
                lazy: flags.mcp_start.or(file.mcp_start).is_none_or(|when| when == "lazy"),
                idle: flags
                    .mcp_idle_seconds
                    .or(file.mcp_idle_seconds)
                    .filter(|idle| *idle > 0)
                    .map(Duration::from_secs),
                connect: seconds(flags.mcp_connect_seconds.or(file.mcp_connect_seconds), 30),
                master_key: flags.master_key.map(Secret::new),
                sandbox_programs: programs(folder, flags.sandbox_programs.or(file.sandbox_programs))?,
                sandbox_network: flags.sandbox_network.or(file.sandbox_network).unwrap_or(false),
            },
            resolution: ResolutionSettings {
                lists: lists(&RawLists {
                    toolsets: flags.toolsets.or(file.toolsets.map(written)).as_deref(),
                    enabled_tools: flags.enabled_tools.or(file.enabled_tools.map(written)).as_deref(),
                    disabled_tools: flags.disabled_tools.or(file.disabled_tools.map(written)).as_deref(),
                    dynamic: flags.dynamic.or(file.dynamic.map(|yes| yes.to_string())).as_deref(),
                })?,
                header_prefix: header_prefix(flags.header_prefix.or(file.header_prefix))?,
            },
            organizations: organizations::read(file.organizations, flags.max_queued_runs.or(file.max_queued_runs))?,
            mcp_rate: flags.mcp_rate.or(file.mcp_rate).unwrap_or(5000),
            nodes: NodeSettings {
                advertise: advertise(flags.advertise.or(file.advertise))?,
                lease: seconds(flags.node_lease_seconds.or(file.node_lease_seconds), 15),
                linger: seconds(flags.drain_delay_seconds.or(file.drain_delay_seconds), 0),
            },
            runs: RunSettings { lease: seconds(flags.executor_lease_seconds.or(file.executor_lease_seconds), 60) },
            models: models::read(
                flags.model.or(file.model),
                flags.anthropic_url.or(file.anthropic_url),
                flags.openai_url.or(file.openai_url),
                flags.max_tool_schema_bytes.or(file.max_tool_schema_bytes),
                flags.max_turns.or(file.max_turns),
            )?,
            request_timeout: seconds(flags.request_timeout_seconds.or(file.request_timeout_seconds), 30),
            issuers: issuers::read(file.issuers)?,
            trusted_proxies: networks(flags.trusted_proxies.or(file.trusted_proxies).unwrap_or_default())?,
            page: page(flags.page.or(file.page))?,
            data: folder.path().to_owned(),
            config: named,
        };
        if settings.no_auth && !settings.address.ip().is_loopback() {
            return Err(Failure::wrong_use(format!(
                "no-auth is for loopback addresses only: on {} everybody who reaches it could run tools as you",
                settings.address
            )));
        }
        // The address that issuers send people back to, and that tokens are for, must be one that people reach.
        if !settings.issuers.is_empty() && settings.public_url.is_none() && !settings.address.ip().is_loopback() {
            return Err(Failure::wrong_use(format!(
                "issuers need public-url where others than this machine reach the server, as they do on {}",
                settings.address
            )));
        }
        if settings.max_body_bytes == 0 || settings.request_timeout.is_zero() {
            return Err(Failure::wrong_use("max-body-bytes and request-timeout-seconds must be at least 1"));
        }
        if settings.calls.tool_timeout.is_zero() || settings.calls.confirmation_timeout.is_zero() {
            return Err(Failure::wrong_use("tool-timeout and confirmation-timeout must be at least 1"));
        }
        if settings.runs.lease < Duration::from_secs(4) {
            return Err(Failure::wrong_use(
                "executor-lease-seconds must be at least 4: an executor is heard of four times in it",
            ));
        }
        if settings.nodes.lease < Duration::from_secs(2) {
            return Err(Failure::wrong_use("node-lease-seconds must be at least 2"));
        }
        let log_format = flags.log_format.or(file.log_format);
        if log_format.as_ref().is_some_and(|format| format != "text" && format != "json") {
            return Err(Failure::wrong_use("log_format: must be text or json"));
        }
        Ok(Self {
            settings,
            database: location(folder, flags.database.or(file.database)),
            drain: seconds(flags.drain_seconds.or(file.drain_seconds), 10),
            otlp: flags.otlp.or(file.otlp).map(|url| url.trim().to_owned()).filter(|url| !url.is_empty()),
            log: flags.log.or(file.log).unwrap_or_else(|| "info".to_owned()),
            log_format,
        })
    }

    /// What a command that opens the folder by itself needs: the same as a server with no flags.
    pub(crate) fn of_folder(folder: &DataFolder, file: Option<&Path>) -> Result<Self, Failure> {
        let only_variables = ServeFlags::augment_args(clap::Command::new("kitbag"));
        let flags =
            only_variables.try_get_matches_from(["kitbag"]).and_then(|found| ServeFlags::from_arg_matches(&found));
        Self::load(folder, file, flags.map_err(|error| Failure::wrong_use(error.to_string()))?)
    }
}

/// The lists of toolsets and tools. Whether there is what they name is looked at when the database is open.
fn lists(raw: &RawLists<'_>) -> Result<Lists, Failure> {
    Lists::parse(*raw).map_err(|problems| Failure::wrong_use(problems.messages().join("\n")))
}

/// A list of the file as a flag would have it.
fn written(entries: Vec<String>) -> String {
    let encoded = |entry: String| entry.replace('%', "%25").replace(',', "%2C");
    entries.into_iter().map(encoded).collect::<Vec<_>>().join(",")
}

/// What the names of headers begin with.
fn header_prefix(text: Option<String>) -> Result<String, Failure> {
    let Some(text) = text.map(|text| text.trim().to_owned()) else {
        return Ok(ResolutionSettings::default().header_prefix);
    };
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if text.bytes().all(good) {
        return Ok(text);
    }
    Err(Failure::wrong_use(format!(
        "header-prefix: {text:?} cannot begin the name of a header; write one such as X-Mcp-"
    )))
}

/// Whether calls are refused when a layer of the sandbox cannot be had.
/// The names of variables that toolsets may know. Ours are not for them.
fn variables(names: Option<Vec<String>>) -> Result<Vec<String>, Failure> {
    let names = names.unwrap_or_else(|| CallSettings::default().pass_environment);
    match names.iter().find(|name| name.is_empty() || name.contains('=') || name.starts_with("KITBAG_")) {
        Some(name) => Err(Failure::wrong_use(format!(
            "pass-environment: \"{name}\" cannot be passed: write names of variables, none that begins with KITBAG_"
        ))),
        None => Ok(names),
    }
}

/// Where the page is.
fn page(folder: Option<PathBuf>) -> Result<PageFiles, Failure> {
    match folder {
        Some(folder) if !folder.join("index.html").is_file() => Err(Failure::wrong_use(format!(
            "page: {} has no index.html; build it with `npm run build`",
            folder.display()
        ))),
        Some(folder) => Ok(PageFiles::Folder(folder)),
        None => Ok(PageFiles::BuiltIn(|name| {
            kitbag_page::file(name).map(|file| PageFile { plain: file.plain.into(), brotli: file.brotli })
        })),
    }
}

/// Folders that everybody in the sandbox may see, so that none of them may lead to the data folder.
fn programs(data: &DataFolder, folders: Option<Vec<PathBuf>>) -> Result<Vec<PathBuf>, Failure> {
    let wrong = |folder: &Path, why: &str| Failure::wrong_use(format!("sandbox-programs: {}: {why}", folder.display()));
    let folders: Vec<PathBuf> =
        folders.unwrap_or_default().into_iter().filter(|it| !it.as_os_str().is_empty()).collect();
    if folders.len() > MOST_PROGRAMS {
        return Err(Failure::wrong_use(format!("sandbox-programs: name at most {MOST_PROGRAMS} folders")));
    }
    let data = std::path::absolute(data.path()).unwrap_or_else(|_| data.path().to_owned());
    let data = data.canonicalize().unwrap_or(data);
    let check = |folder: PathBuf| {
        let real = folder.canonicalize().ok().filter(|real| real.is_dir());
        match real {
            _ if !folder.is_absolute() => Err(wrong(&folder, "write the whole path")),
            None => Err(wrong(&folder, "there is no such folder")),
            Some(_) if OWN.iter().any(|own| folder.starts_with(own)) => {
                Err(wrong(&folder, "the sandbox has a folder of its own there"))
            }
            Some(real) if data.starts_with(&real) || real.starts_with(&data) => {
                Err(wrong(&folder, "everybody in the sandbox would see the data folder"))
            }
            // Seen where it is named: programs in it may refer to each other by their paths.
            Some(_) => Ok(folder),
        }
    };
    folders.into_iter().map(check).collect()
}

fn is_required(sandbox: Option<&str>) -> Result<bool, Failure> {
    match sandbox {
        None | Some("required") => Ok(true),
        Some("relaxed") => Ok(false),
        Some(_) => Err(Failure::wrong_use("sandbox: must be required or relaxed")),
    }
}

fn containers_for(whose: Option<&str>) -> Result<ContainersFor, Failure> {
    match whose {
        None | Some("local") => Ok(ContainersFor::Local),
        Some("off") => Ok(ContainersFor::Nobody),
        Some("all") => Ok(ContainersFor::All),
        Some(_) => Err(Failure::wrong_use("containers: must be off, local or all")),
    }
}

fn location(folder: &DataFolder, url: Option<String>) -> Location {
    url.map_or_else(|| Location::Sqlite(folder.database_file()), |url| Location::Postgres(Secret::new(url)))
}

fn seconds(given: Option<u64>, default: u64) -> Duration {
    Duration::from_secs(given.unwrap_or(default))
}

/// Addresses that may be dialled though they are not public.
fn allowed(entries: Vec<String>) -> Result<Vec<Allowed>, Failure> {
    let entries = entries.iter().map(|entry| entry.trim()).filter(|entry| !entry.is_empty());
    entries.map(|entry| entry.parse().map_err(|error| Failure::wrong_use(format!("egress-allow: {error}")))).collect()
}

fn networks(entries: Vec<String>) -> Result<Vec<Network>, Failure> {
    let entries = entries.iter().map(|entry| entry.trim()).filter(|entry| !entry.is_empty());
    let read =
        |entry: &str| entry.parse().map_err(|error| Failure::wrong_use(format!("trusted-proxies: {entry:?}: {error}")));
    entries.map(read).collect()
}

fn proxy(text: Option<String>) -> Result<Option<Proxy>, Failure> {
    let text = text.as_deref().map(str::trim).filter(|text| !text.is_empty());
    text.map(|text| text.parse().map_err(|error| Failure::wrong_use(format!("egress-proxy: {error}")))).transpose()
}

fn stage_domain(text: Option<String>) -> Result<Option<StageDomain>, Failure> {
    let text = text.as_deref().map(str::trim).filter(|text| !text.is_empty());
    text.map(|text| text.parse().map_err(|error| Failure::wrong_use(format!("stage-domain: {error}")))).transpose()
}

/// An origin: whatever is behind it is ours to say.
fn public_url(text: Option<String>) -> Result<Option<Url>, Failure> {
    origin("public-url", text, "https://kitbag.example.org")
}

/// Where other nodes find this one.
fn advertise(text: Option<String>) -> Result<Option<Url>, Failure> {
    origin("advertise", text, "http://10.0.0.5:8700")
}

fn origin(name: &str, text: Option<String>, such_as: &str) -> Result<Option<Url>, Failure> {
    let Some(text) = text.as_deref().map(str::trim).filter(|text| !text.is_empty()) else { return Ok(None) };
    let url = Url::parse(text).ok().filter(|url| {
        let bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
        let nobody = url.username().is_empty() && url.password().is_none();
        matches!(url.scheme(), "http" | "https") && url.host_str().is_some() && bare && nobody
    });
    let wrong = || Failure::wrong_use(format!("{name}: {text:?} is not an address such as {such_as}"));
    url.map(Some).ok_or_else(wrong)
}

fn frame_allow(entries: Vec<String>) -> Result<Vec<FrameOrigin>, Failure> {
    let entries = entries.iter().map(|entry| entry.trim()).filter(|entry| !entry.is_empty());
    entries.map(|entry| entry.parse().map_err(|error| Failure::wrong_use(format!("frame-allow: {error}")))).collect()
}

/// Names as they stand in a `Host` header, without scheme and port.
fn host_names(names: Vec<String>) -> Result<Vec<String>, Failure> {
    let names = names.iter().map(|name| name.trim()).filter(|name| !name.is_empty());
    let plain = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'-');
    let check = |name: &str| {
        let wrong =
            || Failure::wrong_use(format!("allowed-hosts: {name:?} is not a host name such as kitbag.example.org"));
        plain(name).then(|| name.to_owned()).ok_or_else(wrong)
    };
    names.map(check).collect()
}

fn parse_address(text: &str) -> Result<SocketAddr, Failure> {
    let numeric = text.strip_prefix("localhost:").map_or_else(|| text.to_owned(), |port| format!("127.0.0.1:{port}"));
    numeric.parse().map_err(|_| {
        Failure::wrong_use(format!("listen: {text:?} is not an address; write IP:PORT, such as {DEFAULT_LISTEN}"))
    })
}

fn read_file(folder: &DataFolder, file: Option<&Path>) -> Result<File, Failure> {
    let path = file.map_or_else(|| folder.config_file(), Path::to_owned);
    match std::fs::read_to_string(&path) {
        // The error's own text would quote the line, and the line may hold a password.
        Ok(text) => toml::from_str(&text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let number = before.matches('\n').count() + 1;
            let key =
                text.lines().nth(number - 1).and_then(|line| line.split_once('=')).map_or("", |(key, _)| key.trim());
            let of_key = if key.is_empty() { String::new() } else { format!(" ({key})") };
            Failure::wrong_use(format!("{}, line {number}{of_key}: {}", path.display(), error.message()))
        }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && file.is_none() => Ok(File::default()),
        Err(error) => Err(Failure::wrong_use(format!("{}: {error}", path.display()))),
    }
}

/// Which variables there are follows from the flags.
fn refuse_unknown_variables() -> Result<(), Failure> {
    let known = known_variables(&Cli::command());
    let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    let unknown: Vec<String> = names.filter(|name| name.starts_with("KITBAG_") && !known.contains(name)).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    Err(Failure::wrong_use(format!("unknown variable {}; there are {}", unknown.join(", "), known.join(", "))))
}

fn known_variables(command: &clap::Command) -> Vec<String> {
    let own = command.get_arguments().filter_map(|arg| arg.get_env()).map(|name| name.to_string_lossy().into_owned());
    let mut names: Vec<String> = own.chain(command.get_subcommands().flat_map(known_variables)).collect();
    names.sort();
    names.dedup();
    names
}
