"""The decorator, plain functions, docstrings, the context, and what an import of the SDK costs."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from covalt_toolset import Context, _docstring, clear_context, get_context, set_context, tool

SDK = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize(
    "decorator, name, description, confirm, category",
    [
        ("@tool", None, "From the docstring, two lines.", None, None),
        ("@tool()", None, "From the docstring, two lines.", None, None),
        ("@tool(name='N', description='D', requires_confirmation=True, category='C')", "N", "D", True, "C"),
        ("@tool(requires_confirmation=False)", None, "From the docstring, two lines.", False, None),
    ],
)
def test_the_decorator(toolset, decorator, name, description, confirm, category):
    toolset.write(
        "t.py",
        f'from covalt_toolset import tool\n{decorator}\ndef f(a: int):\n    """From the docstring,\n    two lines.\n\n    More.\n    """\n    return a + 1\n',
    )
    assert toolset.describe("t:f", {"type": "object", "properties": {"zzz": {}}}) == {
        "entrypoint": "t:f",
        "problem": None,
        "name": name,
        "description": description,
        "requires_confirmation": confirm,
        "category": category,
        "input_schema": {
            "type": "object",
            "properties": {"a": {"type": "integer"}},
            "required": ["a"],
            "additionalProperties": False,
        },
        "output_schema": None,
        "style": "decorated",
    }
    assert toolset.result("t:f", {"a": 1}) == 2


def test_a_decorated_function_is_itself():
    def f(a, b=1):
        return a + b

    assert tool(f) is f and tool(name="x")(f) is f and f(1) == 2


@pytest.mark.parametrize(
    "use, error",
    [
        (lambda: tool("name"), 'write @tool\\(name="…"\\)'),
        (lambda: tool(type("C", (), {})), "put it directly above a function"),
        (lambda: tool(name=1), "name must be a text, not int"),
        (lambda: tool(description=" "), "description is empty"),
        (lambda: tool(requires_confirmation="yes"), "must be True or False"),
    ],
)
def test_a_wrong_decorator(use, error):
    with pytest.raises((TypeError, ValueError), match=error):
        use()


def test_decorators_around_and_other_callables(toolset):
    toolset.write(
        "t.py",
        """
        import functools
        from covalt_toolset import tool
        def loud(function):
            @functools.wraps(function)
            def wrapper(*args, **kw): return str(function(*args, **kw)) + "!"
            return wrapper
        @loud
        @tool(name="Inner")
        def inside(a: "int") -> int: return a
        @tool(name="Outer")
        @loud
        def outside(a: int): return a
        def add(a: int, b: int):
            '''Add them.'''
            return a + b
        add_one = functools.partial(add, b=1)
        class Callable:
            def __call__(self, a: int): return a
        called = Callable()
        class Holder:
            def method(self, a: int):
                '''A method.'''
                return a
        method = Holder().method
        """,
    )
    for name, title, result in [
        ("inside", "Inner", "1!"),
        ("outside", "Outer", "1!"),
        ("called", None, 1),
        ("method", None, 1),
    ]:
        found = toolset.describe(f"t:{name}")
        assert (found["problem"], found["name"]) == (None, title)
        assert found["input_schema"]["properties"] == {"a": {"type": "integer"}}
        assert toolset.result(f"t:{name}", {"a": 1}) == result
    assert toolset.describe("t:add_one")["description"] == "Add them."
    assert toolset.result("t:add_one", {"a": 1}) == 2


@pytest.mark.parametrize(
    "parameters, injected",
    [
        ("workspace: Path, path: str", True),
        ("workspace, path: str", True),
        ("workspace: 'Path', path: str", True),
        ("workspace: 'pathlib_for_checkers.Path', path: str", True),
        ("workspace, /, path: str", True),
        ("*, workspace: Path, path: str", True),
        ("workspace: str, path: str", False),
        ("path: str, workspace: Path", False),
    ],
)
def test_a_plain_function_may_take_the_workspace(toolset, parameters, injected):
    toolset.write(
        "t.py", f"from pathlib import Path\ndef f({parameters}):\n    '''Do it.'''\n    return [str(workspace), path]\n"
    )
    found = toolset.describe("t:f")
    assert (found["problem"], found["style"], found["name"], found["description"]) == (None, "plain", None, "Do it.")
    assert sorted(found["input_schema"]["properties"]) == (["path"] if injected else ["path", "workspace"])
    args = {"path": "a"} if injected else {"path": "a", "workspace": "w"}
    assert toolset.result("t:f", args) == [str(toolset.workspace) if injected else "w", "a"]
    if injected:
        assert "there is no such argument" in toolset.error("t:f", {"path": "a", "workspace": "/"})["message"]


def test_a_decorated_function_is_given_no_workspace(toolset):
    toolset.write(
        "t.py",
        "from pathlib import Path\nfrom covalt_toolset import tool\n@tool\ndef f(workspace: Path): return workspace\n",
    )
    assert toolset.schema("t:f")["required"] == ["workspace"]


def test_the_manifests_schema_counts_for_plain_functions(toolset):
    toolset.write("t.py", "from pathlib import Path\ndef f(workspace: Path, path: str, n: int = 1): return [path, n]\n")
    schema = {
        "type": "object",
        "properties": {"path": {"type": "string", "description": "Said by hand."}},
        "required": ["path"],
    }
    assert toolset.describe("t:f", schema)["input_schema"] == schema
    wrong = {"type": "object", "properties": {"file": {"type": "string"}}}
    assert (
        toolset.describe("t:f", wrong)["problem"]
        == "input_schema has the property file, but the function has no such parameter; it has path, n"
    )


@pytest.mark.parametrize(
    "doc, summary, arguments",
    [
        (None, None, {}),
        ("", None, {}),
        ("One line.", "One line.", {}),
        ("One\n    paragraph.\n\n    Another.", "One paragraph.", {}),
        ("\n    Args:\n        a: First.\n    ", None, {"a": "First."}),
        ("Do.\n    Args:\n        a: First.", "Do.", {"a": "First."}),
        (
            "Do.\n\n    Args:\n        a (int): First,\n            goes on\n            here.\n        b (dict[str, tuple(int, int)], optional): Second.\n\n            Another paragraph: with a colon.\n\n        *c: Third.\n\n    Returns:\n        d: Not an argument.\n",
            "Do.",
            {"a": "First, goes on here.", "b": "Second.\nAnother paragraph: with a colon.", "c": "Third."},
        ),
        (
            "Do.\n\n    Args:\n        a:\n            On the next line.\n        b: See\n        https://a.example/x for more.\n    Raises:\n        c: No.",
            "Do.",
            {"a": "On the next line.", "b": "See https://a.example/x for more."},
        ),
        (
            "Do.\n\n    Arguments:\n        a: First.\n    Text that ends it.\n        b: Not an argument.",
            "Do.",
            {"a": "First."},
        ),
        (
            "Do.\n\n    Args:\n        a: One of:\n            x: the letter.\n            Example:\n                y",
            "Do.",
            {"a": "One of: x: the letter. Example: y"},
        ),
        ("Do.\n\n\tArgs:\n\t\ta: With tabs,\n\t\t\tand more.", "Do.", {"a": "With tabs, and more."}),
        ("Do.\n\n    Args:\n        größe (float): Wie groß.", "Do.", {"größe": "Wie groß."}),
    ],
)
def test_docstrings(doc, summary, arguments):
    assert _docstring.read(doc) == (summary, arguments)


def test_descriptions_of_arguments(toolset):
    toolset.write(
        "t.py",
        "from typing import Annotated\ndef f(a: Annotated[int, 'Hint.'], b: Annotated[int, 'Hint.']):\n    '''\n    Args:\n        a: Docstring.\n    '''\n",
    )
    assert {name: schema["description"] for name, schema in toolset.schema("t:f")["properties"].items()} == {
        "a": "Docstring.",
        "b": "Hint.",
    }


def test_the_context(toolset):
    toolset.write(
        "t.py",
        """
        from covalt_toolset import get_context
        def f():
            context = get_context()
            context.progress(0.5, "half")
            context.progress(2)
            context.progress(message="words")
            context.log("said \\ud800")
            context.log(ValueError("odd"), level="error")
            return [str(context.workspace), context.chat_id, context.toolset_id, context.extra, repr(context)]
        def bad_level(): get_context().log("x", level="loud")
        def bad_fraction(): get_context().progress(float("nan"))
        """,
    )
    work = str(toolset.workspace)
    assert toolset.result("t:f") == [
        work,
        "chat",
        "toolset",
        {"key": "value"},
        f"Context(workspace={work!r}, chat_id='chat', toolset_id='toolset')",
    ]
    assert toolset.heard == [
        {"type": "progress", "fraction": 0.5, "message": "half"},
        {"type": "progress", "fraction": 1.0, "message": None},
        {"type": "progress", "fraction": None, "message": "words"},
        {"type": "log", "level": "info", "message": "said \\ud800"},
        {"type": "log", "level": "error", "message": "odd"},
    ]
    assert "no level 'loud'; the levels are debug, info, warning, error" in toolset.error("t:bad_level")["message"]
    assert "NaN" in toolset.error("t:bad_fraction")["message"]


def outside():
    with pytest.raises(RuntimeError, match=r"^get_context\(\) called outside of tool execution$"):
        get_context()


def test_no_context_outside_of_a_call(toolset):
    outside()
    toolset.write(
        "t.py",
        "from covalt_toolset import get_context\ndef good(): return get_context().chat_id\ndef bad(): 1/0\ndef exits(): raise SystemExit\nasync def waits(): return get_context().chat_id\n",
    )
    for name in ("good", "bad", "exits", "waits"):
        toolset.call(f"t:{name}")
        outside()


def test_the_context_by_hand(tmp_path, caplog):
    set_context(workspace=str(tmp_path), chat_id="c", toolset_id="t", user="u")
    context = get_context()
    assert (context.workspace, context.chat_id, context.toolset_id, context.extra) == (
        tmp_path,
        "c",
        "t",
        {"user": "u"},
    )
    context.progress(0.1)
    with caplog.at_level(logging.INFO):
        context.log("said")
    assert caplog.messages == ["said"]
    clear_context()
    outside()


def test_a_call_leaves_the_context_that_was_there(toolset, tmp_path):
    set_context(workspace=tmp_path, chat_id="mine")
    toolset.write("t.py", "from covalt_toolset import get_context\ndef f(): return get_context().chat_id\n")
    assert toolset.result("t:f") == "chat"
    assert get_context().chat_id == "mine"
    clear_context()


def test_a_process(tmp_path):
    heard = []
    context = Context(tmp_path, emit=heard.append, listen=True)
    (tmp_path / "sub").mkdir()
    process = context.start_process(
        ["/bin/sh", "-c", 'pwd > out; echo "$WORD" >> out; trap "" TERM; sleep 1000 & wait; sleep 1000'],
        name="server",
        cwd="sub",
        env={"WORD": "w"},
    )
    assert process.poll() is None and heard == [
        {"type": "log", "level": "info", "message": f"started server as process {process.pid}"}
    ]
    assert os.getpgid(process.pid) == process.pid
    while not (tmp_path / "sub/out").exists() or (tmp_path / "sub/out").read_text().count("\n") < 2:
        assert process.poll() is None
    assert (tmp_path / "sub/out").read_text() == f"{tmp_path}/sub\nw\n"
    assert process.terminate(grace=0.2) == process.poll() == -9
    with pytest.raises(TypeError, match="the command is a list"):
        context.start_process("sleep 1")
    with pytest.raises(FileNotFoundError):
        context.start_process(["no-such-program-anywhere"])


def test_a_process_without_permission(toolset):
    toolset.write(
        "t.py", "from covalt_toolset import get_context\ndef f(): return get_context().start_process(['true']).pid\n"
    )
    assert (
        "may not leave processes running. Add `permissions: {listen: true}` to its toolset.yaml"
        in toolset.error("t:f")["message"]
    )
    assert isinstance(toolset.call("t:f", listen=True)["ok"], int)


def test_an_import_brings_little():
    code = f"import sys; before = set(sys.modules); sys.path.insert(0, {str(SDK)!r}); import covalt_toolset; print(*set(sys.modules) - before)"
    brought = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    heavy = {
        "asyncio",
        "dataclasses",
        "inspect",
        "pydantic",
        "base64",
        "mimetypes",
        "subprocess",
        "logging",
        "json",
        "datetime",
        "decimal",
        "uuid",
        "tempfile",
    }
    assert not heavy & set(brought)


def test_the_runtime_brings_no_pydantic(toolset):
    toolset.write("t.py", "def f(a: int = 1): return a\n")
    code = f"import sys; sys.path.insert(0, {str(SDK)!r})\nfrom covalt_toolset import _runtime as r\nr.describe({str(toolset.root)!r}, 't:f', None); assert 'ok' in r.invoke({str(toolset.root)!r}, 't:f', {{}}, r.Context('/'), 9)\nprint({{'pydantic', 'asyncio', 'decimal', 'uuid', 'annotated_types'}} & set(sys.modules))"
    assert (
        subprocess.run([sys.executable, "-B", "-c", code], capture_output=True, text=True, check=True).stdout
        == "set()\n"
    )
