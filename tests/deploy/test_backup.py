"""What copies an installation every night: each copy is one, few are kept, and what went wrong takes nothing away."""

import os
import subprocess
from pathlib import Path
from typing import Set

import pytest

from reading import DEPLOY

OLDER = ["2020-01-01T000000Z", "2020-01-02T000000Z", "2020-01-03T000000Z"]


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A folder with copies of other nights, and what a disk has by itself."""
    for name in [*OLDER, "lost+found"]:
        (tmp_path / "kept" / name).mkdir(parents=True)
    return tmp_path / "kept"


def back_up(program: Path, data: Path, kept: Path) -> int:
    (data.parent / "bin").mkdir()
    (data.parent / "bin" / "kitbag").symlink_to(program)
    path = f"{data.parent / 'bin'}:{os.environ['PATH']}"
    return subprocess.run([DEPLOY / "backup.sh", kept, "2"], env={"PATH": path, "KITBAG_DATA": str(data)}).returncode


def names(folder: Path) -> Set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_copy_is_an_installation_and_the_oldest_go(binary: str, kept: Path, tmp_path: Path):
    data, anew = tmp_path / "data", tmp_path / "anew"
    made = [binary, "--data", data, "admin", "token", "new", "--name", "of-the-copy", "--scope", "use"]
    subprocess.run(made, env={}, check=True, capture_output=True)
    # What a night before could not finish goes on.
    (kept / "unfinished").mkdir(mode=0o700)
    assert back_up(Path(binary), data, kept) == 0
    (copy,) = names(kept) - {*OLDER, "lost+found"}
    assert copy > OLDER[-1] and names(kept) == {copy, OLDER[-1], "lost+found"}
    subprocess.run([binary, "--data", anew, "admin", "restore", kept / copy], env={}, check=True, capture_output=True)
    listed = subprocess.run([binary, "--data", anew, "admin", "token", "list"], env={}, check=True, capture_output=True, text=True)
    assert "of-the-copy" in listed.stdout


def test_what_was_cut_off_has_no_date_and_takes_no_copy_away(kept: Path, tmp_path: Path):
    program = tmp_path / "cut-off"
    program.write_text('#!/bin/sh\nmkdir -p "$3" && echo half > "$3/kitbag.db"\nexit 1\n')
    program.chmod(0o755)
    assert back_up(program, tmp_path / "data", kept) == 1
    assert names(kept) == {*OLDER, "lost+found", "unfinished"}
