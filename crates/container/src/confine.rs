//! What a container may be: the one place that makes a request for one. It sees its image, read-only, a workspace and a folder for arguments
//! and result; it has no capability, gains none, and reaches nobody unless it may.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use bollard::models::{ContainerCreateBody, HostConfig, HostConfigLogConfig, Mount, MountType, ResourcesUlimits};
use kitbag_model::ContainerLimits;

use crate::engine::{Engine, EngineKind};

/// Where the workspace is inside.
pub(crate) const WORKSPACE: &str = "/workspace";

/// Where arguments and result are inside.
pub(crate) const EXCHANGE: &str = "/kitbag";

/// The largest file that it may write.
const LARGEST_FILE: i64 = 1 << 30;

/// How many files it may have open.
const OPEN_FILES: i64 = 1024;

/// The kernel counts these by user, whatever container they are in: it is `pids_limit` that holds one container back. An engine of an ordinary
/// user may set no more than that user has, so there it stays as it is.
const PROCESSES: i64 = 32_768;

/// How much fits into its `/tmp`.
const TMP: &str = "rw,nosuid,nodev,size=67108864,mode=1777";

/// Who it is on this machine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct User {
    /// The user's number.
    pub uid: u32,
    /// The group's number.
    pub gid: u32,
}

/// What it may use.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Bytes of memory. There is no swap beside it.
    pub memory: u64,
    /// Thousandths of a processor; none: all that there are. An engine of an ordinary user may be unable to limit them.
    pub milli_cpus: Option<u64>,
    /// Processes and threads.
    pub pids: u64,
}

/// So many processes a container may have if nobody says otherwise, and if somebody does.
const PIDS: u64 = 256;
const MOST_PIDS: u64 = 4096;

impl Limits {
    /// What a container may use: what its toolset says, within what this machine has and whoever runs it allows.
    pub fn within(wanted: &ContainerLimits, memory: u64) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get() as u64) * 1000;
        Self {
            memory: wanted.memory.unwrap_or(memory).min(memory),
            milli_cpus: wanted.milli_cpus.map(|wanted| wanted.min(processors)),
            pids: wanted.pids.unwrap_or(PIDS).min(MOST_PIDS),
        }
    }
}

/// What it sees of this machine, and as whom.
#[derive(Clone, Debug)]
pub struct Place {
    /// The folder that is its working directory.
    pub workspace: PathBuf,
    /// The folder for arguments and result; none: it is told and answers otherwise.
    pub exchange: Option<PathBuf>,
    /// Who owns both, as far as the engine sees.
    pub user: User,
    /// Whether it reaches the network.
    pub network: bool,
    /// What it may use.
    pub limits: Limits,
}

/// What is started.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The image, by its id.
    pub image: String,
    /// What is started; empty: what the image says.
    pub command: Vec<String>,
    /// Its variables.
    pub env: Vec<(String, String)>,
    /// What the engine keeps with it, so that it is found again.
    pub labels: BTreeMap<String, String>,
    /// What it sees and may use.
    pub place: Place,
}

/// What is asked of the engine.
pub(crate) fn request(engine: &Engine, spec: &Spec) -> ContainerCreateBody {
    let Spec { image, command, env, labels, place } = spec;
    // podman of an ordinary user shows that user as root unless it is told otherwise; Docker of an ordinary user always does.
    let is_own = engine.is_rootless();
    let keep_id = is_own && engine.kind() == EngineKind::Podman;
    let User { uid, gid } = if is_own && !keep_id { User { uid: 0, gid: 0 } } else { place.user };
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let bind = |source: &PathBuf, target: &str| Mount {
        target: Some(target.to_owned()),
        source: Some(source.to_string_lossy().into_owned()),
        typ: Some(MountType::BIND),
        read_only: Some(false),
        ..Mount::default()
    };
    let limit =
        |name: &str, most: i64| ResourcesUlimits { name: Some(name.to_owned()), soft: Some(most), hard: Some(most) };
    let host = HostConfig {
        network_mode: Some(if place.network { "bridge" } else { "none" }.to_owned()),
        readonly_rootfs: Some(true),
        privileged: Some(false),
        cap_drop: Some(vec!["ALL".to_owned()]),
        security_opt: Some(vec!["no-new-privileges".to_owned()]),
        memory: Some(number(place.limits.memory)),
        memory_swap: Some(number(place.limits.memory)),
        nano_cpus: place.limits.milli_cpus.map(|milli| number(milli).saturating_mul(1_000_000)),
        pids_limit: Some(number(place.limits.pids)),
        ulimits: Some(
            [limit("nofile", OPEN_FILES), limit("fsize", LARGEST_FILE), limit("core", 0)]
                .into_iter()
                .chain((!is_own).then(|| limit("nproc", PROCESSES)))
                .collect(),
        ),
        mounts: Some(
            [bind(&place.workspace, WORKSPACE)]
                .into_iter()
                .chain(place.exchange.iter().map(|exchange| bind(exchange, EXCHANGE)))
                .collect(),
        ),
        tmpfs: Some(HashMap::from([("/tmp".to_owned(), TMP.to_owned())])),
        ipc_mode: Some("private".to_owned()),
        userns_mode: keep_id.then(|| "keep-id".to_owned()),
        // What it says is read as it comes, and kept by us within a limit. The engine's own copy would have none.
        log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
        ..HostConfig::default()
    };
    let set = env.iter().map(|(name, value)| format!("{name}={value}"));
    let files = [
        format!("KITBAG_ARGS_FILE={EXCHANGE}/{}", crate::result::ARGS),
        format!("KITBAG_RESULT_FILE={EXCHANGE}/{}", crate::result::RESULT),
    ];
    let files = files.into_iter().filter(|_| place.exchange.is_some());
    let ours = ["HOME=/tmp".to_owned()].into_iter().chain(files);
    let (program, rest) = match command.split_first() {
        Some((program, rest)) => (Some(vec![program.clone()]), Some(rest.to_vec())),
        None => (None, None),
    };
    ContainerCreateBody {
        image: Some(image.clone()),
        entrypoint: program,
        cmd: rest,
        user: Some(format!("{uid}:{gid}")),
        working_dir: Some(WORKSPACE.to_owned()),
        env: Some(ours.chain(set).collect()),
        labels: Some(labels.clone().into_iter().collect()),
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        open_stdin: Some(true),
        stdin_once: Some(true),
        host_config: Some(host),
        ..ContainerCreateBody::default()
    }
}
