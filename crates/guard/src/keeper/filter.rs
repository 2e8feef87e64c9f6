//! Which calls to the kernel a tool may not make: those that no tool needs and that sandboxes are broken with.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};

/// Refused to everything.
const NEVER: &[i64] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_open_by_handle_at,
    libc::SYS_perf_event_open,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
];

/// Refused to a call's own code. A warm parent's children need them to enter the room, before the tool's turn.
const NOT_IN_CALLS: &[i64] = &[
    libc::SYS_chroot,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_pivot_root,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_setns,
    libc::SYS_umount2,
    libc::SYS_unshare,
];

const NAMESPACES: u64 = (libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWUTS) as u64;

/// The kinds of sockets that there are for tools. Others, such as those to the host of a virtual machine, are not kept in by a
/// network namespace.
const SOCKETS: [i32; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// For a warm parent.
pub(super) fn for_parents() -> Vec<BpfProgram> {
    vec![compile(NEVER.iter().map(|call| (*call, vec![])).chain(sockets()), libc::EPERM)]
}

/// For a call, on top of those of its parent: one filter after the other.
pub fn for_calls() -> Vec<BpfProgram> {
    let flags = (0..64).map(|bit| 1_u64 << bit).filter(|bit| NAMESPACES & bit != 0);
    let clone = flags.map(|flag| rule(condition(0, SeccompCmpOp::MaskedEq(flag), flag))).collect();
    let refused = NOT_IN_CALLS.iter().map(|call| (*call, vec![])).chain([(libc::SYS_clone, clone)]);
    // Its flags are in memory, where no filter can look. Every library falls back to clone.
    vec![compile(refused, libc::EPERM), compile([(libc::SYS_clone3, vec![])], libc::ENOSYS)]
}

/// As the kernel reads a program.
pub fn to_bytes(program: &BpfProgram) -> Vec<u8> {
    let bytes = program.iter().flat_map(|step| {
        let [c0, c1] = step.code.to_ne_bytes();
        let [k0, k1, k2, k3] = step.k.to_ne_bytes();
        [c0, c1, step.jt, step.jf, k0, k1, k2, k3]
    });
    bytes.collect()
}

/// Binds this process and all that come from it.
pub(super) fn apply(programs: &[BpfProgram]) -> io::Result<()> {
    for program in programs {
        seccompiler::apply_filter(program).map_err(io::Error::other)?;
    }
    Ok(())
}

fn sockets() -> [(i64, Vec<SeccompRule>); 1] {
    let others = SOCKETS.iter().map(|kind| condition(0, SeccompCmpOp::Ne, *kind as u64)).collect();
    [(libc::SYS_socket, vec![SeccompRule::new(others).expect("the table has conditions")])]
}

fn condition(argument: u8, operator: SeccompCmpOp, value: u64) -> SeccompCondition {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value).expect("calls have six arguments")
}

fn rule(condition: SeccompCondition) -> SeccompRule {
    SeccompRule::new(vec![condition]).expect("it has a condition")
}

fn compile(refused: impl IntoIterator<Item = (i64, Vec<SeccompRule>)>, error: i32) -> BpfProgram {
    let architecture: TargetArch = std::env::consts::ARCH.try_into().expect("built for an architecture with filters");
    let rules: BTreeMap<i64, Vec<SeccompRule>> = refused.into_iter().collect();
    let error = SeccompAction::Errno(u32::try_from(error).expect("errors are positive"));
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, error, architecture).expect("the tables are sound");
    filter.try_into().expect("the tables are short enough for a program")
}
