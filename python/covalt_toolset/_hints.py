"""Type hints as they were written, made into types. A name that cannot be found spoils its own hint and no other."""

import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any


class Unresolved:
    """A hint that could not be made into a type."""

    __slots__ = ("reason",)

    def __init__(self, hint: object, error: BaseException) -> None:
        shown = getattr(hint, "__forward_arg__", hint)
        self.reason = f"The type hint {shown!r} could not be read: {error}"


def signature(function: Callable[..., Any]) -> inspect.Signature:
    """The parameters of a function, with the hints as they were written."""
    if sys.version_info >= (3, 14):
        from annotationlib import Format

        return inspect.signature(function, annotation_format=Format.FORWARDREF)
    return inspect.signature(function)


def innermost(function: Any) -> Any:
    """The function in whose module the hints were written: below decorators, partials and methods."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        elif inspect.ismethod(function):
            function = function.__func__
        elif not inspect.isroutine(function) and hasattr(type(function), "__call__"):
            function = type(function).__call__
        else:
            return function


def evaluate(hint: object, names: Mapping[str, Any], local: Mapping[str, Any] | None = None) -> object:
    """A hint of a function as a type, or `Unresolved`."""
    if isinstance(hint, type) and not isinstance(hint, types.GenericAlias):
        return hint
    holder = types.SimpleNamespace(__annotations__={"hint": hint})
    try:
        return typing.get_type_hints(holder, dict(names), dict(local or {}), include_extras=True)["hint"]
    except Exception as error:  # A hint is code: anything can go wrong in it.
        return Unresolved(hint, error)


def of_class(cls: type) -> dict[str, object]:
    """The hints of the fields of a class, its bases' first."""
    local = {cls.__name__: cls}
    try:
        return dict(typing.get_type_hints(cls, localns=_scope(cls, local), include_extras=True))
    except Exception:
        found: dict[str, object] = {}
        for base in reversed(cls.__mro__):
            if base.__module__ == "builtins":
                continue
            names = vars(sys.modules[base.__module__]) if base.__module__ in sys.modules else {}
            for name, hint in _written(base).items():
                found[name] = evaluate(hint, names, local)
        return found


def _scope(cls: type, local: dict[str, Any]) -> dict[str, Any] | None:
    # A class that was made inside a function is not among its module's names, yet may speak of itself. Its module's names
    # are given along, as a local namespace replaces what get_type_hints would have looked at.
    module = sys.modules.get(cls.__module__)
    if module is None or getattr(module, cls.__name__, None) is cls:
        return None
    return local


def _written(cls: type) -> dict[str, Any]:
    if sys.version_info >= (3, 14):
        from annotationlib import Format, get_annotations

        return dict(get_annotations(cls, format=Format.FORWARDREF))
    return dict(cls.__dict__.get("__annotations__", {}))
