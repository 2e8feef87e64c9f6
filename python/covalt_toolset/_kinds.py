"""Kinds of values: how each is written as JSON Schema, and how a JSON value becomes a value of it.

Both are side by side so that what the schema promises is what the function receives. Which hint is of which kind is
decided in `_compile`; classes with fields are in `_records`, Pydantic's in `_pydantic`.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

Schema = dict[str, Any]
Take = Callable[[Any, str], object]


class Refused(Exception):
    """A JSON value that does not fit. `at` is a JSON pointer into the arguments."""

    def __init__(self, at: str, text: str) -> None:
        super().__init__(f"{at}: {text}")
        self.at = at


class Unsupported(Exception):
    """A type that JSON cannot carry."""


def below(at: str, key: object) -> str:
    """The pointer of a member."""
    return f"{at}/{str(key).replace('~', '~0').replace('/', '~1')}"


def shown(value: object) -> str:
    """A JSON value in an error message."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return f"the number {value}"
    if isinstance(value, str):
        return f"the text {value!r}" if len(value) <= 60 else f"the text {value[:60]!r}…"
    if isinstance(value, list):
        return "a list"
    return "an object"


def refuse(at: str, wanted: str, value: object) -> Refused:
    return Refused(at, f"must be {wanted}, not {shown(value)}")


class Book:
    """A schema in the making: the definitions that it refers to."""

    def __init__(self, output: bool = False) -> None:
        # Whether it describes results: a Decimal is accepted as a number or a text, but comes back as a text.
        self.output = output
        self.definitions: dict[str, Schema] = {}
        self._names: dict[int, str] = {}
        self._made: dict[int, Schema] = {}

    def define(self, owner: object, wanted: str, make: Callable[[], Schema]) -> Schema:
        """A reference to the definition of `owner`, which is made at its first use. It may refer to itself."""
        name = self._names.get(id(owner))
        if name is None:
            name = self._names[id(owner)] = self.free(wanted)
            self.definitions[name] = {}
            self.definitions[name].update(make())
        return {"$ref": f"#/$defs/{name}"}

    def once(self, owner: object, make: Callable[[], Schema]) -> Schema:
        """What `owner` became here at its first use."""
        if id(owner) not in self._made:
            self._made[id(owner)] = make()
        return dict(self._made[id(owner)])

    def free(self, wanted: str) -> str:
        wanted = re.sub(r"\W+", "_", wanted).strip("_") or "Value"
        name, number = wanted, 1
        while name in self.definitions:
            number += 1
            name = f"{wanted}_{number}"
        return name

    def adopt(self, schema: Schema) -> Schema:
        """A schema that brings definitions of its own: they move here, under other names where theirs are taken."""
        brought: dict[str, Schema] = schema.pop("$defs", {})
        # Those that are here already: equal, and so is all that they refer to.
        same = {name for name, definition in brought.items() if self.definitions.get(name) == definition}
        while others := {name for name in same if not same.issuperset(references(brought[name]))}:
            same -= others
        names: dict[str, str] = {}
        for name, definition in brought.items():
            names[name] = name if name in same else self.free(name)
            if name not in same:
                self.definitions[names[name]] = definition
        moved = {f"#/$defs/{old}": f"#/$defs/{new}" for old, new in names.items() if old != new}
        if moved:
            for old, new in names.items():
                if old not in same:
                    _rename(self.definitions[new], moved)
            _rename(schema, moved)
        return schema


def references(schema: Any) -> list[str]:
    """The names of the definitions that a schema refers to itself."""
    found = []
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str) and schema["$ref"].startswith("#/$defs/"):
            found.append(schema["$ref"].rpartition("/")[2])
    for member in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        found += references(member)
    return found


def _rename(schema: Any, moved: dict[str, str]) -> None:
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            schema["$ref"] = moved.get(schema["$ref"], schema["$ref"])
        discriminator = schema.get("discriminator")
        if isinstance(discriminator, dict) and isinstance(discriminator.get("mapping"), dict):
            mapping = discriminator["mapping"]
            mapping.update({key: moved.get(target, target) for key, target in mapping.items()})
    for member in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        _rename(member, moved)


class Kind:
    """How values of one type look in JSON."""

    accepts_null = False

    def schema(self, book: Book) -> Schema:
        raise NotImplementedError

    def take(self, value: Any, at: str) -> Any:
        raise NotImplementedError


class Anything(Kind):
    """Whatever JSON has, as it is."""

    accepts_null = True

    def __init__(self, note: str | None = None) -> None:
        self.note = note

    def schema(self, book: Book) -> Schema:
        return {"$comment": self.note} if self.note else {}

    def take(self, value: Any, at: str) -> Any:
        return value


class Plain(Kind):
    """A kind that is one schema and one function."""

    def __init__(self, schema: Schema, take: Take, *, output: Schema | None = None, returned: bool = True) -> None:
        self._schema = schema
        self._take = take
        self._output = output or schema
        self._returned = returned
        self.accepts_null = schema == {"type": "null"}

    def schema(self, book: Book) -> Schema:
        if book.output and not self._returned:
            raise Unsupported("not a type of results")
        return dict(self._output if book.output else self._schema)

    def take(self, value: Any, at: str) -> Any:
        return self._take(value, at)


class Choice(Kind):
    """One of some values (Literal, Enum)."""

    def __init__(self, pairs: Sequence[tuple[Any, Any]]) -> None:
        self.pairs = list(pairs)
        self.accepts_null = any(word is None for word, _ in pairs)

    def schema(self, book: Book) -> Schema:
        words = [word for word, _ in self.pairs]
        names = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}
        kinds = {names[type(word)] for word in words}
        return {"type": kinds.pop(), "enum": words} if len(kinds) == 1 else {"enum": words}

    def take(self, value: Any, at: str) -> Any:
        for word, meant in self.pairs:
            # 1 is True in Python and not in JSON; 1.0 is 1 in both.
            if word == value and isinstance(word, bool) == isinstance(value, bool):
                return meant
        raise refuse(
            at,
            "one of "
            + ", ".join(shown(word).replace("the text ", "").replace("the number ", "") for word, _ in self.pairs),
            value,
        )


class Many(Kind):
    """Values in a row: list, set, a tuple of any length."""

    def __init__(self, item: Kind | None, make: Callable[[list[Any]], Any], unique: bool = False) -> None:
        self.item = item
        self.make = make
        self.unique = unique

    def schema(self, book: Book) -> Schema:
        if self.unique and book.output:
            raise Unsupported("a set is not a result")
        schema: Schema = {"type": "array"}
        items = self.item.schema(book) if self.item else {}
        if items:
            schema["items"] = items
        if self.unique:
            schema["uniqueItems"] = True
        return schema

    def take(self, value: Any, at: str) -> Any:
        if not isinstance(value, list):
            raise refuse(at, "a list", value)
        item = self.item
        taken = [item.take(member, below(at, place)) for place, member in enumerate(value)] if item else list(value)
        try:
            return self.make(taken)
        except TypeError as error:
            raise Refused(at, f"cannot be made: {error}") from None


class Row(Kind):
    """A tuple whose places have their own kinds, perhaps with names and defaults (NamedTuple)."""

    def __init__(
        self,
        places: Sequence[Kind],
        names: Sequence[str] = (),
        required: int | None = None,
        make: Callable[[list[Any]], Any] = tuple,
    ) -> None:
        self.places = list(places)
        self.names = list(names)
        self.required = len(self.places) if required is None else required
        self.make = make

    def schema(self, book: Book) -> Schema:
        places = [place.schema(book) for place in self.places]
        for name, place in zip(self.names, places):
            place.setdefault("title", name)
        least = len(places) if book.output else self.required
        schema: Schema = {"type": "array", "minItems": least, "maxItems": len(places)}
        if places:
            # An empty list of them is not allowed in JSON Schema.
            schema["prefixItems"] = places
        return schema

    def take(self, value: Any, at: str) -> Any:
        most = len(self.places)
        number = f"{most}" if self.required == most else f"{self.required} to {most}"
        if not isinstance(value, list):
            raise refuse(at, f"a list of {number}", value)
        if not self.required <= len(value) <= most:
            raise Refused(at, f"must have {number} items, not {len(value)}")
        return self.make(
            [place.take(member, below(at, number)) for number, (place, member) in enumerate(zip(self.places, value))]
        )


class Table(Kind):
    """An object whose keys are not known beforehand."""

    def __init__(self, key: Kind | None, value: Kind | None, make: Callable[[dict[Any, Any]], Any] = dict) -> None:
        self.key = key
        self.value = value
        self.make = make

    def schema(self, book: Book) -> Schema:
        schema: Schema = {"type": "object"}
        keys = {name: word for name, word in (self.key.schema(book) if self.key else {}).items() if name != "type"}
        if keys:
            schema["propertyNames"] = keys
        values = self.value.schema(book) if self.value else {}
        if values:
            schema["additionalProperties"] = values
        return schema

    def take(self, value: Any, at: str) -> Any:
        if not isinstance(value, dict):
            raise refuse(at, "an object", value)
        taken: dict[Any, Any] = {}
        for word, member in value.items():
            key = self.key.take(word, below(at, word)) if self.key else word
            if key in taken:
                raise Refused(below(at, word), f"the key {key!r} is there twice")
            taken[key] = self.value.take(member, below(at, word)) if self.value else member
        return self.make(taken)


class OneOf(Kind):
    """A union. The first member that fits is taken, in the order in which they were written; a whole number is an int
    rather than a float where there are both."""

    def __init__(self, members: Sequence[Kind], whole: Kind | None = None) -> None:
        self.members = list(members)
        self.whole = whole
        self.accepts_null = any(member.accepts_null for member in members)

    def schema(self, book: Book) -> Schema:
        schemas: list[Schema] = []
        for member in self.members:
            schema = member.schema(book)
            for part in schema["anyOf"] if list(schema) == ["anyOf"] else [schema]:
                if part not in schemas:
                    schemas.append(part)
        if {} in schemas:
            return {}
        return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}

    def take(self, value: Any, at: str) -> Any:
        if self.whole is not None and isinstance(value, int) and not isinstance(value, bool):
            return self.whole.take(value, at)
        reasons: list[Refused] = []
        for member in self.members:
            try:
                return member.take(value, at)
            except Refused as reason:
                reasons.append(reason)
        if value is not None and len(reasons) > 1:
            # What null would have to be is of no help to someone who gave something else.
            reasons = [
                reason
                for member, reason in zip(self.members, reasons)
                if not isinstance(member, Plain) or not member.accepts_null
            ]
        if len(reasons) == 1:
            raise reasons[0]
        raise Refused(
            at, "fits none of the possible types: " + "; ".join(dict.fromkeys(str(reason) for reason in reasons))
        )


class Narrowed(Kind):
    """A kind with words about it, and limits in the manner of annotated_types."""

    _LIMITS: tuple[tuple[str, str, str, Callable[[Any, Any], bool]], ...] = (
        ("gt", "exclusiveMinimum", "greater than", lambda value, limit: value > limit),
        ("ge", "minimum", "at least", lambda value, limit: value >= limit),
        ("lt", "exclusiveMaximum", "less than", lambda value, limit: value < limit),
        ("le", "maximum", "at most", lambda value, limit: value <= limit),
        ("multiple_of", "multipleOf", "a multiple of", lambda value, limit: value % limit == 0),
    )
    _LENGTHS = (("min_length", "min", "at least"), ("max_length", "max", "at most"))

    def __init__(self, kind: Kind, description: str | None, limits: Sequence[object]) -> None:
        self.kind = kind
        self.description = description
        self.accepts_null = kind.accepts_null
        self._limits = [(limit, row) for row in self._LIMITS for limit in _values(limits, row[0])]
        self._lengths = [
            (limit, row) for row in self._LENGTHS for limit in _values(limits, row[0]) if limit != 0 or row[1] == "max"
        ]

    def schema(self, book: Book) -> Schema:
        schema = self.kind.schema(book)
        for limit, (_, word, _, _) in self._limits:
            if isinstance(limit, (int, float)):
                schema[word] = limit
        what = {"string": "Length", "object": "Properties"}.get(schema.get("type", ""), "Items")
        for limit, (_, word, _) in self._lengths:
            schema[word + what] = limit
        if self.description:
            schema["description"] = self.description
        return schema

    def take(self, value: Any, at: str) -> Any:
        taken = self.kind.take(value, at)
        for limit, (_, _, words, holds) in self._limits:
            if not holds(taken, limit):
                raise refuse(at, f"{words} {limit}", value)
        for limit, (_, word, words) in self._lengths:
            if len(taken) < limit if word == "min" else len(taken) > limit:
                raise Refused(at, f"must have a length of {words} {limit}, not {len(taken)}")
        return taken


def _values(limits: Sequence[object], name: str) -> list[Any]:
    return [getattr(limit, name) for limit in limits if getattr(limit, name, None) is not None]
