"""Calls to the kernel that Python has no names for: entering a room, and locking the door behind it.

Everything that a call needs is prepared here when the parent starts, so that a child has little left to do.
"""

import ctypes
import os
import struct
from typing import List, Tuple

_libc = ctypes.CDLL(None, use_errno=True)
# Looked up once, here: what a child looks up is lost with it.
_syscall, _unshare, _setns, _mount, _prctl, _capset = (
    getattr(_libc, name) for name in ("syscall", "unshare", "setns", "mount", "prctl", "capset")
)
_syscall.restype = ctypes.c_long

NEWNS, NEWUSER, NEWPID, NEWNET, NEWIPC = 0x20000, 0x10000000, 0x20000000, 0x40000000, 0x08000000
_NOSUID, _NODEV, _NOEXEC = 2, 4, 8
_MOVE_MOUNT, _CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 429, 444, 445, 446
_SET_SECCOMP, _SUBREAPER, _DEATH_SIGNAL = 22, 36, 1

# Landlock's rights. A kernel that is older has fewer; those it does not know are left out.
_EXECUTE, _WRITE, _READ, _READ_DIR = 1, 2, 4, 8
_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}


def _check(result: int, what: str) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")
    return result


def enter_room(user: int, network: int) -> None:
    """Goes into a chat's user namespace and, if there is one to go into, its network. The next child gets its own processes."""
    _check(_setns(user, NEWUSER), "setns user")
    if network >= 0:
        _check(_setns(network, NEWNET), "setns net")
    _check(_unshare(NEWNS | NEWPID), "unshare")


def mount_workspace(tree: int) -> None:
    """Puts the workspace where tools expect it."""
    _check(_syscall(_MOVE_MOUNT, tree, b"", -100, b"/workspace", 4), "move_mount")


def fork_into_namespace(home: int) -> int:
    """Forks a child that is the first process of a PID namespace. `home` is the namespace of this process."""
    _check(_unshare(NEWPID), "unshare")
    try:
        pid = os.fork()
    except OSError:
        _check(_setns(home, NEWPID), "setns pid")
        raise
    if pid:
        # The next child is not for this one's namespace.
        _check(_setns(home, NEWPID), "setns pid")
    return pid


def mount_private() -> None:
    """A temporary folder, which shared memory is in too, and a view of the processes, that only this call has."""
    _check(_unshare(NEWNS | NEWIPC), "unshare")
    _check(_mount(b"tmpfs", b"/tmp", b"tmpfs", _NOSUID | _NODEV, b"size=512m,mode=1777"), "mount tmpfs")
    _check(_mount(b"proc", b"/proc", b"proc", _NOSUID | _NODEV | _NOEXEC, None), "mount proc")


_CAPABILITIES = struct.pack("<Ii", 0x20080522, 0), bytes(24)


def drop_capabilities() -> None:
    """Entering a room gave all power over it. From here on there is none."""
    _check(_capset(*_CAPABILITIES), "capset")


def end_me_first() -> None:
    """When memory is short, the kernel ends this process before others."""
    try:
        handle = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.write(handle, b"1000")
    except OSError:
        pass
    finally:
        os.close(handle)


def become_reaper() -> None:
    """Orphans of this process's children become its own."""
    _check(_prctl(_SUBREAPER, 1, 0, 0, 0), "subreaper")


def die_with_parent() -> None:
    _check(_prctl(_DEATH_SIGNAL, 9, 0, 0, 0), "pdeathsig")


def landlock_version() -> int:
    """0 if the kernel has none."""
    return max(0, _syscall(_CREATE_RULESET, None, 0, 1))


def landlock(version: int, reading: List[str], writing: List[str]) -> None:
    """From here on only what is below these paths can be read, and only what is below those be changed."""
    everything = (1 << _RIGHTS.get(min(version, 5), 16)) - 1
    # Sockets without a name in the file system, and signals, stay inside from version 6 on.
    scoped = 3 if version >= 6 else 0
    attributes = struct.pack("<QQQ", everything, 0, scoped)
    length = 24 if version >= 6 else 16 if version >= 4 else 8
    rules = _check(_syscall(_CREATE_RULESET, attributes, length, 0), "landlock")
    for paths, rights in ((reading, _EXECUTE | _READ | _READ_DIR), (writing, everything)):
        for path in paths:
            try:
                handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except OSError:
                continue
            if os.fstat(handle).st_mode & 0o170000 != 0o040000:
                # Not a folder: a file has no rights but these.
                allowed = rights & everything & (_EXECUTE | _WRITE | _READ | 1 << 14 | 1 << 15)
            else:
                allowed = rights
            _check(_syscall(_ADD_RULE, rules, 1, struct.pack("<Qi", allowed, handle), 0), "landlock")
            os.close(handle)
    _check(_syscall(_RESTRICT_SELF, rules, 0), "landlock")
    os.close(rules)


def prepare_filters(programs: List[bytes]) -> List[Tuple[bytes, object]]:
    """Filters, ready to be applied."""
    prepared = []
    for program in programs:
        steps = ctypes.create_string_buffer(program, len(program))
        prepared.append((struct.pack("@HP", len(program) // 8, ctypes.addressof(steps)), steps))
    return prepared


def apply_filters(filters: List[Tuple[bytes, object]]) -> None:
    """From here on some calls to the kernel are refused."""
    for program, _ in filters:
        _check(_prctl(_SET_SECCOMP, 2, program, 0, 0), "seccomp")
