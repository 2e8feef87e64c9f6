"""The kinds that are one word in JSON: numbers, texts, and the texts that stand for dates, paths and the like.

Modules such as `datetime` are not imported here: a hint that needs one has already imported it.
"""

import re
from typing import Any

from ._kinds import Plain, Refused, Schema, refuse


def _text(value: Any, at: str) -> str:
    if isinstance(value, str):
        return value
    raise refuse(at, "a text", value)


def _whole(value: Any, at: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise refuse(at, "a whole number", value)


def _number(value: Any, at: str) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise Refused(at, "is too large for a float") from None
    raise refuse(at, "a number", value)


def _flag(value: Any, at: str) -> bool:
    if isinstance(value, bool):
        return value
    raise refuse(at, "true or false", value)


def _null(value: Any, at: str) -> None:
    if value is not None:
        raise refuse(at, "null", value)


def _bytes(value: Any, at: str) -> bytes:
    from base64 import b64decode

    try:
        return b64decode(_text(value, at), validate=True)
    except ValueError:
        raise refuse(at, "bytes as base64", value) from None


def _path(cls: type) -> Any:
    def take(value: Any, at: str) -> Any:
        if "\0" in _text(value, at):
            raise Refused(at, "a path cannot have a NUL character")
        return cls(value)

    return take


_DATE = r"(\d{4})-(\d\d)-(\d\d)"
_TIME = r"(\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?(Z|z|[+-]\d\d:?\d\d)?"
_DURATION = re.compile(
    r"([+-])?P(?!$)(?:(\d+(?:\.\d+)?)W)?(?:(\d+(?:\.\d+)?)D)?"
    r"(?:T(?!$)(?:(\d+(?:\.\d+)?)H)?(?:(\d+(?:\.\d+)?)M)?(?:(\d+(?:\.\d+)?)S)?)?"
)


def _clock(hours: str, minutes: str, seconds: str, fraction: str, zone: str) -> tuple[Any, ...]:
    from datetime import timedelta, timezone

    offset = None
    if zone and zone in "Zz":
        offset = timezone.utc
    elif zone:
        digits = zone[1:].replace(":", "")
        span = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
        offset = timezone(-span if zone[0] == "-" else span)
    return int(hours), int(minutes), int(seconds or 0), int((fraction or "").ljust(6, "0")[:6]), offset


def _moment(pattern: str, cls: Any, wanted: str) -> Any:
    compiled = re.compile(pattern)

    def take(value: Any, at: str) -> Any:
        match = compiled.fullmatch(_text(value, at))
        try:
            if match is None:
                raise ValueError(value)
            groups = match.groups()
            day = [int(part) for part in groups[:3]] if pattern.startswith(_DATE) else []
            return cls(*day, *(_clock(*groups[len(day) :]) if len(groups) > 3 else ()))
        except ValueError:
            raise refuse(at, wanted, value) from None

    return take


def _duration(value: Any, at: str) -> Any:
    from datetime import timedelta

    match = _DURATION.fullmatch(_text(value, at))
    try:
        if match is None:
            raise ValueError(value)
        weeks, days, hours, minutes, seconds = (float(part or 0) for part in match.groups()[1:])
        span = timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
        return -span if match.group(1) == "-" else span
    except (ValueError, OverflowError):
        raise refuse(at, "a duration such as P1DT2H or PT30S", value) from None


def _decimal(cls: Any) -> Any:
    def take(value: Any, at: str) -> Any:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return cls(str(value))
        if isinstance(value, str) and re.fullmatch(_DECIMAL, value, re.ASCII):
            return cls(value)
        raise refuse(at, "a decimal number", value)

    return take


def _uuid(cls: Any) -> Any:
    def take(value: Any, at: str) -> Any:
        try:
            return cls(_text(value, at))
        except ValueError:
            raise refuse(at, "a UUID", value) from None

    return take


_DECIMAL = r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?"
_DECIMAL_SCHEMA = {"type": "string", "pattern": r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"}

TEXT = Plain({"type": "string"}, _text)
WHOLE = Plain({"type": "integer"}, _whole)
NUMBER = Plain({"type": "number"}, _number)
FLAG = Plain({"type": "boolean"}, _flag)
NULL = Plain({"type": "null"}, _null)
BYTES = Plain({"type": "string", "contentEncoding": "base64"}, _bytes, returned=False)

SIMPLE: dict[Any, Plain] = {
    str: TEXT,
    int: WHOLE,
    float: NUMBER,
    bool: FLAG,
    type(None): NULL,
    None: NULL,
    bytes: BYTES,
}


def _format(word: str) -> Schema:
    return {"type": "string", "format": word}


def named(cls: type) -> Any:
    """The kind of a class of the standard library, or None."""
    home = cls.__module__.split(".")[0]
    name = (home, cls.__name__)
    if home == "datetime":
        if name[1] == "datetime":
            wanted = "a date and time such as 2024-05-01T12:30:00Z"
            return Plain(_format("date-time"), _moment(f"{_DATE}[Tt ]{_TIME}", cls, wanted))
        if name[1] == "date":
            return Plain(_format("date"), _moment(_DATE, cls, "a date such as 2024-05-01"))
        if name[1] == "time":
            return Plain(_format("time"), _moment(_TIME, cls, "a time such as 12:30:00"))
        if name[1] == "timedelta":
            return Plain(_format("duration"), _duration)
    if home == "pathlib":
        return Plain({"type": "string"}, _path(cls))
    if name == ("os", "PathLike"):
        from pathlib import Path

        return Plain({"type": "string"}, _path(Path))
    if name == ("uuid", "UUID"):
        return Plain(_format("uuid"), _uuid(cls))
    if name == ("decimal", "Decimal"):
        either = {"anyOf": [{"type": "number"}, _DECIMAL_SCHEMA]}
        return Plain(either, _decimal(cls), output={"type": "string"})
    return None


def _whole_key(value: Any, at: str) -> int:
    if re.fullmatch(r"-?(0|[1-9]\d{0,999})", value, re.ASCII):
        return int(value)
    raise refuse(at, "a whole number, as a key", value)


# The keys of an object are texts.
WHOLE_KEY = Plain({"pattern": "^-?(0|[1-9][0-9]*)$"}, _whole_key)
