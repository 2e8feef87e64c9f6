"""The warm parent of a toolset: it has imported the modules, and forks.

A child is forked ahead and waits at the door. Whichever gets the next call tells the parent, which forks another, enters the
chat's room, and forks once more: that process is the first of its own PID namespace, and when it ends, so does everything
that the call started.
"""

import base64
import gc
import os
import select
import socket
import struct
import sys
import traceback
from typing import Any, Dict, Iterator, List, Optional, Set

from kitbag_worker import call, frames, kernel

# The most bytes of the note that comes with a call's descriptors.
_NOTE = 65536


def main() -> None:
    """Describes the tools, then serves calls until Kitbag hangs up."""
    hello, door = (socket.socket(fileno=int(number)) for number in sys.argv[1:3])
    for sock in (hello, door):
        sock.set_inheritable(False)
    house = frames.read(hello)
    if house is None:
        return
    from covalt_toolset import _runtime as runtime
    from covalt_toolset._context import Context

    runtime.Context = Context
    tools = [runtime.describe(house["root"], entry["entrypoint"], entry["schema"]) for entry in house["entries"]]
    frames.write(hello, {"tools": tools})
    house["landlock"] = kernel.landlock_version()
    filters = kernel.prepare_filters([base64.b64decode(program) for program in house["filters"]])
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
        # A call's lines are heard when they are said.
        stream.reconfigure(line_buffering=True)
    call.warm_up(runtime)
    # What is here now is shared with all children, as long as nobody touches it.
    gc.collect()
    gc.freeze()
    _serve(hello, door, house, runtime, filters)


def _serve(hello: socket.socket, door: socket.socket, house: Dict[str, Any], runtime: Any, filters: List[Any]) -> None:
    taken, taking = os.pipe()
    waiting: Set[int] = set()
    while True:
        while len(waiting) < house["ahead"]:
            try:
                pid = os.fork()
            except OSError:
                # Too many processes for the moment. The calls wait.
                select.select([hello], [], [], 0.05)
                break
            if pid == 0:
                hello.close()
                os.close(taken)
                _usher(door, taking, house, runtime, filters)
            waiting.add(pid)
        ready, _, _ = select.select([taken, hello], [], [], 1.0)
        if hello in ready:
            return
        if taken in ready:
            waiting.difference_update(number for (number,) in struct.iter_unpack("<i", os.read(taken, 256)))
        # One that died while it waited is replaced too.
        waiting.difference_update(_bury())


def _bury() -> Iterator[int]:
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid


def _usher(door: socket.socket, taking: int, house: Dict[str, Any], runtime: Any, filters: List[Any]) -> None:
    """Takes one call. Never returns."""
    control: Optional[socket.socket] = None
    try:
        kernel.die_with_parent()
        note, fds, _, _ = socket.recv_fds(door, _NOTE, 8)
        if not note:
            os._exit(0)
        os.write(taking, struct.pack("<i", os.getpid()))
        os.close(taking)
        door.close()
        talk, control = socket.socket(fileno=fds[0]), socket.socket(fileno=fds[1])
        out, err = fds[2], fds[3]
        listen = note[:1] == b"L"
        if house["namespaces"]:
            tree, user = fds[4], fds[5]
            kernel.enter_room(user, fds[6] if len(fds) > 6 else -1)
            kernel.mount_workspace(tree)
            for fd in fds[4:]:
                os.close(fd)
        else:
            kernel.become_reaper()
            os.chdir(note[1:].decode())
        pid = os.fork()
        if pid == 0:
            _become(house, talk, out, err)
            call.run(house, runtime, filters, socket.socket(fileno=3), listen)
        talk.close()
        os.close(out)
        os.close(err)
        _watch(pid, control, house["namespaces"])
    except BaseException as error:  # noqa: B902
        if control is None:
            traceback.print_exc()
            os._exit(1)
        frames.write(control, {"failed": f"{type(error).__name__}: {error}"})
    os._exit(0)


def _become(house: Dict[str, Any], talk: socket.socket, out: int, err: int) -> None:
    """The first process of the call's namespace, with nothing open but what is its own."""
    os.setsid()
    if house["namespaces"]:
        kernel.mount_private()
        os.chdir(house["workspace"])
    os.dup2(out, 1)
    os.dup2(err, 2)
    # The last that can fail: from here on there is nobody but the tool's own socket to complain to.
    number = talk.detach()
    if number != 3:
        os.dup2(number, 3, inheritable=False)
    os.closerange(4, 4096)


def _watch(pid: int, control: socket.socket, alone: bool) -> None:
    """Waits for the call's process and says how it ended; ends it when Kitbag says so, or is gone."""
    handle = os.pidfd_open(pid)
    ended = known = killed = False
    # It is not buried before Kitbag knows who it is: until then nobody else gets its number.
    while not (ended and (known or killed)):
        wanted = ([] if ended else [handle]) + ([] if killed else [control])
        ready, _, _ = select.select(wanted, [], [])
        ended = ended or handle in ready
        if control in ready:
            known = control.recv(1) == b"+"
            if not known:
                killed = True
                _end(pid, alone)
    _, status = os.waitpid(pid, 0)
    if not alone:
        _end_orphans()
    try:
        frames.write(control, {"status": status})
    except OSError:
        pass


def _end(pid: int, alone: bool) -> None:
    try:
        os.kill(pid, 9)
    except OSError:
        pass
    if not alone:
        _end_orphans()


def _end_orphans() -> None:
    """Without a namespace nothing ends by itself: everything that the call started is a descendant of this process."""
    for _ in range(100):
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            children = [int(word) for word in file.read().split()]
        if not children:
            return
        for child in children:
            try:
                os.kill(child, 9)
                os.waitpid(child, 0)
            except OSError:
                pass
