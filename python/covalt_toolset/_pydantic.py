"""What is Pydantic's is left to Pydantic: models, its dataclasses, its own types and its limits in `Annotated`.

Pydantic is imported only if the toolset did so.
"""

import json
import re
import sys
from typing import Any

from ._kinds import Book, Kind, Refused, Schema, Unsupported, below


def is_metadata(word: object) -> bool:
    """Whether something in an `Annotated` means something to Pydantic alone."""
    home = type(word).__module__.split(".")[0]
    return home in ("pydantic", "pydantic_core") or hasattr(word, "__get_pydantic_core_schema__")


def is_field(value: object) -> bool:
    """Whether a parameter's default is a `Field(…)`."""
    return type(value).__name__ == "FieldInfo" and type(value).__module__.startswith("pydantic")


def is_model(cls: object) -> bool:
    """Whether a class is Pydantic's to build."""
    return isinstance(cls, type) and (
        hasattr(cls, "__get_pydantic_core_schema__") or hasattr(cls, "__pydantic_validator__")
    )


def is_old_model(cls: object) -> bool:
    """Whether a class is a model of Pydantic 1."""
    return isinstance(cls, type) and hasattr(cls, "__fields__") and hasattr(cls, "parse_obj") and not is_model(cls)


class Model(Kind):
    """A hint that Pydantic reads."""

    def __init__(self, hint: Any) -> None:
        pydantic: Any = sys.modules["pydantic"]
        self.name = hint.__name__ if isinstance(hint, type) else ""
        try:
            self.adapter = pydantic.TypeAdapter(hint)
        except Exception as error:  # Pydantic has many ways to refuse a hint.
            raise Unsupported(f"Pydantic cannot use it: {error}") from None

    def schema(self, book: Book) -> Schema:
        return book.once(self, lambda: self._schema(book))

    def _schema(self, book: Book) -> Schema:
        try:
            schema: Schema = self.adapter.json_schema(mode="serialization" if book.output else "validation")
        except Exception as error:
            raise Unsupported(f"Pydantic has no JSON Schema for it: {error}") from None
        return book.adopt(_named(schema, self.name))

    def take(self, value: Any, at: str) -> Any:
        try:
            # As JSON and not as Python: a strict model takes a date from a text only there.
            return self.adapter.validate_json(json.dumps(value))
        except Exception as error:  # A validator is the toolset's code.
            raise _refused(error, at) from error


class OldModel(Kind):
    """A model of Pydantic 1."""

    def __init__(self, cls: Any) -> None:
        self.cls = cls

    def schema(self, book: Book) -> Schema:
        return book.once(self, lambda: self._schema(book))

    def _schema(self, book: Book) -> Schema:
        schema: Schema = json.loads(self.cls.schema_json(ref_template="#/$defs/{model}"))
        schema["$defs"] = schema.pop("definitions", {})
        return book.adopt(_named(schema, self.cls.__name__))

    def take(self, value: Any, at: str) -> Any:
        try:
            return self.cls.parse_obj(value)
        except Exception as error:
            raise _refused(error, at) from error


def _named(schema: Schema, name: str) -> Schema:
    """The schema of a model as a definition, so that a second use need not repeat it."""
    definitions = schema.pop("$defs", {})
    name = re.sub(r"\W", "_", name)
    if name and "properties" in schema and name not in definitions:
        definitions[name] = schema
        schema = {"$ref": f"#/$defs/{name}"}
    return {**schema, "$defs": definitions}


def _refused(error: Any, at: str) -> Refused:
    if type(error).__name__ != "ValidationError" or not hasattr(error, "errors"):
        return Refused(at, f"was refused: {type(error).__name__}: {error}")
    rows: list[Any] = error.errors()
    texts = []
    for row in rows[:5]:
        place = at
        for step in row["loc"]:
            place = below(place, step)
        texts.append((place, row["msg"]))
    more = f" (and {len(rows) - 5} more)" if len(rows) > 5 else ""
    first, rest = texts[0], texts[1:]
    return Refused(first[0], first[1] + "".join(f"; {place}: {text}" for place, text in rest) + more)
