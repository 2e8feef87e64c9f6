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
pub(crate) fn for_parents() -> Vec<BpfProgram> {
    // A child enters a user namespace and a network that others made. Nobody in a house makes one.
    let made = flags_of((libc::CLONE_NEWUSER | libc::CLONE_NEWNET) as u64);
    let namespaces = [(libc::SYS_unshare, made), (libc::SYS_clone, flags_of(NAMESPACES))];
    let refused = NEVER.iter().map(|call| (*call, vec![])).chain([sockets()]).chain(namespaces).chain(set_id_files());
    // What these ask for is in memory, where no filter can look. Every library falls back to openat and clone.
    let unreadable = [libc::SYS_openat2, libc::SYS_clone3].map(|call| (call, vec![]));
    vec![other_numbers(), compile(refused, libc::EPERM), compile(unreadable, libc::ENOSYS)]
}

/// For a call, on top of those of its parent: one filter after the other.
pub fn for_calls() -> Vec<BpfProgram> {
    vec![compile(NOT_IN_CALLS.iter().map(|call| (*call, vec![])), libc::EPERM)]
}

/// Calls whose first argument has one of these bits.
fn flags_of(bits: u64) -> Vec<SeccompRule> {
    let flags = (0..64).map(|bit| 1_u64 << bit).filter(|bit| bits & bit != 0);
    flags.map(|flag| rule(vec![condition(0, SeccompCmpOp::MaskedEq(flag), flag)])).collect()
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

fn sockets() -> (i64, Vec<SeccompRule>) {
    let others = SOCKETS.iter().map(|kind| condition(0, SeccompCmpOp::Ne, *kind as u64)).collect();
    // Of what the kernel can be asked this way only addresses and routes: the rest is for administrators, whom a child that
    // enters a room is one of for a moment.
    let asking = vec![
        condition(0, SeccompCmpOp::Eq, libc::AF_NETLINK as u64),
        condition(2, SeccompCmpOp::Ne, libc::NETLINK_ROUTE as u64),
    ];
    (libc::SYS_socket, vec![rule(others), rule(asking)])
}

/// Files that give whoever runs them the rights of their owner. If the server is root, root owns what tools write.
fn set_id_files() -> Vec<(i64, Vec<SeccompRule>)> {
    let bits = [libc::S_ISUID, libc::S_ISGID].map(u64::from);
    let has = |argument, bit| condition(argument, SeccompCmpOp::MaskedEq(bit), bit);
    let changing = |mode| bits.map(|bit| rule(vec![has(mode, bit)])).to_vec();
    // What opens a file and makes none has no mode: there can be anything in its place.
    let making = [libc::O_CREAT, libc::O_TMPFILE & !libc::O_DIRECTORY].map(|flag| u64::from(flag.unsigned_abs()));
    let opening = |flags, mode| {
        making.iter().flat_map(|made| bits.map(|bit| rule(vec![has(flags, *made), has(mode, bit)]))).collect()
    };
    let mut refused = vec![
        (libc::SYS_fchmod, changing(1)),
        (libc::SYS_fchmodat, changing(2)),
        (FCHMODAT2, changing(2)),
        (libc::SYS_mknodat, changing(2)),
        (libc::SYS_openat, opening(2, 3)),
    ];
    #[cfg(target_arch = "x86_64")]
    refused.extend([
        (libc::SYS_chmod, changing(1)),
        (libc::SYS_creat, changing(1)),
        (libc::SYS_mknod, changing(1)),
        (libc::SYS_open, opening(1, 2)),
    ]);
    refused
}

/// The same number everywhere, and not yet known to every library.
const FCHMODAT2: i64 = 452;

/// On some machines every call has a second number, which the other filters do not know.
fn other_numbers() -> BpfProgram {
    const LOAD: u16 = 0x20;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const SECOND: u32 = 0x4000_0000;
    let step = |code, jt, jf, k| seccompiler::sock_filter { code, jt, jf, k };
    vec![
        step(LOAD, 0, 0, 0),
        step(JUMP_IF_AT_LEAST, 0, 1, SECOND),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs()),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}

fn condition(argument: u8, operator: SeccompCmpOp, value: u64) -> SeccompCondition {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value).expect("calls have six arguments")
}

fn rule(conditions: Vec<SeccompCondition>) -> SeccompRule {
    SeccompRule::new(conditions).expect("it has a condition")
}

fn compile(refused: impl IntoIterator<Item = (i64, Vec<SeccompRule>)>, error: i32) -> BpfProgram {
    let architecture: TargetArch = std::env::consts::ARCH.try_into().expect("built for an architecture with filters");
    let rules: BTreeMap<i64, Vec<SeccompRule>> = refused.into_iter().collect();
    let error = SeccompAction::Errno(u32::try_from(error).expect("errors are positive"));
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, error, architecture).expect("the tables are sound");
    filter.try_into().expect("the tables are short enough for a program")
}
