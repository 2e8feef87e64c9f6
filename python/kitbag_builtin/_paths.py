"""Paths of the workspace: what a caller names must be inside, whatever links and `..` say."""

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from covalt_toolset import get_context

# More than anyone wants to look at; a walk must end.
MOST_ENTRIES = 200_000


def workspace() -> Path:
    """The workspace, without links."""
    return get_context().workspace.resolve()


def inside(path: str) -> Path:
    """Where a path of the workspace is. What leads out of it is refused."""
    root = workspace()
    if "\0" in path:
        raise ValueError("a path cannot have a NUL character")
    try:
        # The last part is resolved as well: a link to /etc/passwd is not a file of the workspace.
        target = (root / path).resolve()
    except (OSError, RuntimeError):
        raise ValueError(f"{path} cannot be followed: its links lead in a circle") from None
    if target != root and root not in target.parents:
        raise PermissionError(f"{path} leads out of the workspace")
    # From Python 3.13 on, links that lead in a circle are left as they are instead of being an error.
    if any(part.is_symlink() for part in (target, *target.parents) if root in part.parents):
        raise ValueError(f"{path} cannot be followed: its links lead in a circle")
    return target


def shown(target: Path) -> str:
    """A path as it is shown: relative to the workspace."""
    return target.relative_to(workspace()).as_posix()


def file(path: str) -> Path:
    """A file that is there."""
    target = inside(path)
    if target.is_dir():
        raise IsADirectoryError(f"{path or '.'} is a folder, not a file")
    if not target.exists():
        raise FileNotFoundError(f"there is no file {path} in the workspace")
    if not target.is_file():
        raise ValueError(f"{path} is not an ordinary file")
    return target


def text(path: str, most: int) -> tuple[Path, str]:
    """A text file and what is in it, line endings as they are."""
    target = file(path)
    size = target.stat().st_size
    if size > most:
        raise ValueError(f"{path} is too large: it has {size:,} bytes, and {most:,} are the most")
    data = target.read_bytes()
    if b"\0" in data[:8192]:
        raise ValueError(f"{path} is a binary file ({size:,} bytes), not text")
    try:
        return target, data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not text in UTF-8: byte {error.start} is 0x{data[error.start]:02x}") from None


def walk(folder: Path) -> tuple[list[str], bool]:
    """The files below a folder, relative to it, sorted, and whether there are more than were looked at. Links are files
    here and are not followed."""
    found: list[str] = []
    waiting = [""]
    while waiting:
        prefix = waiting.pop()
        for name, is_folder in _entries(folder / prefix):
            if is_folder:
                waiting.append(f"{prefix}{name}/")
                continue
            if len(found) >= MOST_ENTRIES:
                return sorted(found), True
            found.append(prefix + name)
    return sorted(found), False


def _entries(folder: Path) -> Iterator[tuple[str, bool]]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                try:
                    # A name that is no UTF-8 cannot be said in JSON.
                    entry.name.encode("utf-8")
                except UnicodeEncodeError:
                    continue
                yield entry.name, entry.is_dir(follow_symlinks=False)
    except OSError:
        # A folder that may not be read has no files to show.
        return


def is_file(target: Path) -> bool:
    """Whether it is an ordinary file and no link."""
    try:
        return stat.S_ISREG(target.lstat().st_mode)
    except OSError:
        return False


def glob(pattern: str) -> "re.Pattern[str]":
    """A pattern for paths: `*` and `?` stay in one folder, `**` goes through any number of them."""
    regex = ""
    place = 0
    while place < len(pattern):
        rest = pattern[place:]
        if rest.startswith("**/"):
            regex, place = regex + "(?:[^/]+/)*", place + 3
        elif rest.startswith("**"):
            regex, place = regex + ".*", place + 2
        elif rest[0] == "*":
            regex, place = regex + "[^/]*", place + 1
        elif rest[0] == "?":
            regex, place = regex + "[^/]", place + 1
        elif rest[0] == "[" and "]" in rest[2:]:
            end = rest.index("]", 2)
            members = rest[1:end].replace("\\", r"\\").replace("[", r"\[")
            members = "^/" + members[1:] if members[0] in "!^" else members
            regex, place = regex + f"[{members}]", place + end + 1
        else:
            regex, place = regex + re.escape(rest[0]), place + 1
    try:
        return re.compile(regex, re.DOTALL)
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a pattern for paths: {error}") from None
