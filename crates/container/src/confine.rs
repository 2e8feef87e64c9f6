//! What a container may be: the one place that makes a request for one. It sees its image, read-only, a workspace and a folder for arguments
//! and result; it has no capability, gains none, and reaches nobody unless it may.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use bollard::models::{ContainerCreateBody, HostConfig, HostConfigLogConfig, Mount, MountType, ResourcesUlimits};
use kitbag_model::ContainerLimits;

use crate::nature::{EngineKind, Nature};

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

/// Which users there are inside, and who it is there, so that outside it is whose the workspace is.
fn users(nature: &Nature, user: User) -> (Option<&'static str>, User) {
    match (nature.rootless, nature.kind) {
        // Docker of an ordinary user always shows that user as root.
        (true, EngineKind::Docker) => (None, User { uid: 0, gid: 0 }),
        // podman of an ordinary user does, unless it is told otherwise.
        (true, EngineKind::Podman) => (Some("keep-id"), user),
        // Either may be set up to take each user inside for another one outside, who can read neither workspace nor arguments. The user is not
        // root and has no capability: nothing is gained by being somebody else.
        (false, _) => (Some("host"), user),
    }
}

/// What is asked of the engine.
pub(crate) fn request(nature: &Nature, spec: &Spec) -> ContainerCreateBody {
    let Spec { image, command, env, labels, place } = spec;
    let is_own = nature.rootless;
    let (users, User { uid, gid }) = users(nature, place.user);
    // The workspace must be readable and may not be labelled anew: it is a folder of ours, which others read, too.
    let labelling = nature.labels_files.then(|| "label=disable".to_owned());
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
        security_opt: Some(["no-new-privileges".to_owned()].into_iter().chain(labelling).collect()),
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
        userns_mode: users.map(ToOwned::to_owned),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nature::Unlimited;

    fn nature(kind: EngineKind, rootless: bool, shifts_users: bool) -> Nature {
        Nature { kind, rootless, shifts_users, labels_files: false, unlimited: Unlimited::default() }
    }

    fn spec(network: bool, exchange: bool) -> Spec {
        Spec {
            image: "sha256:1".to_owned(),
            command: vec!["/bin/tool".to_owned(), "word".to_owned()],
            env: vec![("A".to_owned(), "b=c".to_owned())],
            labels: BTreeMap::from([("mine".to_owned(), "yes".to_owned())]),
            place: Place {
                workspace: "/data/work".into(),
                exchange: exchange.then(|| "/data/exchange".into()),
                user: User { uid: 1234, gid: 56 },
                network,
                limits: Limits { memory: 64 << 20, milli_cpus: Some(1500), pids: 7 },
            },
        }
    }

    #[test]
    fn who_it_is_inside_is_whose_the_workspace_is_outside() {
        use EngineKind::{Docker, Podman};
        // Kind, rootless, shifts users; the user, its users, whether processes are counted by user as well.
        let table = [
            (Docker, false, false, "1234:56", Some("host"), true),
            (Docker, false, true, "1234:56", Some("host"), true),
            (Docker, true, false, "0:0", None, false),
            (Docker, true, true, "0:0", None, false),
            (Podman, false, false, "1234:56", Some("host"), true),
            (Podman, false, true, "1234:56", Some("host"), true),
            (Podman, true, false, "1234:56", Some("keep-id"), false),
            (Podman, true, true, "1234:56", Some("keep-id"), false),
        ];
        for (kind, rootless, shifts_users, user, users, nproc) in table {
            let asked = request(&nature(kind, rootless, shifts_users), &spec(false, true));
            let host = asked.host_config.unwrap();
            let row = format!("{kind} {rootless} {shifts_users}");
            assert_eq!((asked.user.as_deref(), host.userns_mode.as_deref()), (Some(user), users), "{row}");
            let has_nproc = host.ulimits.unwrap().iter().any(|one| one.name.as_deref() == Some("nproc"));
            assert_eq!(has_nproc, nproc, "{row}");
            assert_eq!(host.network_mode.as_deref(), Some("none"), "{row}");
            assert_eq!(host.security_opt, Some(vec!["no-new-privileges".to_owned()]), "{row}");
            assert_eq!(host.cap_drop, Some(vec!["ALL".to_owned()]), "{row}");
            assert_eq!((host.privileged, host.readonly_rootfs), (Some(false), Some(true)), "{row}");
            assert_eq!((host.pid_mode, host.cap_add, host.devices), (None, None, None), "{row}");
            assert_eq!((host.memory, host.memory_swap), (Some(64 << 20), Some(64 << 20)), "{row}");
            assert_eq!((host.nano_cpus, host.pids_limit), (Some(1_500_000_000), Some(7)), "{row}");
        }
    }

    #[test]
    fn it_reaches_the_network_only_if_it_may_and_then_not_as_this_machine() {
        let network = |kind, may| {
            request(&nature(kind, false, false), &spec(may, true)).host_config.unwrap().network_mode.unwrap()
        };
        for kind in [EngineKind::Docker, EngineKind::Podman] {
            assert_eq!((network(kind, false).as_str(), network(kind, true).as_str()), ("none", "bridge"));
        }
    }

    #[test]
    fn it_sees_its_workspace_and_its_exchange_and_nothing_else() {
        let of = |exchange| {
            let asked = request(&nature(EngineKind::Docker, false, false), &spec(false, exchange));
            let host = asked.host_config.unwrap();
            assert_eq!((host.binds, host.volumes_from), (None, None));
            let mounts = host.mounts.unwrap().into_iter().map(|one| (one.source.unwrap(), one.target.unwrap()));
            (mounts.collect::<Vec<_>>(), asked.env.unwrap())
        };
        let pair = |source: &str, target: &str| (source.to_owned(), target.to_owned());
        let (mounts, env) = of(true);
        assert_eq!(mounts, [pair("/data/work", WORKSPACE), pair("/data/exchange", EXCHANGE)]);
        assert_eq!(
            env,
            ["HOME=/tmp", "KITBAG_ARGS_FILE=/kitbag/args.json", "KITBAG_RESULT_FILE=/kitbag/result.json", "A=b=c"]
        );
        let (mounts, env) = of(false);
        assert_eq!((mounts, env), (vec![pair("/data/work", WORKSPACE)], vec!["HOME=/tmp".into(), "A=b=c".into()]));
    }

    #[test]
    fn where_files_have_labels_a_container_has_none() {
        let nature = Nature { labels_files: true, ..nature(EngineKind::Podman, false, false) };
        let asked = request(&nature, &spec(false, true)).host_config.unwrap().security_opt.unwrap();
        assert_eq!(asked, ["no-new-privileges", "label=disable"]);
    }

    #[test]
    fn no_toolset_gets_more_than_there_is() {
        let wanted = ContainerLimits {
            memory: Some(u64::MAX),
            milli_cpus: Some(u64::MAX),
            pids: Some(u64::MAX),
            ..ContainerLimits::default()
        };
        let limits = Limits::within(&wanted, 1 << 30);
        assert_eq!((limits.memory, limits.pids), (1 << 30, MOST_PIDS));
        let processors = std::thread::available_parallelism().unwrap().get() as u64;
        assert_eq!(limits.milli_cpus, Some(processors * 1000));
        let limits = Limits::within(&ContainerLimits::default(), u64::MAX);
        let spec = Spec { place: Place { limits, ..spec(false, true).place }, ..spec(false, true) };
        let host = request(&nature(EngineKind::Docker, false, false), &spec).host_config.unwrap();
        assert_eq!((host.memory, host.pids_limit, host.nano_cpus), (Some(i64::MAX), Some(PIDS as i64), None));
    }
}
