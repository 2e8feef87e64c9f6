"""Which kind a type hint is of."""

import collections
import collections.abc as abc
import enum
import types
import typing
from collections.abc import Callable
from typing import Any

from . import _docstring, _hints, _pydantic, _records, _scalars
from ._kinds import Anything, Choice, Kind, Many, Narrowed, OneOf, Row, Table, Unsupported

_LISTS: dict[Any, Callable[[list[Any]], Any]] = {
    list: list,
    abc.Sequence: list,
    abc.MutableSequence: list,
    abc.Collection: list,
    abc.Iterable: list,
    abc.Reversible: list,
    collections.deque: collections.deque,
}
_SETS: dict[Any, Callable[[list[Any]], Any]] = {set: set, frozenset: frozenset, abc.Set: set, abc.MutableSet: set}
_TABLES: dict[Any, Callable[[dict[Any, Any]], Any]] = {
    dict: dict,
    abc.Mapping: dict,
    abc.MutableMapping: dict,
    collections.OrderedDict: collections.OrderedDict,
    collections.defaultdict: lambda taken: collections.defaultdict(None, taken),
}


class Compiler:
    """Makes kinds of hints. One is used for all hints of a function, so that a class is compiled once."""

    def __init__(self) -> None:
        self._made: dict[Any, Kind] = {}

    def kind(self, hint: Any) -> Kind:
        """The kind of a hint; `Unsupported` says why there is none."""
        if isinstance(hint, _hints.Unresolved):
            return Anything(hint.reason)
        if isinstance(hint, typing.ForwardRef) or isinstance(hint, str):
            return Anything(f"The type hint {getattr(hint, '__forward_arg__', hint)!r} could not be read")
        if hint is Any or hint is object or hint is typing.Hashable:
            return Anything()
        if isinstance(hint, typing.Hashable) and hint in _scalars.SIMPLE:
            return _scalars.SIMPLE[hint]
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin is None:
            return self._alone(hint)
        if origin is typing.Annotated:
            return self._annotated(hint, arguments)
        if origin is typing.Union or origin is types.UnionType:
            return self._union(arguments)
        if origin is typing.Literal or getattr(origin, "_name", None) == "Literal":
            return _literal(arguments)
        if getattr(origin, "_name", None) in ("Required", "NotRequired", "ReadOnly", "Final", "ClassVar"):
            return self.kind(arguments[0])
        if type(origin).__name__ == "TypeAliasType":
            return self._alias(hint, origin, arguments)
        if isinstance(origin, type):
            return self._class(hint, origin, arguments)
        raise Unsupported(f"{_name(hint)} has no form in JSON")

    def _alone(self, hint: Any) -> Kind:
        if isinstance(hint, typing.TypeVar):
            if hint.__constraints__:
                return self._union(hint.__constraints__)
            return self.kind(hint.__bound__) if hint.__bound__ is not None else Anything()
        if isinstance(hint, typing.NewType):
            return self.kind(hint.__supertype__)
        if type(hint).__name__ == "TypeAliasType":
            return self._alias(hint, hint, ())
        if getattr(hint, "_name", None) == "LiteralString":
            return _scalars.TEXT
        if isinstance(hint, type):
            return self._class(hint, hint, ())
        raise Unsupported(f"{_name(hint)} has no form in JSON")

    def _class(self, hint: Any, cls: Any, arguments: tuple[Any, ...]) -> Kind:
        if cls is tuple:
            return self._tuple(hint, arguments)
        if cls in _LISTS:
            return Many(self.kind(arguments[0]) if arguments else None, _LISTS[cls])
        if cls in _SETS:
            return Many(self.kind(arguments[0]) if arguments else None, _SETS[cls], unique=True)
        if cls in _TABLES:
            if not arguments:
                return Table(None, None, _TABLES[cls])
            return Table(self._key(arguments[0]), self.kind(arguments[1]), _TABLES[cls])
        if issubclass(cls, enum.Enum):
            return _enumeration(cls)
        known = _scalars.named(cls)
        if known is not None:
            return typing.cast(Kind, known)
        if hint in self._made:
            return self._made[hint]
        if _pydantic.is_model(cls):
            return self._made.setdefault(hint, _pydantic.Model(hint))
        if _pydantic.is_old_model(cls):
            return self._made.setdefault(hint, _pydantic.OldModel(cls))
        return self._fields(hint, cls, arguments)

    def _fields(self, hint: Any, cls: Any, arguments: tuple[Any, ...]) -> Kind:
        """A class with fields. It is known before its fields are, since they may be of it."""
        kinds = (_records.is_dataclass(cls), _records.is_typed_dict(cls), _records.is_named_tuple(cls))
        if not any(kinds):
            reason = "use a dataclass, a TypedDict or a Pydantic model for a type of your own"
            raise Unsupported(f"{_name(cls)} has no form in JSON; {reason}")
        filled = dict(zip(getattr(cls, "__parameters__", ()), arguments))
        hints = {name: _fill(field, filled) for name, field in _hints.of_class(cls).items()}
        if kinds[2]:
            places = [self.kind(hints.get(name, Any)) for name in cls._fields]
            return Row(places, cls._fields, len(places) - len(cls._field_defaults), lambda taken: cls(*taken))
        summary = _docstring.read(cls.__doc__)[0]
        if kinds[0] and summary and summary.startswith(f"{cls.__name__}("):
            # The signature that dataclasses write where there is no docstring.
            summary = None
        make = (lambda taken: cls(**taken)) if kinds[0] else dict
        name = "_".join([cls.__name__, *(_name(argument) for argument in arguments)])
        record = self._made[hint] = _records.Record(name, make, summary, full=kinds[0])
        try:
            if kinds[0]:
                _records.dataclass_record(cls, name, hints, self.kind, record)
            else:
                _records.typed_dict_record(cls, hints, self.kind, record)
        except Unsupported as reason:
            del self._made[hint]
            raise Unsupported(f"in {cls.__name__}: {reason}") from None
        return record

    def _tuple(self, hint: Any, arguments: tuple[Any, ...]) -> Kind:
        if hint in (tuple, getattr(typing, "Tuple")):
            return Many(None, tuple)
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return Many(self.kind(arguments[0]), tuple)
        return Row([] if arguments == ((),) else [self.kind(argument) for argument in arguments])

    def _key(self, hint: Any) -> Kind | None:
        kind = self.kind(hint)
        if kind is _scalars.TEXT or isinstance(kind, Anything):
            return None
        if kind is _scalars.WHOLE:
            return _scalars.WHOLE_KEY
        if isinstance(kind, Choice) and all(type(word) in (str, int) for word, _ in kind.pairs):
            return Choice([(str(word), meant) for word, meant in kind.pairs])
        if isinstance(kind, (Narrowed, _pydantic.Model)) or kind.schema(_scalars_book()).get("type") == "string":
            return kind
        raise Unsupported(f"the keys of an object in JSON are texts, not {_name(hint)}")

    def _union(self, members: tuple[Any, ...]) -> Kind:
        models = [member for member in members if _pydantic.is_model(member)]
        kinds: list[Kind] = []
        whole: Kind | None = None
        for member in members:
            if len(models) > 1 and member in models:
                # Which model fits best is Pydantic's to say: most of them ignore fields that they do not know.
                if member is models[0]:
                    kinds.append(_pydantic.Model(typing.Union[tuple(models)]))
                continue
            kind = self.kind(member)
            kinds.append(kind)
            whole = kind if kind is _scalars.WHOLE else whole
        return kinds[0] if len(kinds) == 1 else OneOf(kinds, whole)

    def _annotated(self, hint: Any, arguments: tuple[Any, ...]) -> Kind:
        words = arguments[1:]
        description = None
        for word in words:
            text = word if isinstance(word, str) else getattr(word, "documentation", None)
            description = text if isinstance(text, str) else description
        if any(_pydantic.is_metadata(word) for word in words):
            kind: Kind = _pydantic.Model(hint)
            return Narrowed(kind, description, ()) if description else kind
        limits = [word for word in words if type(word).__module__.split(".")[0] == "annotated_types"]
        kind = self.kind(arguments[0])
        return Narrowed(kind, description, limits) if description or limits else kind

    def _alias(self, hint: Any, alias: Any, arguments: tuple[Any, ...]) -> Kind:
        if hint not in self._made:
            named = self._made[hint] = _Alias(alias.__name__)
            named.kind = self.kind(_fill(alias.__value__, dict(zip(alias.__type_params__, arguments))))
        return self._made[hint]


class _Alias(Kind):
    """A `type X = …`, which may speak of itself."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.kind: Kind = Anything()

    def schema(self, book: Any) -> dict[str, Any]:
        return typing.cast(dict[str, Any], book.define(self, self.name, lambda: self.kind.schema(book)))

    def take(self, value: Any, at: str) -> Any:
        return self.kind.take(value, at)


def _scalars_book() -> Any:
    from ._kinds import Book

    return Book()


def _fill(hint: Any, filled: dict[Any, Any]) -> Any:
    """A hint with the parameters of a generic class filled in."""
    if not filled or isinstance(hint, _hints.Unresolved):
        return hint
    if isinstance(hint, typing.TypeVar):
        return filled.get(hint, hint)
    parameters = getattr(hint, "__parameters__", ())
    if isinstance(hint, type) and not isinstance(hint, types.GenericAlias) or not parameters:
        return hint
    return hint[tuple(filled.get(parameter, parameter) for parameter in parameters)]


def _name(hint: Any) -> str:
    if isinstance(hint, type) and not isinstance(hint, types.GenericAlias):
        return hint.__name__
    return str(hint).replace("typing.", "")


def _literal(words: tuple[Any, ...]) -> Kind:
    pairs: list[tuple[Any, Any]] = []
    for word in words:
        if isinstance(word, enum.Enum):
            pairs.append((enum_word(word), word))
        elif word is None or isinstance(word, (str, int, bool)):
            pairs.append((word, word))
        else:
            raise Unsupported(f"{word!r} in a Literal has no form in JSON")
    return Choice(pairs)


def _enumeration(cls: Any) -> Kind:
    if issubclass(cls, enum.Flag):
        raise Unsupported(f"{cls.__name__} is a Flag: a list of an Enum's values is the form for that")
    members = list(cls.__members__.values())
    if not members:
        raise Unsupported(f"{cls.__name__} has no values")
    # An alias is the same value again.
    unique = {member.name: member for member in members}
    return Choice([(enum_word(member), member) for member in unique.values()])


def enum_word(member: enum.Enum) -> Any:
    """An Enum's member in JSON: its value, or its name in a class with values that are no plain JSON."""
    if all(
        isinstance(each.value, (str, int, float, bool, type(None))) and each.value == each.value
        for each in type(member)
    ):
        value = member.value
        for plain in (bool, int, float, str):
            if isinstance(value, plain):
                return plain(value)
        return value
    return member.name
