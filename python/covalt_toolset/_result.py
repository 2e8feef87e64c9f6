"""What a tool returned, as JSON. Whatever JSON cannot carry is refused, with the place where it is."""

import os
import sys
from collections.abc import Callable
from json.encoder import encode_basestring
from pathlib import Path
from typing import Any

from ._content import RICH, as_json, rich_list
from ._kinds import below

DEEPEST = 200


class BadResult(Exception):
    """A result that is no JSON."""


class _Writer:
    """One walk over a result. It counts what the JSON will take, as UTF-8 without spaces, and stops when that is too much."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.bytes = 0
        self.path: list[object] = []
        self.open: set[int] = set()

    def bad(self, text: str) -> BadResult:
        at = self.at()
        return BadResult(f"the result is not JSON: at {at}: {text}" if at else f"the result is not JSON: {text}")

    def count(self, number: int) -> None:
        self.bytes += number
        if self.bytes > self.most_bytes:
            raise BadResult(
                f"the result is larger than {self.most_bytes} bytes as JSON"
                + (f" (the limit was reached at {self.at()})" if self.path else "")
                + "; write it to a file of the workspace and return its path"
            )

    def at(self) -> str:
        at = ""
        for step in self.path:
            at = below(at, step)
        return at

    def walk(self, value: Any) -> Any:
        if value is None or value is True:
            self.count(4)
            return value
        if value is False:
            self.count(5)
            return value
        kind = type(value)
        if kind is str:
            return self.text(value)
        if kind is int:
            return self.whole(value)
        if kind is float:
            return self.number(value)
        if kind is dict:
            return self.inside(value, self.table)
        if kind is list or kind is tuple:
            return self.inside(value, self.row)
        return self.other(value)

    def text(self, value: str) -> str:
        try:
            self.count(len(encode_basestring(value).encode("utf-8")))
        except UnicodeEncodeError:
            raise self.bad("a text with half of a character (a lone surrogate), which UTF-8 cannot carry") from None
        return value

    def whole(self, value: int) -> int:
        try:
            self.count(len(int.__repr__(value)))
        except ValueError:
            raise self.bad("a whole number with too many digits") from None
        if not -(1 << 63) <= value < 1 << 64:
            # Whoever reads it would have another number, or none.
            raise self.bad("a whole number of more than 64 bits; return it as a text")
        return value

    def number(self, value: float) -> float:
        if value != value or value in (float("inf"), float("-inf")):
            raise self.bad(f"{value!r} is not a number in JSON; return None or a text instead")
        self.count(len(float.__repr__(value)))
        return value

    def inside(self, value: Any, write: Callable[[Any], Any]) -> Any:
        mark = id(value)
        if mark in self.open:
            raise self.bad("it contains itself")
        if len(self.path) >= DEEPEST:
            self.path = self.path[:3] + ["…"]
            raise self.bad(f"it is nested deeper than {DEEPEST}")
        self.open.add(mark)
        written = write(value)
        self.open.discard(mark)
        return written

    def row(self, value: Any) -> list[Any]:
        self.count(2 + max(0, len(value) - 1))
        written = []
        self.path.append(0)
        for place, member in enumerate(value):
            self.path[-1] = place
            written.append(self.walk(member))
        self.path.pop()
        return written

    def table(self, value: Any) -> dict[str, Any]:
        members = list(value.items())
        self.count(2 + max(0, 2 * len(members) - 1))
        written: dict[str, Any] = {}
        for word, member in members:
            key = word if type(word) is str else self.key(word)
            self.path.append(key)
            if key in written:
                raise self.bad(f"two keys become the same text {key!r}")
            self.text(key)
            written[key] = self.walk(member)
            self.path.pop()
        return written

    def key(self, word: object) -> str:
        standard = _plain(word)
        plain = word if standard is None else standard[0]
        if isinstance(plain, str):
            return str.__str__(plain)
        if plain is None or isinstance(plain, bool):
            return {None: "null", True: "true", False: "false"}[plain]
        if isinstance(plain, int):
            return int.__repr__(plain)
        if isinstance(plain, float) and plain == plain and abs(plain) != float("inf"):
            return float.__repr__(plain)
        raise self.bad(f"a key of the type {type(word).__name__}; the keys of an object are texts")

    def other(self, value: Any) -> Any:
        """Everything that is not JSON's own."""
        kind = type(value)
        if isinstance(value, RICH):
            raise self.bad(f"{kind.__name__} inside of something else; return it alone or in a list of such items")
        if isinstance(value, (bytes, bytearray, memoryview)):
            raise self.bad("bytes; return a text, an Image, or write a file and return its path")
        if isinstance(value, (set, frozenset)):
            raise self.bad("a set, which has no order; return sorted(…) or list(…) of it")
        plain = _plain(value)
        if plain is not None:
            if isinstance(plain[0], float) and plain[0] != plain[0]:
                raise self.bad(f"{value} is not a number in JSON; return None or a text instead")
            return self.walk(plain[0])
        model = self.model(value)
        if model is not None:
            return self.inside(value, lambda _: self.walk(model[0]))
        if hasattr(kind, "__dataclass_fields__"):
            fields = [name for name, field in kind.__dataclass_fields__.items() if field._field_type.name == "_FIELD"]
            return self.inside(value, lambda _: self.table({name: getattr(value, name) for name in fields}))
        if isinstance(value, dict) or (
            hasattr(value, "keys") and hasattr(value, "items") and hasattr(kind, "__getitem__")
        ):
            return self.inside(value, self.table)
        if isinstance(value, (list, tuple)) or _is_deque(value):
            return self.inside(value, self.row)
        # numpy's numbers and arrays.
        if kind.__module__.split(".")[0] == "numpy" and hasattr(value, "tolist"):
            return self.inside(value, lambda _: self.walk(value.tolist()))
        if hasattr(value, "__next__") or hasattr(value, "__anext__"):
            raise self.bad(f"{kind.__name__}, which gives its items one by one; return list(…) of it")
        raise self.bad(f"{kind.__name__} has no form in JSON")

    def model(self, value: Any) -> tuple[Any] | None:
        """What a Pydantic model becomes."""
        kind = type(value)
        try:
            if hasattr(kind, "model_dump") and hasattr(kind, "__pydantic_serializer__"):
                return (value.model_dump(mode="json", by_alias=True),)
            if hasattr(kind, "__fields__") and callable(getattr(kind, "dict", None)):
                return (value.dict(by_alias=True),)
        except Exception as error:
            raise self.bad(f"{kind.__name__} could not be written: {type(error).__name__}: {error}") from error
        return None


def _is_deque(value: object) -> bool:
    collections = sys.modules.get("collections")
    return collections is not None and isinstance(value, collections.deque)


def _plain(value: Any) -> tuple[Any] | None:
    """What a value of the standard library becomes, in a tuple; None if it is none of those. NaN stands for: refused."""
    enum = sys.modules.get("enum")
    if enum is not None and isinstance(value, enum.Enum):
        from ._compile import enum_word

        return (value.value if isinstance(value, enum.Flag) else enum_word(value),)
    if isinstance(value, bool):
        return (value,)
    # Subclasses: what they are, not what their own methods say.
    if isinstance(value, str):
        return (str.__str__(value),)
    if isinstance(value, int):
        return (int.__pos__(value),)
    if isinstance(value, float):
        return (float.__pos__(value),)
    if isinstance(value, os.PathLike) and isinstance(os.fspath(value), str):
        return (os.fspath(value),)
    for cls in type(value).__mro__:
        name = (cls.__module__, cls.__name__)
        if name in (("datetime", "datetime"), ("datetime", "date"), ("datetime", "time")):
            return (value.isoformat(),)
        if name == ("datetime", "timedelta"):
            return (_duration(value),)
        if name == ("uuid", "UUID"):
            return (str(value),)
        if name == ("decimal", "Decimal"):
            return (str(value) if value.is_finite() else float("nan"),)
    return None


def _duration(value: Any) -> str:
    sign = "-" if value.days < 0 else ""
    value = abs(value)
    fraction = f".{value.microseconds:06d}".rstrip("0") if value.microseconds else ""
    days = f"{value.days}D" if value.days else ""
    seconds = f"T{value.seconds}{fraction}S" if value.seconds or fraction or not days else ""
    return f"{sign}P{days}{seconds}"


def to_json(value: object, most_bytes: int, workspace: Path) -> Any:
    """A result as JSON, or `BadResult`."""
    writer = _Writer(most_bytes)
    rich = rich_list(value)
    if rich is None:
        return writer.walk(value)
    items = []
    for place, item in enumerate(rich):
        try:
            items.append(as_json(item, workspace))
        except ValueError as error:
            where = f"at /{place}: " if isinstance(value, (list, tuple)) else ""
            raise BadResult(f"the result cannot be shown: {where}{error}") from None
    return writer.walk({"content": items})


def default_json(value: object) -> Any:
    """A default as JSON, or MISSING where JSON has no form for it."""
    from ._records import MISSING

    if isinstance(value, (set, frozenset)):
        value = sorted(value, key=repr)
    try:
        return _Writer(10_000).walk(value)
    except Exception:  # Its class may have code of its own, and a default is only shown.
        return MISSING
