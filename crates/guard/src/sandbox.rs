//! What this machine offers to keep a process in: each layer is tried, not guessed from a version.

use std::fs;

use landlock::{ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr};

use crate::process::Spec;

/// One layer of the sandbox.
#[derive(Clone, Debug)]
pub struct Layer {
    /// What it is called.
    pub name: &'static str,
    /// What was found, or why it does not work.
    pub found: Result<String, String>,
    /// What to do when it does not work.
    pub advice: &'static str,
}

/// Tries all layers.
pub async fn layers() -> Vec<Layer> {
    vec![bubblewrap().await, namespaces().await, landlock(), seccomp(), cgroups()]
}

async fn bubblewrap() -> Layer {
    let found = match Spec::new("bwrap").args(["--version"]).run().await {
        Ok(ended) if ended.code == Some(0) => Ok(ended.stdout.trim().to_owned()),
        Ok(ended) => Err(ended.stderr.trim().to_owned()),
        Err(error) => Err(error.to_string()),
    };
    Layer { name: "bubblewrap", found, advice: "install it: apt-get install bubblewrap" }
}

/// Makes the namespaces that a tool runs in, for a moment.
async fn namespaces() -> Layer {
    let args = ["--user", "--map-root-user", "--mount", "--pid", "--net", "--ipc", "--fork", "true"];
    let found = match Spec::new("unshare").args(args).run().await {
        Ok(ended) if ended.code == Some(0) => Ok("user, mount, pid, net, ipc".to_owned()),
        Ok(ended) => Err(ended.stderr.trim().to_owned()),
        Err(error) => Err(error.to_string()),
    };
    Layer {
        name: "namespaces",
        found,
        advice: "allow them for ordinary users: sysctl kernel.unprivileged_userns_clone=1 and, on Ubuntu, \
                 kernel.apparmor_restrict_unprivileged_userns=0; in a container, run it with user namespaces allowed",
    }
}

fn landlock() -> Layer {
    let works = |abi: &ABI| {
        let rules = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
        rules.handle_access(AccessFs::from_all(*abi)).and_then(|rules| rules.create()).is_ok()
    };
    let newest = [ABI::V5, ABI::V3, ABI::V2, ABI::V1].into_iter().find(works);
    let found =
        newest.map(|abi| format!("file rules of ABI {}", abi as i32)).ok_or_else(|| "the kernel refuses it".to_owned());
    Layer { name: "landlock", found, advice: "use Linux 5.13 or later, started with landlock among its lsm= modules" }
}

fn seccomp() -> Layer {
    let actions = fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail").unwrap_or_default();
    let found =
        if actions.contains("errno") { Ok("filters".to_owned()) } else { Err("the kernel has no filters".to_owned()) };
    Layer { name: "seccomp", found, advice: "use a kernel built with CONFIG_SECCOMP_FILTER" }
}

fn cgroups() -> Layer {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let has = |kind: &str| mounts.lines().any(|line| line.split(' ').nth(2) == Some(kind));
    let found = match (fs::exists("/sys/fs/cgroup/cgroup.controllers").unwrap_or(false), has("cgroup")) {
        (true, _) => Ok("version 2".to_owned()),
        (false, true) => Ok("version 1".to_owned()),
        (false, false) => Err("none are mounted".to_owned()),
    };
    Layer {
        name: "cgroups",
        found,
        advice: "mount them, so that memory and process limits hold for a tool's whole tree",
    }
}
