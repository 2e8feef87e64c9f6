"""What is Pydantic's: models as arguments and results, and limits in Annotated. These need the real one."""

import jsonschema_rs
import pytest

HEADER = """
from __future__ import annotations
import datetime, enum, typing
from dataclasses import dataclass
from typing import *
import pydantic
from pydantic import BaseModel, ConfigDict, Field
from covalt_toolset import tool

class Inner(BaseModel):
    n: int = Field(1, description="A number.", ge=0)

class Config(BaseModel):
    '''How to do it.'''
    input: str = Field(description="Input file path")
    inner: Inner = Inner()
    when: Optional[datetime.date] = None

class Aliased(BaseModel):
    size: int = Field(alias="theSize")

class Node(BaseModel):
    value: int
    children: list[Node] = []

class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9

class Dog(BaseModel):
    kind: Literal["dog"]

class One(BaseModel):
    x: int

class Two(BaseModel):
    x: int
    y: int

class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    day: datetime.date

class Ratio(pydantic.RootModel[float]):
    pass

@dataclass
class Holder:
    node: Inner

@pydantic.dataclasses.dataclass
class Checked:
    n: int = Field(gt=0)
"""


@pytest.mark.parametrize(
    "hint, good, bad",
    [
        (
            "Config",
            [
                ({"input": "a"}, "Config(input='a', inner=Inner(n=1), when=None)"),
                (
                    {"input": "a", "when": "2024-05-01"},
                    "Config(input='a', inner=Inner(n=1), when=datetime.date(2024, 5, 1))",
                ),
            ],
            [
                ({}, "/x/input: Field required"),
                ({"input": "a", "inner": {"n": -1}}, "/x/inner/n: Input should be greater than or equal to 0"),
                (1, "/x: "),
            ],
        ),
        (
            "list[Config]",
            [([{"input": "a"}], "[Config(input='a', inner=Inner(n=1), when=None)]")],
            [([{}], "/x/0/input: Field required")],
        ),
        ("dict[str, Inner]", [({"a": {}}, "{'a': Inner(n=1)}")], [({"a": {"n": "x"}}, "/x/a/n: ")]),
        ("Inner | None", [({}, "Inner(n=1)"), (None, "None")], [({"n": "x"}, "/x/n: ")]),
        ("Aliased", [({"theSize": 1}, "Aliased(size=1)")], [({"size": 1}, "/x/theSize: Field required")]),
        (
            "Node",
            [({"value": 1, "children": [{"value": 2}]}, "Node(value=1, children=[Node(value=2, children=[])])")],
            [({"value": 1, "children": [{}]}, "/x/children/0/value: Field required")],
        ),
        ("list[Node]", [([{"value": 1}], "[Node(value=1, children=[])]")], [([{}], "/x/0/value")]),
        ("Cat | Dog", [({"kind": "dog"}, "Dog(kind='dog')")], [({"kind": "cow"}, "/x")]),
        ("One | Two | str", [({"x": 1, "y": 2}, "Two(x=1, y=2)"), ({"x": 1}, "One(x=1)"), ("a", "'a'")], [({}, "/x")]),
        (
            "Annotated[Cat | Dog, Field(discriminator='kind')]",
            [({"kind": "dog"}, "Dog(kind='dog')")],
            [({"kind": "cow"}, "/x: ")],
        ),
        (
            "list[Annotated[Cat | Dog, Field(discriminator='kind')]]",
            [([{"kind": "cat"}], "[Cat(kind='cat', lives=9)]")],
            [([1], "/x/0")],
        ),
        ("Strict", [({"day": "2024-05-01"}, "Strict(day=datetime.date(2024, 5, 1))")], [({"day": 1}, "/x/day")]),
        ("Ratio", [(0.5, "Ratio(root=0.5)")], [("x", "/x")]),
        ("Holder", [({"node": {}}, "Holder(node=Inner(n=1))")], [({"node": {"n": "x"}}, "/x/node/n")]),
        ("Checked", [({"n": 1}, "Checked(n=1)")], [({"n": 0}, "/x/n: Input should be greater than 0")]),
        (
            "Annotated[int, Field(gt=0, description='How many.')]",
            [(1, "1")],
            [(0, "/x: Input should be greater than 0")],
        ),
        ("Annotated[str, Field(pattern='^a')]", [("ab", "'ab'")], [("b", "/x: String should match")]),
        ("list[Annotated[int, Field(le=5)]]", [([5], "[5]")], [([6], "/x/0: ")]),
        ("pydantic.HttpUrl", [("https://a.example/", "HttpUrl('https://a.example/')")], [("a", "/x: ")]),
        ("pydantic.conint(gt=1)", [(2, "2")], [(1, "/x: ")]),
    ],
)
def test_arguments(toolset, hint, good, bad):
    toolset.write("t.py", HEADER + f"\n@tool\ndef f(x: {hint}): return repr(x)\n")
    schema = toolset.schema("t:f")
    jsonschema_rs.meta.validate(schema)
    validator = jsonschema_rs.Draft202012Validator(schema)
    assert "$defs" not in str(schema["properties"]).replace("#/$defs/", "")
    for value, arrives in good:
        validator.validate({"x": value})
        assert toolset.result("t:f", {"x": value}) == arrives
    for value, text in bad:
        error = toolset.error("t:f", {"x": value})
        assert error["kind"] == "bad_arguments"
        assert f"the arguments do not fit: {text}" in error["message"], error["message"]


def test_definitions_are_at_the_top(toolset):
    toolset.write(
        "t.py",
        HEADER
        + "\n@tool\ndef f(a: Config, b: list[Config], c: Node, d: Inner, e: Aliased):\n    '''\n    Args:\n        a: The first.\n    '''\n",
    )
    schema = toolset.schema("t:f")
    assert list(schema["$defs"]) == ["Inner", "Config", "Node"]
    properties = schema["properties"]
    assert (
        properties["a"]["description"] == "The first."
        and properties["a"]["properties"]["inner"]["$ref"] == "#/$defs/Inner"
    )
    assert properties["b"]["items"] == {"$ref": "#/$defs/Config"}
    assert properties["c"] == {"$ref": "#/$defs/Node"}
    assert properties["d"]["properties"]["n"]["minimum"] == 0
    assert list(properties["e"]["properties"]) == ["theSize"]
    assert schema["$defs"]["Node"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}


def test_models_of_one_name_stay_apart(toolset):
    for name, field in (("a", "x: int"), ("b", "y: str")):
        toolset.write(
            f"{name}.py",
            f"from pydantic import BaseModel\nclass In(BaseModel):\n    {field}\nclass P(BaseModel):\n    inner: In\n",
        )
    toolset.write("t.py", "import a, b\ndef f(one: list[a.P], two: list[b.P]): pass\n")
    schema = toolset.schema("t:f")
    jsonschema_rs.Draft202012Validator(schema).validate({"one": [{"inner": {"x": 1}}], "two": [{"inner": {"y": "s"}}]})
    assert not jsonschema_rs.Draft202012Validator(schema).is_valid({"one": [{"inner": {"y": "s"}}], "two": []})
    assert not jsonschema_rs.Draft202012Validator(schema).is_valid({"one": [], "two": [{"inner": {"x": 1}}]})


@pytest.mark.parametrize(
    "parameter, schema, arrives",
    [
        (
            "x: int = Field(5, gt=0, description='d')",
            {"type": "integer", "exclusiveMinimum": 0, "description": "d", "default": 5},
            5,
        ),
        ("x: Annotated[int, Field(gt=0, default=5)]", {"type": "integer", "exclusiveMinimum": 0, "default": 5}, 5),
        ("x: Annotated[int, Field(gt=0)] = 5", {"type": "integer", "exclusiveMinimum": 0, "default": 5}, 5),
        (
            "x: list[int] = Field(default_factory=list)",
            {"type": "array", "items": {"type": "integer"}, "default": []},
            [],
        ),
        ("x: Inner = Inner(n=2)", None, {"n": 2}),
    ],
)
def test_defaults(toolset, parameter, schema, arrives):
    toolset.write("t.py", HEADER + f"\n@tool\ndef f({parameter}): return x\n")
    found = toolset.schema("t:f")
    assert found["required"] == []
    if schema is not None:
        assert found["properties"]["x"] == schema
    else:
        assert found["properties"]["x"]["default"] == {"n": 2}
    assert toolset.result("t:f") == arrives


def test_a_field_without_a_default_is_required(toolset):
    toolset.write("t.py", HEADER + "\n@tool\ndef f(x: int = Field(gt=0)): return x\n")
    assert toolset.schema("t:f")["required"] == ["x"]
    assert "/x: is missing" in toolset.error("t:f")["message"]


def test_results(toolset):
    toolset.write(
        "t.py",
        HEADER
        + """
class Out(BaseModel):
    when: datetime.date = datetime.date(2024, 5, 1)
    tags: set[str] = {"a"}
    size: int = Field(3, serialization_alias="theSize")

class Broken(BaseModel):
    n: float = float("nan")
    b: bytes = b"\\xff"

def model() -> Out: return Out()
def models() -> list[Out]: return [Out()]
def nested(): return {"a": (Out(),)}
def nan(): return {"a": Broken(b=b"")}
def raw(): return Broken(n=1)
class Old:
    __fields__ = {}
    def dict(self, by_alias=False): return {"old": True}
def old(): return Old()
""",
    )
    out = {"when": "2024-05-01", "tags": ["a"], "theSize": 3}
    assert toolset.result("t:model") == out
    assert toolset.result("t:models") == [out]
    assert toolset.result("t:nested") == {"a": [out]}
    assert toolset.result("t:old") == {"old": True}
    assert "at /a/n: nan is not a number" in toolset.error("t:nan")["message"]
    assert "Broken could not be written" in toolset.error("t:raw")["message"]
    schema = toolset.describe("t:model")["output_schema"]
    assert list(schema["properties"]) == ["when", "tags", "theSize"]
    schema = toolset.describe("t:models")["output_schema"]
    assert schema["items"] == {"$ref": "#/$defs/Out"} and list(schema["$defs"]) == ["Out"]


def test_models_of_version_1(toolset):
    toolset.write(
        "t.py",
        "from pydantic.v1 import BaseModel\nclass In(BaseModel):\n    n: int\nclass M(BaseModel):\n    a: In\ndef f(x: M): return [x, type(x).__name__]\n",
    )
    schema = toolset.schema("t:f")
    assert schema["properties"]["x"]["properties"]["a"] == {"$ref": "#/$defs/In"} and list(schema["$defs"]) == ["In"]
    assert toolset.result("t:f", {"x": {"a": {"n": 1}}}) == [{"a": {"n": 1}}, "M"]
    assert "/x/a/n: " in toolset.error("t:f", {"x": {"a": {}}})["message"]


def test_a_validator_that_fails_in_its_own_way(toolset):
    toolset.write(
        "t.py",
        "from pydantic import BaseModel, field_validator\nclass M(BaseModel):\n    a: int\n    @field_validator('a')\n    def check(cls, value): raise KeyError('odd')\ndef f(x: M): pass\n",
    )
    error = toolset.error("t:f", {"x": {"a": 1}})
    assert (error["kind"], error["message"]) == (
        "bad_arguments",
        "the arguments do not fit: /x: was refused: KeyError: 'odd'",
    )


def test_a_model_that_has_no_schema_is_a_problem(toolset):
    toolset.write(
        "t.py",
        "from typing import Callable\nfrom pydantic import BaseModel\nclass M(BaseModel):\n    a: Callable[[], int]\ndef f(x: M): pass\n",
    )
    assert toolset.describe("t:f")["problem"].startswith("the parameter x: Pydantic has no JSON Schema for it")
