"""The context of a call: its workspace, whose it is, and the ways to say something while it runs.

It is a context variable, so asyncio tasks and `asyncio.to_thread` have it too. It knows no worker: what is said goes to a
callable that the worker gives, or to `logging` when there is none (a toolset's own tests).
"""

import os
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

if TYPE_CHECKING:
    import subprocess

LEVELS = ("debug", "info", "warning", "error")
Emit = Callable[[dict[str, Any]], None]


class Context:
    """What a tool may know of the call that it is answering."""

    __slots__ = ("workspace", "chat_id", "toolset_id", "extra", "_emit", "_listen")

    workspace: Path
    chat_id: str | None
    toolset_id: str | None
    extra: dict[str, Any]

    def __init__(
        self,
        workspace: Union[str, "os.PathLike[str]"],
        chat_id: str | None = None,
        toolset_id: str | None = None,
        extra: Mapping[str, Any] | None = None,
        *,
        emit: Emit | None = None,
        listen: bool = False,
    ) -> None:
        self.workspace = Path(workspace)
        self.chat_id = chat_id
        self.toolset_id = toolset_id
        self.extra = dict(extra or {})
        self._emit = emit
        self._listen = listen

    def __repr__(self) -> str:
        return f"Context(workspace={str(self.workspace)!r}, chat_id={self.chat_id!r}, toolset_id={self.toolset_id!r})"

    def progress(self, fraction: float | None = None, message: str | None = None) -> None:
        """Say how far the call is: a fraction from 0 to 1, what it is doing, or both."""
        if fraction is not None:
            fraction = float(fraction)
            if fraction != fraction:
                raise ValueError("progress: the fraction is not a number (NaN)")
            # Rounding must not end a tool: 1.0000000002 is done.
            fraction = min(1.0, max(0.0, fraction))
        if self._emit is not None:
            self._emit(
                {"type": "progress", "fraction": fraction, "message": None if message is None else _sayable(message)}
            )

    def log(self, message: object, level: str = "info") -> None:
        """Write a line to the log of the call. The level is debug, info, warning or error."""
        if level not in LEVELS:
            raise ValueError(f"log: there is no level {level!r}; the levels are {', '.join(LEVELS)}")
        if self._emit is not None:
            self._emit({"type": "log", "level": level, "message": _sayable(message)})
        else:
            import logging

            logging.getLogger("covalt_toolset").log(getattr(logging, level.upper()), "%s", message)

    def start_process(
        self,
        command: Sequence[str],
        *,
        name: str | None = None,
        cwd: Union[None, str, "os.PathLike[str]"] = None,
        env: Mapping[str, str] | None = None,
    ) -> "Process":
        """Start a program that may go on after the call, such as a development server.

        Args:
            command: The program and its arguments. No shell reads them.
            name: What to call it in the log.
            cwd: The folder it runs in, relative to the workspace.
            env: Variables to add to its environment.
        """
        if not self._listen:
            raise PermissionError(
                "start_process: this toolset may not leave processes running. "
                "Add `permissions: {listen: true}` to its toolset.yaml"
            )
        if isinstance(command, (str, bytes)) or not command:
            raise TypeError('start_process: the command is a list such as ["npm", "run", "dev"], not one text')
        import subprocess

        words = [os.fspath(word) for word in command]
        child = subprocess.Popen(
            words,
            cwd=self.workspace if cwd is None else self.workspace / cwd,
            env=None if env is None else {**os.environ, **env},
            stdin=subprocess.DEVNULL,
            # A group of its own, so that terminate() reaches what it starts and an interrupt of the call does not.
            start_new_session=True,
        )
        process = Process(child, name or os.path.basename(words[0]), words)
        self.log(f"started {process.name} as process {process.pid}")
        return process


def _sayable(message: object) -> str:
    # Half of a character, which a file name may have, is not to end a tool that only wanted to speak of it.
    return str(message).encode("utf-8", "backslashreplace").decode("utf-8")


class Process:
    """A program that `start_process` started."""

    __slots__ = ("pid", "name", "command", "_child")

    def __init__(self, child: "subprocess.Popen[bytes]", name: str, command: list[str]) -> None:
        self.pid = child.pid
        self.name = name
        self.command = command
        self._child = child

    def __repr__(self) -> str:
        return f"Process(pid={self.pid}, name={self.name!r})"

    def poll(self) -> int | None:
        """Its exit code, or None while it runs."""
        return self._child.poll()

    def terminate(self, grace: float = 2.0) -> int:
        """End it and what it started; kill them if they are still there after `grace` seconds. Gives its exit code."""
        import signal
        import subprocess

        for word in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.pid, word)
            except ProcessLookupError:
                break
            try:
                self._child.wait(grace)
            except subprocess.TimeoutExpired:
                continue
        return self._child.wait()


_current: "ContextVar[Context | None]" = ContextVar("covalt_toolset_context", default=None)


def get_context() -> Context:
    """The context of the call that is running."""
    context = _current.get()
    if context is None:
        raise RuntimeError("get_context() called outside of tool execution")
    return context


def set_context(
    workspace: Union[str, "os.PathLike[str]"],
    chat_id: str | None = None,
    toolset_id: str | None = None,
    **extra: Any,
) -> None:
    """Set the context by hand, for tests of tools. There is no manifest to ask, so `start_process` is allowed."""
    _current.set(Context(workspace, chat_id, toolset_id, extra, listen=True))


def clear_context() -> None:
    """Forget the context."""
    _current.set(None)
