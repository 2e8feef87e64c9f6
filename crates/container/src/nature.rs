//! What an engine is, as far as what is asked of it depends on that: whose rights it has, what a user's number inside means outside, and what it
//! cannot limit.

use std::fmt;

use bollard::models::{SystemInfo, SystemInfoCgroupVersionEnum};

use crate::error::EngineError;

/// Which engine it is. They differ in what a user id inside means outside.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EngineKind {
    /// Docker, or what says nothing else.
    Docker,
    /// podman's service.
    Podman,
}

impl EngineKind {
    /// Its name in lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
        }
    }
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Docker => "Docker",
            Self::Podman => "podman",
        })
    }
}

/// What an engine is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Nature {
    /// Which one.
    pub kind: EngineKind,
    /// Whether it has the rights of an ordinary user.
    pub rootless: bool,
    /// Whether, by itself, it takes user 1000 of a container for another one of this machine.
    pub shifts_users: bool,
    /// Whether files must have the label of a container (SELinux) before that may read them.
    pub labels_files: bool,
    /// What it cannot limit.
    pub unlimited: Unlimited,
}

/// What an engine cannot limit. It is asked to all the same, says so in passing, and starts the container.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Unlimited {
    /// Memory.
    pub memory: bool,
    /// Processes and threads.
    pub pids: bool,
    /// Processors.
    pub cpus: bool,
}

impl Unlimited {
    /// What it is, as records and `doctor` name it.
    pub fn names(self) -> Vec<&'static str> {
        let all = [(self.memory, "memory"), (self.pids, "processes"), (self.cpus, "processors")];
        all.into_iter().filter_map(|(missing, name)| missing.then_some(name)).collect()
    }

    /// Refuses an engine with which one container can take all that the machine has. Who has too many processors only slows others down.
    pub fn check(self) -> Result<(), EngineError> {
        if !self.memory && !self.pids {
            return Ok(());
        }
        Err(EngineError::Unlimited(Self { cpus: false, ..self }.names().join(" and ")))
    }
}

impl Nature {
    /// What an engine says that it is.
    pub(crate) fn of(kind: EngineKind, said: &SystemInfo) -> Self {
        let options = said.security_options.as_deref().unwrap_or_default();
        // `name=seccomp,profile=default`; before they had names, engines said `seccomp`.
        let has = |wanted: &str| {
            let is = |part: &str| part == wanted || part.strip_prefix("name=") == Some(wanted);
            options.iter().any(|option| option.split(',').any(is))
        };
        let rootless = has("rootless");
        // What is not said is there: only a plain no counts. In the first version of control groups an ordinary user limits nothing, and podman says
        // there what the machine could.
        let powerless = rootless && said.cgroup_version == Some(SystemInfoCgroupVersionEnum::_1);
        let lacks = |can: Option<bool>| powerless || can == Some(false);
        Self {
            kind,
            rootless,
            shifts_users: has("userns"),
            labels_files: has("selinux"),
            unlimited: Unlimited {
                memory: lacks(said.memory_limit),
                pids: lacks(said.pids_limit),
                cpus: lacks(said.cpu_cfs_quota),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Nature {
        Nature::of(EngineKind::Docker, &serde_json::from_str(text).unwrap())
    }

    #[test]
    fn what_engines_say_of_themselves() {
        let plain = of(r#"{"SecurityOptions": ["name=apparmor", "name=seccomp,profile=default"]}"#);
        assert!(!plain.rootless && !plain.shifts_users && !plain.labels_files);
        assert_eq!(plain.unlimited, Unlimited::default(), "what is not said is there");
        assert!(of(r#"{"SecurityOptions": ["name=seccomp,profile=default", "name=rootless"]}"#).rootless);
        assert!(of(r#"{"SecurityOptions": ["name=userns"]}"#).shifts_users);
        assert!(of(r#"{"SecurityOptions": ["name=selinux"]}"#).labels_files);
        assert!(of(r#"{"SecurityOptions": ["selinux"]}"#).labels_files, "as it was said before options had names");
    }

    #[test]
    fn what_cannot_be_limited_is_told_and_the_worst_of_it_refused() {
        let names = |text: &str| of(text).unlimited.names().join(" ");
        let refused = |text: &str| of(text).unlimited.check().err().map(|error| error.to_string());
        let fine = r#"{"MemoryLimit": true, "PidsLimit": true, "CpuCfsQuota": true, "CgroupVersion": "1"}"#;
        assert_eq!((names(fine).as_str(), refused(fine)), ("", None));
        let slow = r#"{"MemoryLimit": true, "PidsLimit": true, "CpuCfsQuota": false}"#;
        assert_eq!((names(slow).as_str(), refused(slow)), ("processors", None));
        for (text, all, why) in [
            (r#"{"MemoryLimit": false}"#, "memory", "limit memory:"),
            (r#"{"PidsLimit": false, "CpuCfsQuota": false}"#, "processes processors", "limit processes:"),
            (r#"{"MemoryLimit": false, "PidsLimit": false}"#, "memory processes", "limit memory and processes:"),
            // An ordinary user where control groups are of the first version, whatever the machine could.
            (
                r#"{"MemoryLimit": true, "SecurityOptions": ["name=rootless"], "CgroupVersion": "1"}"#,
                "memory processes processors",
                "limit memory and processes:",
            ),
        ] {
            assert_eq!(names(text), all, "{text}");
            assert!(refused(text).unwrap().contains(why), "{text}: {:?}", refused(text));
        }
        assert_eq!(names(r#"{"SecurityOptions": ["name=rootless"], "CgroupVersion": "2"}"#), "");
    }
}
