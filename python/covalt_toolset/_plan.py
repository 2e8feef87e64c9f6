"""A function as a tool: its parameters, what they take, and how JSON arguments become a call."""

import inspect
import typing
from collections.abc import Callable, Mapping
from pathlib import Path, PurePath
from typing import Any

from . import _docstring, _hints, _pydantic
from ._compile import Compiler
from ._kinds import Book, Kind, OneOf, Refused, Schema, Unsupported, below, references
from ._load import NotLoaded
from ._records import MISSING
from ._result import default_json
from ._scalars import NULL
from ._tool import said_of


class BadArguments(Exception):
    """Arguments that do not fit the function."""


class Parameter:
    """One parameter that a caller may give."""

    __slots__ = ("name", "kind", "positional", "default", "description")

    def __init__(self, name: str, kind: Kind, positional: bool, default: Any, description: str | None) -> None:
        self.name = name
        self.kind = kind
        self.positional = positional
        # A function that makes it, or None if the caller must give one.
        self.default: Callable[[], Any] | None = default
        self.description = description


class Plan:
    """A function that is ready to be called."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.said = said_of(function)
        self.summary, described = _docstring.read(_written_doc(function))
        inner = _hints.innermost(function)
        if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
            raise NotLoaded("it is a generator (it has a yield); a tool returns its result")
        self.waits = inspect.iscoroutinefunction(inner)
        names = getattr(inner, "__globals__", {})
        self._compiler = Compiler()
        self.parameters: list[Parameter] = []
        self.takes_workspace = False
        signature = _hints.signature(function)
        for place, parameter in enumerate(signature.parameters.values()):
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                stars = "*" if parameter.kind == parameter.VAR_POSITIONAL else "**"
                raise NotLoaded(f"{stars}{parameter.name} is not possible in a tool: name each argument")
            written = parameter.annotation
            hint = Any if written is parameter.empty else _hints.evaluate(written, names)
            if place == 0 and self.said is None and parameter.name == "workspace" and _is_workspace(written, hint):
                self.takes_workspace = True
                self._workspace_positional = parameter.kind != parameter.KEYWORD_ONLY
                continue
            self.parameters.append(self._parameter(parameter, hint, described.get(parameter.name)))
        returned = signature.return_annotation
        self._returns = Any if returned is signature.empty else _hints.evaluate(returned, names)

    def _parameter(self, parameter: inspect.Parameter, hint: Any, description: str | None) -> Parameter:
        default: Any = parameter.default
        field = default if _pydantic.is_field(default) else None
        if field is not None and not isinstance(hint, _hints.Unresolved):
            hint = typing.Annotated[hint, field]
        for word in typing.get_args(hint)[1:] if typing.get_origin(hint) is typing.Annotated else ():
            # Field(default=…) in an Annotated stands for a default where the function itself has none.
            if _pydantic.is_field(word) and (field is word or default is parameter.empty):
                field, default = word, word
        try:
            kind = self._compiler.kind(hint)
            kind.schema(Book())
        except Unsupported as reason:
            raise NotLoaded(f"the parameter {parameter.name}: {reason}") from None
        make: Callable[[], Any] | None = None
        if field is not None and default is field:
            make = None if field.is_required() else lambda: field.get_default(call_default_factory=True)
        elif default is not parameter.empty:
            make = lambda: default
            if default is None and not kind.accepts_null:
                kind = OneOf([kind, NULL])
        return Parameter(parameter.name, kind, parameter.kind == parameter.POSITIONAL_ONLY, make, description)

    def input_schema(self) -> Schema:
        """The arguments as JSON Schema."""
        book = Book()
        properties: dict[str, Schema] = {}
        for parameter in self.parameters:
            schema = parameter.kind.schema(book)
            if parameter.description:
                schema["description"] = parameter.description
            default = default_json(parameter.default()) if parameter.default else MISSING
            if default is not MISSING:
                schema["default"] = default
            properties[parameter.name] = schema
        schema = {
            "type": "object",
            "properties": properties,
            "required": [parameter.name for parameter in self.parameters if parameter.default is None],
            "additionalProperties": False,
        }
        return _finish(schema, list(properties.items()), properties, book)

    def output_schema(self) -> Schema | None:
        """The result as JSON Schema, where the annotation says more than that there is one."""
        hint: Any = self._returns
        if getattr(typing.get_origin(hint), "__name__", "") in ("Awaitable", "Coroutine"):
            hint = typing.get_args(hint)[-1]
        if hint in (None, type(None)) or isinstance(hint, _hints.Unresolved):
            return None
        book = Book(output=True)
        holder: dict[str, Schema] = {}
        try:
            holder["it"] = self._compiler.kind(hint).schema(book)
        except Unsupported:
            return None
        if holder["it"] in ({}, {"type": "object"}) or "$comment" in holder["it"]:
            return None
        schema = _finish({}, list(holder.items()), holder, book)
        return {**holder["it"], **schema}

    def bind(self, args: Mapping[str, Any], workspace: Path) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of the call. Everything that does not fit is said at once."""
        problems: list[str] = []
        known = [parameter.name for parameter in self.parameters]
        for name in args:
            if name not in known:
                problems.append(f"{below('', name)}: there is no such argument; there {_listed(known)}")
        positional: list[Any] = []
        named: dict[str, Any] = {}
        if self.takes_workspace:
            if self._workspace_positional:
                positional.append(workspace)
            else:
                named["workspace"] = workspace
        for parameter in self.parameters:
            if parameter.name in args:
                try:
                    value = parameter.kind.take(args[parameter.name], below("", parameter.name))
                except Refused as reason:
                    problems.append(str(reason))
                    continue
                except RecursionError:
                    problems.append(f"{below('', parameter.name)}: is nested too deeply")
                    continue
            elif parameter.default is None:
                problems.append(f"{below('', parameter.name)}: is missing")
                continue
            else:
                value = parameter.default()
            if parameter.positional:
                positional.append(value)
            else:
                named[parameter.name] = value
        if problems:
            raise BadArguments("the arguments do not fit: " + "; ".join(problems))
        return positional, named


def _written_doc(function: Any) -> str | None:
    # A partial and an object that can be called have the docstring of their class, which says nothing of the tool.
    return getattr(function if inspect.isroutine(function) else _hints.innermost(function), "__doc__", None)


def _listed(names: list[str]) -> str:
    return f"are {', '.join(names)}" if len(names) > 1 else f"is only {names[0]}" if names else "are none"


def _is_workspace(written: Any, hint: Any) -> bool:
    if written is inspect.Parameter.empty:
        return True
    if isinstance(hint, _hints.Unresolved):
        # Imported for type checkers only.
        return str(getattr(written, "__forward_arg__", written)).split(".")[-1] in ("Path", "PurePath")
    return isinstance(hint, type) and issubclass(hint, PurePath)


def _finish(schema: Schema, uses: list[tuple[str, Schema]], holder: dict[str, Schema], book: Book) -> Schema:
    """Put a definition that a parameter alone refers to in its place, and keep those that are still referred to."""
    for name, use in uses:
        target = use.get("$ref", "").rpartition("/")[2]
        if target and not _reaches(book.definitions, target, target):
            holder[name] = {
                **book.definitions[target],
                **{word: value for word, value in use.items() if word != "$ref"},
            }
    needed: dict[str, Schema] = {}
    waiting: list[Any] = [holder]
    while waiting:
        for target in references(waiting.pop()):
            if target not in needed and target in book.definitions:
                needed[target] = book.definitions[target]
                waiting.append(needed[target])
    if needed:
        schema["$defs"] = {name: needed[name] for name in book.definitions if name in needed}
    return schema


def _reaches(definitions: dict[str, Schema], start: str, goal: str) -> bool:
    seen, waiting = set(), [start]
    while waiting:
        for target in references(definitions.get(waiting.pop(), {})):
            if target == goal:
                return True
            if target not in seen:
                seen.add(target)
                waiting.append(target)
    return False
