"""Classes with named fields: dataclasses and TypedDicts. In JSON they are objects."""

from collections.abc import Callable
from typing import Any

from . import _docstring
from ._kinds import Book, Kind, Refused, Schema, below, refuse

MISSING: Any = object()


class Field:
    """A field of a record."""

    __slots__ = ("name", "kind", "required", "default", "description", "given")

    def __init__(
        self,
        name: str,
        kind: Kind,
        required: bool,
        default: object = MISSING,
        description: str | None = None,
        given: bool = True,
    ) -> None:
        self.name = name
        self.kind = kind
        self.required = required
        # As JSON, or MISSING if it has none or none that JSON can carry.
        self.default = default
        self.description = description
        # Whether a caller gives it. Other fields are in results only.
        self.given = given


class Record(Kind):
    """An object with known fields."""

    def __init__(self, name: str, make: Callable[[dict[str, Any]], Any], description: str | None, full: bool) -> None:
        self.name = name
        self.make = make
        self.description = description
        # Whether a result has all fields, also those that a caller may leave out.
        self.full = full
        self.fields: list[Field] = []

    def schema(self, book: Book) -> Schema:
        return book.define(self, self.name, lambda: self._definition(book))

    def _definition(self, book: Book) -> Schema:
        fields = [field for field in self.fields if field.given or book.output]
        schema: Schema = {"type": "object", "title": self.name}
        if self.description:
            schema["description"] = self.description
        schema["properties"] = {field.name: self._property(field, book) for field in fields}
        schema["required"] = [field.name for field in fields if field.required or (book.output and self.full)]
        if not book.output:
            schema["additionalProperties"] = False
        return schema

    @staticmethod
    def _property(field: Field, book: Book) -> Schema:
        schema = field.kind.schema(book)
        if field.description:
            schema["description"] = field.description
        if field.default is not MISSING and not book.output:
            schema["default"] = field.default
        return schema

    def take(self, value: Any, at: str) -> Any:
        if not isinstance(value, dict):
            raise refuse(at, f"an object ({self.name})", value)
        known = {field.name: field for field in self.fields if field.given}
        for name in value:
            if name not in known:
                raise Refused(below(at, name), f"{self.name} has no such field; it has {', '.join(known) or 'none'}")
        for field in known.values():
            if field.required and field.name not in value:
                raise Refused(below(at, field.name), "is missing")
        taken = {name: known[name].kind.take(member, below(at, name)) for name, member in value.items()}
        try:
            return self.make(taken)
        except Exception as error:  # A class may refuse values in its own code.
            raise Refused(at, f"{self.name} refused it: {type(error).__name__}: {error}") from error


def is_dataclass(cls: type) -> bool:
    return "__dataclass_fields__" in vars(cls) or hasattr(cls, "__dataclass_fields__")


def is_typed_dict(cls: type) -> bool:
    return issubclass(cls, dict) and hasattr(cls, "__total__") and hasattr(cls, "__required_keys__")


def is_named_tuple(cls: type) -> bool:
    return issubclass(cls, tuple) and hasattr(cls, "_fields") and hasattr(cls, "_field_defaults")


def dataclass_record(
    cls: Any, name: str, hints: dict[str, Any], kind_of: Callable[[Any], Kind], record: Record
) -> None:
    """Fill in the fields of a dataclass."""
    from ._result import default_json

    described = _docstring.read(cls.__doc__)[1]
    for field in cls.__dataclass_fields__.values():
        sort = field._field_type.name
        if sort == "_FIELD_CLASSVAR":
            continue
        hint = hints.get(field.name, field.type)
        if type(hint).__name__ == "InitVar":
            hint = hint.type
        # dataclasses.MISSING, without importing dataclasses where nobody else has.
        has_default = type(field.default).__name__ != "_MISSING_TYPE"
        has_factory = type(field.default_factory).__name__ != "_MISSING_TYPE"
        record.fields.append(
            Field(
                field.name,
                kind_of(hint),
                required=field.init and not has_default and not has_factory,
                default=default_json(field.default) if has_default else MISSING,
                description=field.metadata.get("description") or described.get(field.name),
                given=field.init,
            )
        )
    # An InitVar goes in and is not there afterwards.
    for field in record.fields:
        if cls.__dataclass_fields__[field.name]._field_type.name == "_FIELD_INITVAR":
            record.full = False


def typed_dict_record(cls: Any, hints: dict[str, Any], kind_of: Callable[[Any], Kind], record: Record) -> None:
    """Fill in the fields of a TypedDict."""
    import typing

    described = _docstring.read(cls.__doc__)[1]
    for name, hint in hints.items():
        required = name in cls.__required_keys__
        # With postponed annotations Python itself does not see these words.
        while (word := getattr(typing.get_origin(hint), "_name", None)) in ("Required", "NotRequired", "ReadOnly"):
            if word != "ReadOnly":
                required = word == "Required"
            hint = typing.get_args(hint)[0]
        record.fields.append(Field(name, kind_of(hint), required, description=described.get(name)))
