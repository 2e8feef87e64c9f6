//! What this machine offers to keep a process in: each layer is tried, not guessed from a version.

use std::fs;
use std::path::{Path, PathBuf};

use landlock::{ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, Scope};

use crate::keeper::{Keeper, KeeperError};

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

/// Tries all layers. `keeper` is the command that starts one; `data` is a folder like those that tools get to see.
pub async fn layers(keeper: &[PathBuf], data: &Path) -> Vec<Layer> {
    let mut layers = keeper_layers(keeper, data).await;
    layers.extend([landlock(), seccomp()]);
    layers
}

/// Starts a keeper and lets it make a chat's room, as for a call. It ends when this returns.
async fn keeper_layers(command: &[PathBuf], data: &Path) -> Vec<Layer> {
    let made = async {
        let keeper = Keeper::start(command, data, false).await?;
        keeper.room().await?;
        Ok::<_, KeeperError>(keeper.extras())
    };
    let (found, extras) = match made.await {
        Ok(extras) => (Ok("user, mount, pid, net".to_owned()), extras.map(|(_, given)| given)),
        // Its own text sends people here.
        Err(KeeperError::Start(reason) | KeeperError::Refused(reason)) => (Err(reason), [false; 2]),
        Err(error @ (KeeperError::Gone(_) | KeeperError::Ending)) => (Err(error.to_string()), [false; 2]),
    };
    let (no_reason, [own_user, group]) = (found.is_err(), extras);
    let extra = |given: bool, what: &str, why: &str| match (given, no_reason) {
        (true, _) => Ok(what.to_owned()),
        (false, true) => Err("not without namespaces".to_owned()),
        (false, false) => Err(why.to_owned()),
    };
    vec![
        Layer {
            name: "namespaces",
            found,
            advice: "allow them for ordinary users: sysctl kernel.unprivileged_userns_clone=1 and, on Ubuntu, \
                     kernel.apparmor_restrict_unprivileged_userns=0; in a container, run it with user namespaces allowed",
        },
        Layer {
            name: "own user",
            found: extra(
                own_user,
                "tools have no rights outside",
                "the data folder's file system cannot be mapped to another user",
            ),
            advice: "run Kitbag as an ordinary user, or keep its data on ext4, xfs, btrfs or tmpfs",
        },
        Layer {
            name: "control group",
            found: extra(group, "memory and processes of all tools together", "no group can be made here"),
            advice: "let Kitbag make control groups, such as by Delegate=yes in a systemd unit; until then each process has \
                     its own limit, and all of them together have none",
        },
    ]
}

fn landlock() -> Layer {
    let works = |abi: &ABI| {
        let rules = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
        let rules = rules.handle_access(AccessFs::from_all(*abi));
        let rules = match *abi {
            ABI::V6 => rules
                .and_then(|rules| rules.handle_access(AccessNet::from_all(*abi)))
                .and_then(|rules| rules.scope(Scope::from_all(*abi))),
            ABI::V4 | ABI::V5 => rules.and_then(|rules| rules.handle_access(AccessNet::from_all(*abi))),
            _ => rules,
        };
        rules.and_then(|rules| rules.create()).is_ok()
    };
    let newest = [ABI::V6, ABI::V5, ABI::V4, ABI::V3, ABI::V2, ABI::V1].into_iter().find(works);
    let found = match newest {
        Some(ABI::V6) => Ok("ABI 6 or later".to_owned()),
        Some(abi) => Ok(format!("ABI {}", abi as i32)),
        None => Err("the kernel refuses it".to_owned()),
    };
    Layer { name: "landlock", found, advice: "use Linux 5.13 or later, started with landlock among its lsm= modules" }
}

fn seccomp() -> Layer {
    let actions = fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail").unwrap_or_default();
    let found =
        if actions.contains("errno") { Ok("filters".to_owned()) } else { Err("the kernel has no filters".to_owned()) };
    Layer { name: "seccomp", found, advice: "use a kernel built with CONFIG_SECCOMP_FILTER" }
}
