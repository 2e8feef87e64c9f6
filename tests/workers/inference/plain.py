"""One tool for each sort of parameter and result. Nothing here needs a package."""

import asyncio
import datetime
import enum
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Dict, List, Literal, Optional, Tuple, TypedDict, Union

from covalt_toolset import File, Image, Text, get_context, tool


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclass
class Point:
    """A place."""

    x: int
    y: int = 0


@dataclass
class Route:
    stops: List[Point]
    name: str = "walk"
    tags: List[str] = field(default_factory=list)


class Movie(TypedDict):
    title: str
    year: int


class Draft(TypedDict, total=False):
    title: str


def seen(value: Any) -> List[str]:
    return [type(value).__name__, repr(value)]


@tool
def text(x: str): return seen(x)

@tool
def whole(x: int): return seen(x)

@tool
def number(x: float): return seen(x)

@tool
def truth(x: bool): return seen(x)

@tool
def nothing(x: None): return seen(x)

@tool
def anything(x: Any): return seen(x)

@tool
def bare(x): return seen(x)

@tool
def optional(x: Optional[int]): return seen(x)

@tool
def optional_given(x: Optional[int]): return seen(x)

@tool
def optional_default(x: Optional[str] = None): return seen(x)

@tool
def nullable(x: "int | None"): return seen(x)

@tool
def union(x: Union[int, str]): return seen(x)

@tool
def union_other(x: Union[int, str]): return seen(x)

@tool
def union_of_lists(x: Union[str, List[str]]): return seen(x)

@tool
def literal(x: Literal["fast", "slow"]): return seen(x)

@tool
def literal_mixed(x: Literal[1, "a", None]): return seen(x)

@tool
def color(x: Color): return seen(x)

@tool
def level(x: Level): return seen(x)

@tool
def any_list(x: list): return seen(x)

@tool
def list_of(x: List[int]): return seen(x)

@tool
def nested(x: List[List[str]]): return seen(x)

@tool
def any_dict(x: dict): return seen(x)

@tool
def dict_of(x: Dict[str, float]): return seen(x)

@tool
def dict_by_number(x: Dict[int, str]): return seen(x)

@tool
def any_tuple(x: tuple): return seen(x)

@tool
def tuple_of(x: Tuple[int, str]): return seen(x)

@tool
def tuple_many(x: Tuple[int, ...]): return seen(x)

@tool
def any_set(x: set): return seen(x)

@tool
def set_of(x: "set[int]"): return seen(x)

@tool
def point(x: Point): return seen(x)

@tool
def route(x: Route): return seen(x)

@tool
def optional_point(x: Optional[Point] = None): return seen(x)

@tool
def movie(x: Movie): return seen(x)

@tool
def draft(x: Draft): return seen(x)

@tool
def moment(x: datetime.datetime): return seen(x)

@tool
def day(x: datetime.date): return seen(x)

@tool
def path(x: Path): return seen(x)

@tool
def described(x: Annotated[int, "How many."]): return seen(x)

@tool
def defaults(a: int = 1, b: str = "b", c: Color = Color.RED, d: Path = Path("d"), e: Tuple[int, ...] = (1, 2)):
    return [seen(a), seen(b), seen(c), seen(d), seen(e)]


@tool
def documented(source: str, depth: int = 1):
    """Copies it.

    More that is not for the list.

    Args:
        source: Where it is,
            which may take
            three lines: yes.
        depth (int): How far.

    Returns:
        What was there.
    """
    return [source, depth]


def positional(*args): return args

def keywords(x: int, **rest): return rest


@tool(name="Title", description="Said", requires_confirmation=True, category="words")
def decorated(): return None


@tool
async def waits(x: int):
    await asyncio.sleep(0)
    return [x, threading.current_thread() is threading.main_thread()]


def plain(workspace: Path, x: int):
    return [seen(workspace), seen(x), sorted(child.name for child in workspace.iterdir())]


async def plain_waits(workspace: Path): return seen(workspace)


@tool
def gives_json() -> Dict[str, int]: return {"a": 1}

@tool
def gives_values(): return {"a": [1, 2.5, "é", None, True, {"b": []}]}

@tool
def gives_record() -> Point: return Point(1)

@tool
def gives_records(): return [Route([Point(1, 2)])]

@tool
def gives_words(): return [Color.BLUE, Level.HIGH, datetime.date(2024, 5, 1), Path("a/b")]

@tool
def gives_text() -> Text: return Text("hello")

@tool
def gives_image() -> Image: return Image(b"GIF89a", mime_type="image/gif")

@tool
def gives_file() -> File:
    (get_context().workspace / "made.md").write_text("# made")
    return File("made.md")

@tool
def gives_many(): return [Text("see"), Image(base64="R0lGODlh")]
