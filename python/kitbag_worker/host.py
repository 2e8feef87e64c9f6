"""The host of one toolset's calls in one chat's room: it forks the process of each call.

A child is forked ahead, with all walls around it, and waits at the host's door for a call. It is the first process of its own
PID namespace: when it ends, so does everything that the call started. When the host ends, all of them do.
"""

import os
import select
import socket
import struct
import time
from typing import Any, Dict, Iterator, List, NoReturn, Optional, Tuple

from kitbag_worker import call, kernel

_fd = struct.Struct("i")
# Seconds after which a fork is tried again.
_PAUSE = 0.1
# So many children may end one after the other without a call that went well before a pause is made.
_PATIENCE = 20


class Host:
    """Children by number, and the two sockets to Kitbag."""

    def __init__(self, control: socket.socket, door: socket.socket, house: Dict[str, Any], runtime: Any) -> None:
        self._control, self._door, self._house, self._runtime = control, door, house, runtime
        # Without namespaces a call's processes are known by being descendants of this one: nobody else may be.
        self._alone = house["namespaces"]
        self._children: Dict[int, Tuple[int, int]] = {}
        self._last = self._ahead = self._in_vain = 0
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)

    def serve(self, filters: List[Any], *, listen: bool) -> NoReturn:
        """Serves calls until Kitbag hangs up. It is the first of its namespace, so all that it started ends with it."""
        call.get_ready(self._house)
        self._say(b'{"host":1}', os.pidfd_open(os.getpid()))
        home = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC) if self._alone else -1
        while True:
            if not self._ahead:
                self._fork(home, filters, listen)
            for fd, _ in self._poll.poll(None if self._ahead else _PAUSE * 1000):
                if fd == self._control.fileno():
                    self._listen()
                else:
                    self._bury(fd)

    def _fork(self, home: int, filters: List[Any], listen: bool) -> None:
        if self._in_vain >= _PATIENCE:
            time.sleep(_PAUSE)
        try:
            pid = kernel.fork_into_namespace(home) if self._alone else os.fork()
        except OSError:
            # Too many processes for the moment. The calls wait.
            return
        self._last += 1
        if pid == 0:
            self._control.close()
            call.run(self._house, self._runtime, filters, self._door, self._last, listen=listen)
        handle = os.pidfd_open(pid)
        self._ahead = self._last
        self._in_vain += 1
        self._children[handle] = pid, self._last
        self._poll.register(handle, select.POLLIN)
        self._say(b'{"child":%d}' % self._last, handle)

    def _listen(self) -> None:
        note = self._control.recv(64)
        if not note:
            _leave(self._alone)
        # The child of this number has had its call and is to be followed by another. Without namespaces it has to end first.
        self._in_vain = 0
        if self._alone and int(note) == self._ahead:
            self._ahead = 0

    def _bury(self, handle: int) -> None:
        pid, number = self._children.pop(handle)
        self._poll.unregister(handle)
        os.close(handle)
        _, status = os.waitpid(pid, 0)
        if not self._alone:
            _end_orphans()
        if number == self._ahead:
            self._ahead = 0
        self._say(b'{"ended":%d,"status":%d}' % (number, status))

    def _say(self, message: bytes, handle: Optional[int] = None) -> None:
        beside = [] if handle is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, _fd.pack(handle))]
        try:
            self._control.sendmsg([message], beside)
        except OSError:
            _leave(self._alone)


def bury() -> Iterator[int]:
    """Buries the dead among this process's children."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid


def _leave(alone: bool) -> NoReturn:
    if not alone:
        _end_orphans()
    os._exit(0)


def _end_orphans() -> None:
    """Without a namespace nothing ends by itself: everything that a call started is a descendant of this process."""
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
