"""Read, write, edit, list and search the files of the workspace."""

import os
import re
from typing import Any

from covalt_toolset import tool

from . import _paths
from ._diff import unified

MOST_FILE = 16 * 1024 * 1024
MOST_CONTENT = 256 * 1024
MOST_LISTED = 1_000
MOST_MATCHES = 200
MOST_LINE = 400


@tool(name="Read File", description="Read a text file of the workspace.")
def read_file(path: str, offset: int = 1, limit: int = 2000) -> dict[str, Any]:
    """
    Args:
        path: The file, relative to the workspace.
        offset: The first line to read, counted from 1.
        limit: How many lines to read.
    """
    if offset < 1 or limit < 1:
        raise ValueError("offset and limit are at least 1: lines are counted from 1")
    target, text = _paths.text(path, MOST_FILE)
    lines = text.split("\n")
    total = len(lines) if lines[-1] else len(lines) - 1
    if offset > max(total, 1):
        raise ValueError(f"{path} has only {total} lines; offset is {offset}")
    wanted = [line + "\n" for line in lines[offset - 1 : offset - 1 + limit]]
    if offset - 1 + limit >= len(lines):
        wanted[-1] = wanted[-1][:-1]
    kept: list[str] = []
    room = MOST_CONTENT
    for line in wanted:
        room -= len(line.encode("utf-8"))
        if room < 0 and kept:
            break
        kept.append(line if room >= 0 else line.encode("utf-8")[:MOST_CONTENT].decode("utf-8", "ignore"))
    content = "".join(kept)
    next_line = offset + len(kept)
    more = next_line <= total
    return {
        "path": _paths.shown(target),
        "content": content,
        "offset": offset,
        "lines": min(len(kept), max(total - offset + 1, 0)),
        "total_lines": total,
        "size": len(text.encode("utf-8")),
        "truncated": more or room < 0,
        "next_offset": next_line if more else None,
    }


@tool(name="Write File", description="Write a text file of the workspace, replacing one that is there.")
def write_file(path: str, content: str) -> dict[str, Any]:
    """
    Args:
        path: The file, relative to the workspace.
        content: All of its new content.
    """
    target = _paths.inside(path)
    if target.is_dir():
        raise IsADirectoryError(f"{path or '.'} is a folder, not a file")
    data = _encoded(content)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise NotADirectoryError(f"{path} cannot be written: a part of its path is a file, not a folder") from None
    created = not target.exists()
    target.write_bytes(data)
    return {"path": _paths.shown(target), "size": len(data), "created": created}


@tool(
    name="Edit File",
    description="Replace a text in a file of the workspace. The text must be there exactly once, unless all are meant.",
)
def edit_file(path: str, old: str, new: str, all: bool = False) -> dict[str, Any]:
    """
    Args:
        path: The file, relative to the workspace.
        old: The text to replace.
        new: What to put in its place.
        all: Whether to replace it everywhere.
    """
    if not old:
        raise ValueError("old is empty: there is nothing to look for; write_file makes a new file")
    if old == new:
        raise ValueError("old and new are the same: there is nothing to change")
    target, text = _paths.text(path, MOST_FILE)
    if old not in text and "\r\n" in text and "\r" not in old:
        # A file from Windows, edited by someone who sees its lines and not how they end.
        old, new = old.replace("\n", "\r\n"), new.replace("\r\n", "\n").replace("\n", "\r\n")
    places = _places(text, old, overlapping=not all)
    if not places:
        raise ValueError(f"old was found 0 times in {path}: it must be there as it is, spaces and line ends included")
    if len(places) > 1 and not all:
        lines = ", ".join(dict.fromkeys(str(text.count("\n", 0, place) + 1) for place in places[:10]))
        more = ", …" if len(places) > 10 else ""
        raise ValueError(
            f"old was found {len(places)} times in {path} (lines {lines}{more}): give more of the text around it, or all"
        )
    edited = text.replace(old, new)
    data = _encoded(edited)
    target.write_bytes(data)
    name = _paths.shown(target)
    diff, cut = unified(name, text, old, new, places)
    return {"path": name, "replaced": len(places), "size": len(data), "diff": diff, "truncated": cut}


@tool(name="List Files", description="List the files of the workspace, or those below a folder of it.")
def list_files(path: str = ".", pattern: str = "**") -> dict[str, Any]:
    """
    Args:
        path: A folder, relative to the workspace.
        pattern: Only files whose path fits it, such as **/*.py.
    """
    folder = _folder(path)
    fits = _paths.glob(pattern).fullmatch
    names, cut = _paths.walk(folder)
    names = [name for name in names if fits(name)]
    prefix = _prefix(folder)
    files: list[dict[str, Any]] = []
    for name in names[:MOST_LISTED]:
        try:
            entry: dict[str, Any] = {"path": prefix + name, "size": (folder / name).lstat().st_size}
            if (folder / name).is_symlink():
                entry["link"] = os.readlink(folder / name)
        except OSError:
            continue
        files.append(entry)
    return {
        "path": prefix.rstrip("/") or ".",
        "files": files,
        "total": len(names),
        "truncated": cut or len(names) > MOST_LISTED,
    }


@tool(name="Search Files", description="Search the text files of the workspace for a regular expression.")
def search_files(pattern: str, path: str = ".") -> dict[str, Any]:
    """
    Args:
        pattern: The regular expression.
        path: A folder, relative to the workspace.
    """
    try:
        search = re.compile(pattern).search
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None
    target = _paths.inside(path)
    if target.is_file():
        folder, names, cut = target.parent, [target.name], False
    else:
        folder = _folder(path)
        names, cut = _paths.walk(folder)
    prefix = _prefix(folder)
    matches: list[dict[str, Any]] = []
    searched = skipped = 0
    for name in names:
        text = _searchable(folder / name)
        if text is None:
            skipped += 1
            continue
        searched += 1
        for number, line in enumerate(text.split("\n"), 1):
            line = line.rstrip("\r")
            match = search(line)
            if match is None:
                continue
            if len(matches) == MOST_MATCHES:
                return _found(pattern, matches, searched, skipped, True)
            matches.append({"path": prefix + name, "line": number, "text": _around(line, match.start())})
    return _found(pattern, matches, searched, skipped, cut)


def _found(pattern: str, matches: list[dict[str, Any]], searched: int, skipped: int, truncated: bool) -> dict[str, Any]:
    return {
        "pattern": pattern,
        "matches": matches,
        "files_searched": searched,
        "files_skipped": skipped,
        "truncated": truncated,
    }


def _searchable(target: Any) -> str | None:
    if not _paths.is_file(target):
        return None
    try:
        if target.stat().st_size > MOST_FILE:
            return None
        data: bytes = target.read_bytes()
    except OSError:
        return None
    return None if b"\0" in data[:8192] else data.decode("utf-8", "replace")


def _around(line: str, place: int) -> str:
    """A line, or the part of a long one where the match is."""
    if len(line) <= MOST_LINE:
        return line
    start = max(0, min(place - MOST_LINE // 4, len(line) - MOST_LINE))
    end = start + MOST_LINE
    return ("…" if start else "") + line[start:end] + ("…" if end < len(line) else "")


def _folder(path: str) -> Any:
    folder = _paths.inside(path)
    if not folder.exists():
        raise FileNotFoundError(f"there is no folder {path} in the workspace")
    if not folder.is_dir():
        raise NotADirectoryError(f"{path} is a file, not a folder")
    return folder


def _prefix(folder: Any) -> str:
    name = _paths.shown(folder)
    return "" if name == "." else name + "/"


def _encoded(content: str) -> bytes:
    try:
        data = content.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"character {error.start} of the content is half of a character, which UTF-8 cannot carry"
        ) from None
    if len(data) > MOST_FILE:
        raise ValueError(f"the content is too large: it has {len(data):,} bytes, and {MOST_FILE:,} are the most")
    return data


def _places(text: str, old: str, overlapping: bool) -> list[int]:
    places = []
    place = text.find(old)
    while place >= 0:
        places.append(place)
        # "aa" is twice in "aaa" for someone who must say which one is meant.
        place = text.find(old, place + (1 if overlapping else len(old)))
    return places
