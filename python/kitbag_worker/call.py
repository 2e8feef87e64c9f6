"""One call, in the child that is for it alone."""

import os
import resource
import socket
import sys

# Not of the modules signal and threading: what those do beside is paid for in every process that is forked.
from _signal import SIG_DFL, SIGTERM, signal
from _thread import allocate_lock
from typing import Any, Callable, Dict, List, NoReturn, Optional, Tuple

from kitbag_worker import frames, kernel

Runtime = Any


class Stopped(BaseException):
    """Kitbag wants the call to end. Not an Exception: a tool that catches everything should not catch this."""


def get_ready(house: Dict[str, Any]) -> None:
    """What is the same for all calls, done before the first is forked."""
    # The first process of a namespace gets no signal that it has no handler for.
    signal(SIGTERM, _stop(house["namespaces"]))


def run(
    house: Dict[str, Any], runtime: Runtime, filters: List[Any], door: socket.socket, number: int, *, listen: bool
) -> NoReturn:
    """Locks the door, waits for a call, runs the tool, sends what it returned."""
    talk: Optional[socket.socket] = None
    try:
        problem: Optional[BaseException] = None
        layers: List[str] = []
        missing: List[str] = []
        try:
            layers, missing = _lock(house, filters)
        except Exception as error:
            # Whoever calls is told.
            problem = error
        first = frames.framed({"type": "taken", "number": number, "layers": layers, "missing": missing})
        talk = _take(door)
        talk.sendall(first)
        if problem:
            raise problem
        request = frames.read(talk)
        if request is None:
            os._exit(0)
        _limit(resource.RLIMIT_CPU, request["seconds"])
        if request["traceparent"]:
            # Where programs look for it that trace what they do themselves.
            os.environ["TRACEPARENT"] = request["traceparent"]
        me = os.getpid()
        reply = runtime.invoke(
            house["root"],
            request["entrypoint"],
            request["args"],
            runtime.Context(
                house["workspace"] or request["workspace"],
                request["chat"],
                request["toolset"],
                emit=_emitter(talk),
                listen=listen,
            ),
            request["most_bytes"],
        )
        if os.getpid() != me:
            # The tool forked, and this is the copy: the call is not its own to answer.
            os._exit(0)
        signal(SIGTERM, SIG_DFL)
        _flush()
        # Without a namespace of its own a call cannot know what is left of it.
        others, known = _bury(), house["namespaces"]
        if known and not others:
            # Whoever reads the log need not wait for the end of this process.
            os.close(1)
            os.close(2)
        left = known and listen and others
        frames.write(talk, {"type": "result", "left": left, "alone": known and not others, **reply})
        talk.shutdown(socket.SHUT_WR)
        if left:
            _stay()
    except Stopped:
        pass
    except BaseException as error:  # noqa: B902
        if talk:
            _say(talk, error)
    _flush()
    os._exit(0)


def _take(door: socket.socket) -> socket.socket:
    """Waits for a call. From then on nothing is open but what is its own."""
    _, fds, _, _ = socket.recv_fds(door, 1, 3)
    if len(fds) < 3:
        os._exit(0)
    os.dup2(fds[1], 1)
    os.dup2(fds[2], 2)
    if fds[0] != 3:
        os.dup2(fds[0], 3)
    os.set_inheritable(3, False)
    door.detach()
    os.closerange(4, 4096)
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno=3)


def warm_up(runtime: Runtime) -> None:
    """Does once what every call does, so that what is imported on the way is there for all of them."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        frames.write(ours, {"args": {"a": [1, 2.5, "x", None, True]}})
        frames.read(theirs)
    runtime.to_json({"a": [1, 2.5, "x", None, True]}, 1000, None)
    _emitter(ours)


def _lock(house: Dict[str, Any], filters: List[Any]) -> Tuple[List[str], List[str]]:
    """The walls that stand inside the room. What the machine cannot give is named; if it must, nothing runs."""
    layers, missing = [], []
    os.setsid()
    if house["namespaces"]:
        kernel.mount_private()
        os.chdir(house["workspace"])
    else:
        kernel.die_with_parent()
    kernel.end_me_first()
    if house["namespaces"]:
        layers += ["namespaces", "network" if house["network"] else "no network"]
        kernel.drop_capabilities()
    else:
        missing += ["namespaces", "no network"]
    version = house["landlock"]
    if version:
        writing = [house["workspace"] or os.getcwd(), *house["writing"]]
        kernel.landlock(version, house["reading"], writing)
        layers.append(f"landlock {version}")
    else:
        missing.append("landlock")
    if house["require"] and missing:
        raise RuntimeError("the sandbox lacks " + ", ".join(missing))
    _limit(resource.RLIMIT_NPROC, house["processes"])
    kernel.apply_filters(filters)
    return [*layers, "seccomp", "limits"], missing


def _limit(kind: int, most: int) -> None:
    try:
        resource.setrlimit(kind, (most, most))
    except (OSError, ValueError):
        pass


def _stop(alone: bool) -> Callable[..., None]:
    def stop(*_: Any) -> None:
        if alone:
            try:
                os.kill(-1, SIGTERM)
            except OSError:
                pass
        raise Stopped

    return stop


def _emitter(talk: socket.socket) -> Callable[[Dict[str, Any]], None]:
    lock = allocate_lock()

    def emit(message: Dict[str, Any]) -> None:
        with lock:
            frames.write(talk, message)

    return emit


def _say(talk: socket.socket, error: BaseException) -> None:
    try:
        message = f"{type(error).__name__}: {error}"
        frames.write(talk, {"type": "result", "left": False, "error": {"kind": "worker", "message": message, "traceback": None}})
    except BaseException:  # noqa: B902
        pass


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass


def _bury() -> bool:
    """Whether something is left of what the tool started, after the dead are buried. Orphans are our children too."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True


def _stay() -> None:
    """What the tool left running lives as long as this process, which does nothing but wait for it to end."""
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return
        except InterruptedError:
            continue
