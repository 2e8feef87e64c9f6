"""The warm parent of a toolset: it has imported the modules, and forks.

A child is forked ahead and waits at the door. Whichever is sent to a chat tells the parent, which forks another, enters the
chat's room, and becomes the host of this toolset's calls there.
"""

import base64
import gc
import json
import os
import select
import socket
import struct
import sys
import traceback
from typing import Any, Dict, List, Optional, Set

from kitbag_worker import call, frames, host, kernel

# The most bytes of the note that comes with a room's descriptors.
_NOTE = 65536


def main() -> None:
    """Describes the tools, then serves calls until Kitbag hangs up."""
    # It was for this process and those forked from it, not for what tools start.
    os.environ.pop("LD_BIND_NOW", None)
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
        waiting.difference_update(host.bury())


def _usher(door: socket.socket, taking: int, house: Dict[str, Any], runtime: Any, filters: List[Any]) -> None:
    """Enters one room. Never returns."""
    control: Optional[socket.socket] = None
    try:
        note, fds, _, _ = socket.recv_fds(door, _NOTE, 8)
        if not note:
            os._exit(0)
        os.write(taking, struct.pack("<i", os.getpid()))
        os.close(taking)
        door.close()
        control, inner = socket.socket(fileno=fds[0]), socket.socket(fileno=fds[1])
        if house["namespaces"]:
            tree, user = fds[2], fds[3]
            kernel.enter_room(user, fds[4] if len(fds) > 4 else -1)
            kernel.mount_workspace(tree)
            for fd in fds[2:]:
                os.close(fd)
            if os.fork():
                # The host is the first process of the room's own namespace. With it everything in there ends.
                os._exit(0)
        else:
            kernel.die_with_parent()
            kernel.become_reaper()
            os.chdir(note[1:].decode())
        host.Host(control, inner, house, runtime).serve(filters, listen=note[:1] == b"L")
    except BaseException as error:  # noqa: B902
        if control is None:
            traceback.print_exc()
            os._exit(1)
        control.send(json.dumps({"failed": f"{type(error).__name__}: {error}"}).encode())
    os._exit(0)
