"""Run a command in the workspace."""

import os
import select
import signal
import subprocess
import time
from typing import Any

from covalt_toolset import get_context, tool

# What is kept of the output: its beginning and its end.
HEAD = 32 * 1024
TAIL = 96 * 1024


@tool(name="Run Command", description="Run a shell command in the workspace.", requires_confirmation=True)
def run_command(command: str, timeout: float = 120) -> dict[str, Any]:
    """
    Args:
        command: The command.
        timeout: After how many seconds to stop it.
    """
    if not 0 < timeout < float("inf"):
        raise ValueError("timeout is a number of seconds, more than 0")
    if "\0" in command:
        raise ValueError("a command cannot have a NUL character")
    output = _Output()
    process = subprocess.Popen(
        ["/bin/sh", "-c", command],
        cwd=get_context().workspace,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        # A group of its own, so that a timeout ends all of it.
        start_new_session=True,
    )
    try:
        timed_out = _follow(process, output, time.monotonic() + timeout)
    except BaseException:
        _end(process)
        raise
    text, left_out = output.text()
    return {
        "command": command,
        "output": text,
        "exit_code": process.returncode,
        "timed_out": timed_out,
        "truncated": left_out > 0,
    }


class _Output:
    """The beginning and the end of what was printed."""

    def __init__(self) -> None:
        self.head = bytearray()
        self.tail = bytearray()
        self.size = 0

    def add(self, data: bytes) -> None:
        self.size += len(data)
        room = HEAD - len(self.head)
        self.head += data[:room]
        self.tail += data[room:]
        if len(self.tail) > 2 * TAIL:
            del self.tail[:-TAIL]

    def text(self) -> tuple[str, int]:
        tail = bytes(self.tail[-TAIL:])
        left_out = self.size - len(self.head) - len(tail)
        if not left_out:
            return (bytes(self.head) + tail).decode("utf-8", "replace"), 0
        middle = f"\n… {left_out:,} bytes are left out …\n"
        return bytes(self.head).decode("utf-8", "replace") + middle + tail.decode("utf-8", "replace"), left_out


def _follow(process: "subprocess.Popen[bytes]", output: _Output, deadline: float) -> bool:
    """Read until the command has ended. Gives whether it had to be stopped."""
    assert process.stdout is not None
    pipe = process.stdout.fileno()
    with process.stdout:
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                _end(process)
                # What it had said before.
                while output.size < HEAD + TAIL and select.select([pipe], [], [], 0)[0]:
                    data = os.read(pipe, 65536)
                    if not data:
                        break
                    output.add(data)
                return True
            ready = select.select([pipe], [], [], min(left, 0.05))[0]
            if ready:
                data = os.read(pipe, 65536)
                if not data:
                    break
                output.add(data)
            elif process.poll() is not None:
                # The shell has ended; something that it left behind still has the pipe.
                return False
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
        return False
    except subprocess.TimeoutExpired:
        _end(process)
        return True


def _end(process: "subprocess.Popen[bytes]") -> None:
    # The second word is said in any case: the shell may end at the first while others of its group do not listen.
    for word, patience in ((signal.SIGTERM, 1.0), (signal.SIGKILL, None)):
        try:
            os.killpg(process.pid, word)
        except ProcessLookupError:
            pass
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            continue
