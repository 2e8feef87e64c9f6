"""The decorator. It leaves the function as it is and writes down what was said about it; types are read later."""

from collections.abc import Callable
from typing import Any, TypeVar, overload

F = TypeVar("F", bound=Callable[..., Any])

ATTRIBUTE = "__covalt_tool__"


class Said:
    """What the decorator was given. None is: not said."""

    __slots__ = ("name", "description", "requires_confirmation", "category")

    def __init__(
        self,
        name: str | None,
        description: str | None,
        requires_confirmation: bool | None,
        category: str | None,
    ) -> None:
        for word, value in (("name", name), ("description", description), ("category", category)):
            if value is not None and not isinstance(value, str):
                raise TypeError(f"@tool: {word} must be a text, not {type(value).__name__}")
            if value is not None and not value.strip():
                raise ValueError(f"@tool: {word} is empty; leave it out instead")
        if requires_confirmation is not None and not isinstance(requires_confirmation, bool):
            raise TypeError("@tool: requires_confirmation must be True or False")
        self.name = name
        self.description = description
        self.requires_confirmation = requires_confirmation
        self.category = category


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    requires_confirmation: bool | None = None,
    category: str | None = None,
) -> Callable[[F], F]: ...
def tool(
    function: F | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    requires_confirmation: bool | None = None,
    category: str | None = None,
) -> F | Callable[[F], F]:
    """Make a function a tool. It stays an ordinary function that tests can call.

    Args:
        name: The title that people see. The toolset's manifest decides when it is left out.
        description: What a model reads. The first paragraph of the docstring when it is left out.
        requires_confirmation: Whether a person is asked before each call.
        category: A word that groups tools.
    """
    said = Said(name, description, requires_confirmation, category)

    def mark(function: F) -> F:
        if not callable(function) or isinstance(function, (type, staticmethod, classmethod)):
            hint = 'write @tool(name="…")' if isinstance(function, str) else "put it directly above a function"
            raise TypeError(f"@tool makes a function a tool, and this is {type(function).__name__}: {hint}")
        setattr(function, ATTRIBUTE, said)
        return function

    return mark if function is None else mark(function)


def said_of(function: object) -> Said | None:
    """What the decorator was given, or None for a function without it."""
    said = getattr(function, ATTRIBUTE, None)
    return said if isinstance(said, Said) else None
