"""Every sort of type hint: the schema that it becomes, values that fit and what the function receives, values that do not."""

import sys

import jsonschema_rs
import pytest
from conftest import HEADER

NULL = {"type": "null"}
POINT = {
    "type": "object",
    "title": "Point",
    "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}},
    "required": ["x"],
    "additionalProperties": False,
}
DECIMAL = {
    "anyOf": [
        {"type": "number"},
        {"type": "string", "pattern": r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"},
    ]
}
POINT_REF = {"$ref": "#/$defs/Point"}


def defs(**named):
    return {"$defs": named}


def array(items=None, **more):
    return {"type": "array", **({"items": items} if items else {}), **more}


# hint, schema, {JSON: repr of what arrives}, JSON that is refused
ROWS = [
    ("str", {"type": "string"}, [("a", "'a'"), ("", "''")], [1, None, True, [], {}]),
    ("int", {"type": "integer"}, [(1, "1"), (10**30, str(10**30)), (2.0, "2")], ["1", True, 1.5, None]),
    ("float", {"type": "number"}, [(1.5, "1.5"), (1, "1.0")], ["1", True, None]),
    ("bool", {"type": "boolean"}, [(True, "True")], [1, 0, "true", None]),
    ("None", NULL, [(None, "None")], [0, ""]),
    ("Any", {}, [(1, "1"), ([{}], "[{}]"), (None, "None")], []),
    ("object", {}, [(1, "1")], []),
    ("Optional[int]", {"anyOf": [{"type": "integer"}, NULL]}, [(1, "1"), (None, "None")], ["x"]),
    ("int | None", {"anyOf": [{"type": "integer"}, NULL]}, [(1, "1"), (None, "None")], ["x"]),
    ("int | str", {"anyOf": [{"type": "integer"}, {"type": "string"}]}, [(1, "1"), ("a", "'a'")], [None, [], 1.5]),
    ("Union[float, int]", {"anyOf": [{"type": "number"}, {"type": "integer"}]}, [(1, "1"), (1.5, "1.5")], ["x"]),
    ("int | Any", {}, [(1, "1"), ("a", "'a'")], []),
    (
        "int | bool | None",
        {"anyOf": [{"type": "integer"}, {"type": "boolean"}, NULL]},
        [(True, "True"), (1, "1")],
        ["x"],
    ),
    ("str | list[str]", {"anyOf": [{"type": "string"}, array({"type": "string"})]}, [(["a"], "['a']")], [[1], 2]),
    ("Literal['a', 'b']", {"type": "string", "enum": ["a", "b"]}, [("a", "'a'")], ["c", 1, None]),
    ("Literal[1, 'a', None]", {"enum": [1, "a", None]}, [(1, "1"), (None, "None")], [True, 2]),
    ("Literal[True]", {"type": "boolean", "enum": [True]}, [(True, "True")], [1, False]),
    ("Literal[Color.RED]", {"type": "string", "enum": ["red"]}, [("red", "<Color.RED: 'red'>")], ["blue"]),
    ("Color", {"type": "string", "enum": ["red", "blue"]}, [("red", "<Color.RED: 'red'>")], ["RED", 1]),
    ("Level", {"type": "integer", "enum": [1, 2]}, [(2, "<Level.HIGH: 2>"), (2.0, "<Level.HIGH: 2>")], [3, True, "1"]),
    ("Shape", {"type": "string", "enum": ["UNIT", "WIDE"]}, [("WIDE", "<Shape.WIDE: (2, 1)>")], ["x"]),
    ("list", array(), [([1, "a"], "[1, 'a']")], ["x", {}]),
    ("List", array(), [([1], "[1]")], [1]),
    ("list[int]", array({"type": "integer"}), [([1, 2], "[1, 2]"), ([], "[]")], [["x"], "12", {"0": 1}]),
    ("list[Any]", array(), [([None], "[None]")], [1]),
    ("list[list[str]]", array(array({"type": "string"})), [([["a"]], "[['a']]")], [["a"]]),
    ("Sequence[int]", array({"type": "integer"}), [([1], "[1]")], ["x"]),
    ("collections.abc.Iterable[int]", array({"type": "integer"}), [([1], "[1]")], ["x"]),
    ("collections.deque[int]", array({"type": "integer"}), [([1], "deque([1])")], ["x"]),
    ("set", array(uniqueItems=True), [([1], "{1}")], [1]),
    ("set[int]", array({"type": "integer"}, uniqueItems=True), [([1], "{1}")], [["x"]]),
    ("frozenset[str]", array({"type": "string"}, uniqueItems=True), [(["a"], "frozenset({'a'})")], [[1]]),
    ("tuple", array(), [([1, "a"], "(1, 'a')")], [1]),
    ("Tuple", array(), [([1], "(1,)")], [1]),
    ("tuple[int, ...]", array({"type": "integer"}), [([1, 2], "(1, 2)"), ([], "()")], [["x"]]),
    (
        "tuple[int, str]",
        array(prefixItems=[{"type": "integer"}, {"type": "string"}], minItems=2, maxItems=2),
        [([1, "a"], "(1, 'a')")],
        [[1], [1, "a", 2], ["a", 1], {}],
    ),
    ("tuple[()]", array(minItems=0, maxItems=0), [([], "()")], [[1]]),
    ("dict", {"type": "object"}, [({"a": 1}, "{'a': 1}")], [[], "x"]),
    ("Dict", {"type": "object"}, [({"a": 1}, "{'a': 1}")], [[]]),
    ("dict[str, Any]", {"type": "object"}, [({"a": None}, "{'a': None}")], [[]]),
    (
        "dict[str, int]",
        {"type": "object", "additionalProperties": {"type": "integer"}},
        [({"a": 1}, "{'a': 1}")],
        [{"a": "x"}],
    ),
    (
        "Mapping[int, str]",
        {
            "type": "object",
            "propertyNames": {"pattern": "^-?(0|[1-9][0-9]*)$"},
            "additionalProperties": {"type": "string"},
        },
        [({"1": "a"}, "{1: 'a'}")],
        [{"x": "a"}, {"01": "a"}],
    ),
    (
        "dict[Color, int]",
        {"type": "object", "propertyNames": {"enum": ["red", "blue"]}, "additionalProperties": {"type": "integer"}},
        [({"red": 1}, "{<Color.RED: 'red'>: 1}")],
        [{"green": 1}],
    ),
    (
        "dict[Level, int]",
        {"type": "object", "propertyNames": {"enum": ["1", "2"]}, "additionalProperties": {"type": "integer"}},
        [({"2": 1}, "{<Level.HIGH: 2>: 1}")],
        [{"3": 1}],
    ),
    (
        "Point",
        POINT,
        [({"x": 1}, "Point(x=1, y=0)"), ({"x": 1, "y": 2}, "Point(x=1, y=2)")],
        [{}, {"x": 1, "z": 1}, {"x": "a"}, 1],
    ),
    (
        "Optional[Point]",
        {"anyOf": [POINT_REF, NULL], **defs(Point=POINT)},
        [({"x": 1}, "Point(x=1, y=0)"), (None, "None")],
        [{}],
    ),
    ("list[Point]", {**array(POINT_REF), **defs(Point=POINT)}, [([{"x": 1}], "[Point(x=1, y=0)]")], [[{}]]),
    (
        "dict[str, Point]",
        {"type": "object", "additionalProperties": POINT_REF, **defs(Point=POINT)},
        [({"a": {"x": 1}}, "{'a': Point(x=1, y=0)}")],
        [{"a": {}}],
    ),
    (
        "Tree",
        {
            "$ref": "#/$defs/Tree",
            **defs(
                Tree={
                    "type": "object",
                    "title": "Tree",
                    "properties": {"value": {"type": "string"}, "children": array({"$ref": "#/$defs/Tree"})},
                    "required": ["value"],
                    "additionalProperties": False,
                }
            ),
        },
        [({"value": "a", "children": [{"value": "b"}]}, "Tree(value='a', children=[Tree(value='b', children=[])])")],
        [{"value": "a", "children": [{}]}],
    ),
    (
        "Box[int]",
        {
            "type": "object",
            "title": "Box_int",
            "properties": {"inside": {"type": "integer"}, "more": array({"type": "integer"})},
            "required": ["inside"],
            "additionalProperties": False,
        },
        [({"inside": 1, "more": [2]}, "Box(inside=1, more=[2])")],
        [{"inside": "a"}],
    ),
    (
        "Movie",
        {
            "type": "object",
            "title": "Movie",
            "properties": {"title": {"type": "string"}, "year": {"type": "integer"}},
            "required": ["title"],
            "additionalProperties": False,
        },
        [({"title": "a"}, "{'title': 'a'}")],
        [{}, {"title": "a", "year": "b"}, {"title": "a", "more": 1}],
    ),
    (
        "Partial",
        {
            "type": "object",
            "title": "Partial",
            "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
            "required": ["a"],
            "additionalProperties": False,
        },
        [({"a": 1}, "{'a': 1}")],
        [{"b": "x"}],
    ),
    (
        "Pair",
        array(
            prefixItems=[{"type": "integer", "title": "left"}, {"type": "string", "title": "right"}],
            minItems=1,
            maxItems=2,
        ),
        [([1], "Pair(left=1, right='r')"), ([1, "a"], "Pair(left=1, right='a')")],
        [[], ["a"], {"left": 1}],
    ),
    (
        "datetime.datetime",
        {"type": "string", "format": "date-time"},
        [
            ("2024-05-01T12:30:00Z", "datetime.datetime(2024, 5, 1, 12, 30, tzinfo=datetime.timezone.utc)"),
            ("2024-05-01T12:30:00.5", "datetime.datetime(2024, 5, 1, 12, 30, 0, 500000)"),
            (
                "2024-05-01T12:30:00-01:30",
                "datetime.datetime(2024, 5, 1, 12, 30, tzinfo=datetime.timezone(datetime.timedelta(days=-1, seconds=81000)))",
            ),
        ],
        ["2024-05-01", "2024-13-01T00:00:00Z", "x", 1, "2024-05-01T12:30:00+99:99"],
    ),
    (
        "datetime.date",
        {"type": "string", "format": "date"},
        [("2024-05-01", "datetime.date(2024, 5, 1)")],
        ["2024-02-30", "20240501"],
    ),
    ("datetime.time", {"type": "string", "format": "time"}, [("12:30:01", "datetime.time(12, 30, 1)")], ["25:00", "x"]),
    (
        "datetime.timedelta",
        {"type": "string", "format": "duration"},
        [("P1DT2H", "datetime.timedelta(days=1, seconds=7200)"), ("PT0.5S", "datetime.timedelta(microseconds=500000)")],
        ["P", "PT", "1 day", 5],
    ),
    ("pathlib.Path", {"type": "string"}, [("a/b", "PosixPath('a/b')")], [1, "a\0b"]),
    ("pathlib.PurePosixPath", {"type": "string"}, [("a/b", "PurePosixPath('a/b')")], [1]),
    (
        "uuid.UUID",
        {"type": "string", "format": "uuid"},
        [("12345678-1234-5678-1234-567812345678", "UUID('12345678-1234-5678-1234-567812345678')")],
        ["x", 1],
    ),
    (
        "decimal.Decimal",
        DECIMAL,
        [("1.10", "Decimal('1.10')"), (2, "Decimal('2')"), (1.5, "Decimal('1.5')")],
        ["NaN", "x", True],
    ),
    ("bytes", {"type": "string", "contentEncoding": "base64"}, [("aGk=", "b'hi'")], ["a", "é", 1]),
    ("Annotated[int, 'How many.']", {"type": "integer", "description": "How many."}, [(1, "1")], ["x"]),
    (
        "Annotated[list[int], 'Some.'] | None",
        {"anyOf": [array({"type": "integer"}, description="Some."), NULL]},
        [([1], "[1]")],
        ["x"],
    ),
    ("UserId", {"type": "integer"}, [(1, "1")], ["x"]),
    ("T", {}, [("x", "'x'")], []),
    ("Number", {"type": "integer"}, [(1, "1")], ["x"]),
    ("Either", {"anyOf": [{"type": "integer"}, {"type": "string"}]}, [(1, "1"), ("a", "'a'")], [None]),
    ("'int'", {"type": "integer"}, [(1, "1")], ["x"]),
    (
        "'list[Later]'",
        {
            **array({"$ref": "#/$defs/Later"}),
            "$defs": {
                "Later": {
                    "type": "object",
                    "title": "Later",
                    "properties": {"a": {"type": "integer"}},
                    "required": ["a"],
                    "additionalProperties": False,
                }
            },
        },
        [([{"a": 1}], "[Later(a=1)]")],
        [[{}]],
    ),
]


@pytest.mark.parametrize("postponed", [False, True], ids=["", "postponed"])
@pytest.mark.parametrize("hint, schema, good, bad", ROWS, ids=[row[0] for row in ROWS])
def test_a_hint(toolset, hint, schema, good, bad, postponed):
    future = "from __future__ import annotations\n" if postponed else ""
    body = f"@tool\ndef f(x: {hint}):\n    return repr(x)\n@dataclass\nclass Later:\n    a: int\n"
    (toolset.root / "t.py").write_text(future + HEADER + body)
    whole = toolset.schema("t:f")
    definitions = schema.pop("$defs", None) if (schema := dict(schema)) else None
    assert whole == {
        "type": "object",
        "properties": {"x": schema},
        "required": ["x"],
        "additionalProperties": False,
        **({"$defs": definitions} if definitions else {}),
    }
    jsonschema_rs.meta.validate(whole)
    validator = jsonschema_rs.Draft202012Validator(whole)
    for value, arrives in good:
        assert validator.is_valid({"x": value}), value
        assert toolset.result("t:f", {"x": value}) == arrives
    for value in bad:
        error = toolset.error("t:f", {"x": value})
        assert error["kind"] == "bad_arguments", value
        assert error["message"].startswith("the arguments do not fit: /x"), error["message"]


@pytest.mark.parametrize(
    "parameter, schema, required, arrives",
    [
        ("x", {}, True, None),
        ("x=1", {"default": 1}, False, "1"),
        ("x: int = 1", {"type": "integer", "default": 1}, False, "1"),
        ("x: str = None", {"anyOf": [{"type": "string"}, NULL], "default": None}, False, "None"),
        ("x: Optional[str] = None", {"anyOf": [{"type": "string"}, NULL], "default": None}, False, "None"),
        (
            "x: Color = Color.RED",
            {"type": "string", "enum": ["red", "blue"], "default": "red"},
            False,
            "<Color.RED: 'red'>",
        ),
        ("x: pathlib.Path = pathlib.Path('a')", {"type": "string", "default": "a"}, False, "PosixPath('a')"),
        ("x: set[int] = {1}", array({"type": "integer"}, uniqueItems=True, default=[1]), False, "{1}"),
        ("x: Point = Point(1)", {**POINT, "default": {"x": 1, "y": 0}}, False, "Point(x=1, y=0)"),
        ("x: float = float('inf')", {"type": "number"}, False, "inf"),
        ("x: Any = b''", {}, False, "b''"),
        ("*, x: int = 1", {"type": "integer", "default": 1}, False, "1"),
        ("x: int = 1, /", {"type": "integer", "default": 1}, False, "1"),
        ("x: int, /", {"type": "integer"}, True, None),
    ],
)
def test_a_default(toolset, parameter, schema, required, arrives):
    toolset.write("t.py", HEADER + f"@tool\ndef f({parameter}):\n    return repr(x)\n")
    whole = toolset.schema("t:f")
    assert whole["properties"]["x"] == schema
    assert whole["required"] == (["x"] if required else [])
    if arrives is None:
        assert toolset.error("t:f")["message"] == "the arguments do not fit: /x: is missing"
    else:
        assert toolset.result("t:f") == arrives


def test_positional_only_parameters_keep_their_places(toolset):
    toolset.write("t.py", "def f(a, b=2, c=3, /, d=4, *, e=5):\n    return [a, b, c, d, e]\n")
    assert toolset.result("t:f", {"a": 1, "c": 30, "e": 50}) == [1, 2, 30, 4, 50]


@pytest.mark.parametrize(
    "parameters, problem",
    [
        ("*args", "*args is not possible in a tool: name each argument"),
        ("x, **kw", "**kw is not possible in a tool: name each argument"),
        ("x: complex", "the parameter x: complex has no form in JSON"),
        (
            "x: dict[tuple[int, int], str]",
            "the parameter x: the keys of an object in JSON are texts, not tuple[int, int]",
        ),
        ("x: dict[Literal[None, 'a'], int]", "the parameter x: the keys of an object in JSON are texts, not Literal"),
        ("x: Callable[[], int]", "the parameter x: "),
        ("x: list[HEADER]", "the parameter x: HEADER has no form in JSON; use a dataclass"),
        ("x: Holder", "the parameter x: in Holder: complex has no form"),
    ],
)
def test_what_json_cannot_carry_is_a_problem(toolset, parameters, problem):
    classes = "class HEADER: pass\n@dataclass\nclass Holder:\n    c: complex\n"
    toolset.write("t.py", HEADER + classes + f"@tool\ndef f({parameters}): pass\n")
    found = toolset.describe("t:f")
    assert found["problem"].startswith(problem), found["problem"]
    assert found["input_schema"] == {} and found["name"] is None and found["style"] is None
    assert toolset.error("t:f")["kind"] == "not_loaded"


def test_one_bad_hint_spoils_no_other(toolset):
    toolset.write(
        "t.py", "from __future__ import annotations\ndef f(a: Nowhere, b: int, c: list[Nowhere]): return [a, b, c]\n"
    )
    properties = toolset.schema("t:f")["properties"]
    assert properties["b"] == {"type": "integer"}
    assert properties["a"] == {"$comment": "The type hint 'Nowhere' could not be read: name 'Nowhere' is not defined"}
    assert list(properties["c"]) == ["$comment"]
    assert toolset.result("t:f", {"a": 1, "b": 2, "c": 3}) == [1, 2, 3]


def test_one_bad_field_spoils_no_other(toolset):
    toolset.write("t.py", HEADER + "@dataclass\nclass D:\n    a: 'Nowhere'\n    b: 'int'\ndef f(d: D): return d.b\n")
    properties = toolset.schema("t:f")["properties"]["d"]["properties"]
    assert properties["b"] == {"type": "integer"} and "Nowhere" in properties["a"]["$comment"]


def test_classes_of_one_name_stay_apart(toolset):
    toolset.write("a.py", "import dataclasses\n@dataclasses.dataclass\nclass P:\n    x: int\n")
    toolset.write("b.py", "import dataclasses\n@dataclasses.dataclass\nclass P:\n    y: str\n")
    toolset.write("t.py", "import a, b\ndef f(one: list[a.P], two: list[b.P], three: list[a.P]): pass\n")
    whole = toolset.schema("t:f")
    assert [whole["properties"][name]["items"]["$ref"] for name in ("one", "two", "three")] == [
        "#/$defs/P", "#/$defs/P_2", "#/$defs/P",
    ]  # fmt: skip
    assert list(whole["$defs"]["P_2"]["properties"]) == ["y"]


def test_dataclass_fields(toolset):
    toolset.write(
        "t.py",
        HEADER
        + '''
@dataclass
class Job:
    """A job to do.

    Attributes:
        name: What to
            call it.
    """
    name: str
    size: int = field(default=1, metadata={"description": "How large."})
    tags: list[str] = field(default_factory=list, kw_only=True)
    made: str = field(init=False, default="here")
    seed: dataclasses.InitVar[int] = 0
    total: ClassVar[int] = 0
    def __post_init__(self, seed):
        if self.size < 0:
            raise ValueError("size is negative")
        self.made = f"from {seed}"
def f(job: Job) -> Job:
    return job
''',
    )
    schema = toolset.schema("t:f")["properties"]["job"]
    assert schema["description"] == "A job to do."
    assert schema["properties"] == {
        "name": {"type": "string", "description": "What to call it."},
        "size": {"type": "integer", "description": "How large.", "default": 1},
        "tags": {"type": "array", "items": {"type": "string"}},
        "seed": {"type": "integer", "default": 0},
    }
    assert toolset.result("t:f", {"job": {"name": "a", "seed": 3}}) == {
        "name": "a",
        "size": 1,
        "tags": [],
        "made": "from 3",
    }
    error = toolset.error("t:f", {"job": {"name": "a", "size": -1}})
    assert error["message"] == "the arguments do not fit: /job: Job refused it: ValueError: size is negative"


def test_errors_name_the_place(toolset):
    toolset.write("t.py", HEADER + "def f(a: dict[str, list[Point]], b: int, c: int): pass\n")
    error = toolset.error("t:f", {"a": {"k/~": [{"x": 1}, {"x": "no"}]}, "b": "no", "d": 1})
    assert error == {
        "kind": "bad_arguments",
        "message": "the arguments do not fit: /d: there is no such argument; there are a, b, c; "
        "/a/k~1~0/1/x: must be a whole number, not the text 'no'; "
        "/b: must be a whole number, not the text 'no'; /c: is missing",
        "traceback": None,
    }


@pytest.mark.parametrize(
    "hint, schema",
    [
        ("dict", None),
        ("Any", None),
        ("None", None),
        ("object", None),
        ("Nowhere", None),
        ("Text", None),
        ("list[Image | str]", None),
        ("set[int]", None),
        ("bytes", None),
        ("str", {"type": "string"}),
        ("list[int]", array({"type": "integer"})),
        ("dict[str, int]", {"type": "object", "additionalProperties": {"type": "integer"}}),
        ("decimal.Decimal", {"type": "string"}),
        ("Awaitable[int]", {"type": "integer"}),
        (
            "Movie",
            {
                "type": "object",
                "title": "Movie",
                "properties": {"title": {"type": "string"}, "year": {"type": "integer"}},
                "required": ["title"],
            },
        ),
        (
            "Point",
            {
                "type": "object",
                "title": "Point",
                "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
                "required": ["x", "y"],
            },
        ),
    ],
)
def test_results_have_schemas(toolset, hint, schema):
    toolset.write("t.py", "from __future__ import annotations\n" + HEADER + f"def f() -> {hint}: pass\n")
    found = toolset.describe("t:f")
    assert found["problem"] is None
    assert found["output_schema"] == schema


def test_limits_of_annotated_types_need_no_pydantic(toolset):
    toolset.write(
        "t.py",
        "from typing import Annotated\nfrom annotated_types import Ge, Gt, Interval, Len, MaxLen, MultipleOf\n"
        "def f(a: Annotated[int, Gt(0), MultipleOf(2)] = 2, b: Annotated[str, Len(1, 3)] = 'a', "
        "c: Annotated[list[Annotated[float, Interval(ge=0, lt=1)]], MaxLen(2)] = ()): return [a, b, c]\n",
    )
    properties = toolset.schema("t:f")["properties"]
    assert properties["a"] == {"type": "integer", "exclusiveMinimum": 0, "multipleOf": 2, "default": 2}
    assert properties["b"] == {"type": "string", "minLength": 1, "maxLength": 3, "default": "a"}
    assert properties["c"] == array({"type": "number", "minimum": 0, "exclusiveMaximum": 1}, maxItems=2, default=[])
    assert toolset.result("t:f", {"a": 4, "b": "abc", "c": [0.5]}) == [4, "abc", [0.5]]
    for args, text in [
        ({"a": 0}, "/a: must be greater than 0, not the number 0"),
        ({"a": 3}, "/a: must be a multiple of 2"),
        ({"b": ""}, "/b: must have a length of at least 1, not 0"),
        ({"b": "abcd"}, "/b: must have a length of at most 3, not 4"),
        ({"c": [0.5, 1]}, "/c/1: must be less than 1"),
    ]:
        assert text in toolset.error("t:f", args)["message"]


@pytest.mark.parametrize(
    "parameters, problem",
    [
        ("a: Annotated[float, Ge(float('-inf'))]", "at /properties/a/minimum: -inf is not a number"),
        ("a: Literal[tuple('x' * 1000 + str(n) for n in range(1000))]", "it is larger than 1000000 bytes"),
    ],
)
def test_a_schema_that_cannot_travel_is_a_problem(toolset, parameters, problem):
    toolset.write(
        "t.py", f"from typing import Annotated, Literal\nfrom annotated_types import Ge\ndef f({parameters}): pass\n"
    )
    found = toolset.describe("t:f")
    assert found["problem"].startswith("its schema cannot be used: ") and problem in found["problem"]
    assert found["input_schema"] == {}


def test_aliases_have_names(toolset):
    toolset.write(
        "t.py",
        "from typing_extensions import TypeAliasType\nIds = TypeAliasType('Ids', list[int])\n"
        "def f(a: Ids, b: Ids | None = None): return [a, b]\n",
    )
    schema = toolset.schema("t:f")
    assert schema["properties"]["a"] == array({"type": "integer"})
    assert schema["properties"]["b"]["anyOf"] == [{"$ref": "#/$defs/Ids"}, NULL]
    assert toolset.result("t:f", {"a": [1], "b": [2]}) == [[1], [2]]
    assert "/b/0: must be a whole number" in toolset.error("t:f", {"a": [1], "b": ["x"]})["message"]


RECURSIVE_ALIAS = ["type Tree = int | list[Tree]"] if sys.version_info >= (3, 12) else []


@pytest.mark.parametrize("alias", RECURSIVE_ALIAS or ["Tree = int | list['Tree']"])
def test_an_alias_may_speak_of_itself(toolset, alias):
    toolset.write("t.py", f"{alias}\ndef f(a: Tree): return a\n")
    jsonschema_rs.meta.validate(toolset.schema("t:f"))
    assert toolset.result("t:f", {"a": [1, [2]]}) == [1, [2]]
