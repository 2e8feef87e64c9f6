"""What the tests share: toolsets made on the spot, described and called as a worker would."""

import sys
import textwrap
from pathlib import Path

import pytest

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from covalt_toolset import _runtime  # noqa: E402


class Toolset:
    """A toolset of one or more files, with a workspace."""

    def __init__(self, root: Path, workspace: Path) -> None:
        self.root = root
        self.workspace = workspace
        self.heard: list[dict] = []

    def write(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(textwrap.dedent(text), encoding="utf-8")

    def describe(self, entrypoint: str, schema: dict | None = None) -> dict:
        return _runtime.describe(str(self.root), entrypoint, schema)

    def schema(self, entrypoint: str) -> dict:
        found = self.describe(entrypoint)
        assert found["problem"] is None, found["problem"]
        return found["input_schema"]

    def call(self, entrypoint: str, args: dict | None = None, most_bytes: int = 100_000, listen: bool = False) -> dict:
        context = _runtime.Context(
            self.workspace, "chat", "toolset", {"key": "value"}, emit=self.heard.append, listen=listen
        )
        return _runtime.invoke(str(self.root), entrypoint, args or {}, context, most_bytes)

    def result(self, entrypoint: str, args: dict | None = None) -> object:
        outcome = self.call(entrypoint, args)
        assert "ok" in outcome, outcome
        return outcome["ok"]

    def error(self, entrypoint: str, args: dict | None = None, **more: int) -> dict:
        outcome = self.call(entrypoint, args, **more)
        assert "error" in outcome, outcome
        return outcome["error"]


@pytest.fixture
def toolset(tmp_path: Path) -> Toolset:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "toolset").mkdir()
    return Toolset(tmp_path / "toolset", tmp_path / "workspace")


HEADER = """
import collections, collections.abc, dataclasses, datetime, decimal, enum, pathlib, typing, uuid
from dataclasses import dataclass, field
from typing import *
try:
    from typing import NotRequired, Required
except ImportError:
    from typing_extensions import NotRequired, Required, TypedDict
from covalt_toolset import tool, get_context, Text, Image, File

class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"

class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2

class Shape(enum.Enum):
    UNIT = (1, 1)
    WIDE = (2, 1)

@dataclass
class Point:
    x: int
    y: int = 0

@dataclass
class Tree:
    value: str
    children: "list[Tree]" = field(default_factory=list)

class Movie(TypedDict):
    title: str
    year: NotRequired[int]

class Partial(TypedDict, total=False):
    a: Required[int]
    b: str

class Pair(NamedTuple):
    left: int
    right: str = "r"

T = TypeVar("T")
Number = TypeVar("Number", bound=int)
Either = TypeVar("Either", int, str)
UserId = NewType("UserId", int)

@dataclass
class Box(Generic[T]):
    inside: T
    more: List[T] = field(default_factory=list)
"""
