"""Which file an entrypoint is, and what is said when there is none or it cannot be imported."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SDK = Path(__file__).resolve().parent.parent


def test_relative_to_the_root_and_then_to_tools(toolset):
    toolset.write("a.py", "def f(): return 'a'\n")
    toolset.write("tools/a.py", "def f(): return 'tools/a'\n")
    toolset.write("tools/b.py", "import helper\nfrom helper import word\ndef f(): return word\n")
    toolset.write("tools/helper.py", "word = 'helped'\n")
    toolset.write("tools/pack/__init__.py", "from .part import word\ndef f(): return word\n")
    toolset.write("tools/pack/part.py", "word = 'part'\ndef f(): return 'in part'\n")
    assert toolset.result("a:f") == "a"
    assert toolset.result("tools.a:f") == "tools/a"
    assert toolset.result("b:f") == "helped"
    assert toolset.result("pack:f") == "part"
    assert toolset.result("tools.pack.part:f") == "in part"


def test_two_toolsets_with_the_same_names(toolset, tmp_path):
    from conftest import Toolset

    other = Toolset(tmp_path / "other", toolset.workspace)
    for each, word in ((toolset, "one"), (other, "two")):
        each.write("tools/util.py", f"word = {word!r}\n")
        each.write(
            "tools/t.py",
            "from tools.util import word\ndef f(): return word\ndef late():\n    import tools.util\n    return tools.util.word\n",
        )
    assert toolset.result("tools.t:f") == "one"
    assert other.result("tools.t:f") == "two"
    assert other.result("tools.t:late") == "two"
    assert toolset.result("tools.t:f") == "one"


@pytest.mark.parametrize("name", ["json", "random", "queue", "string", "wave", "email", "sys", "covalt_toolset"])
@pytest.mark.parametrize("folder", ["", "tools/"])
def test_a_name_of_pythons_own(toolset, name, folder):
    """In a process of its own: nothing may be imported before by luck."""
    toolset.write(
        f"{folder}{name}.py",
        "import tempfile, email.message, queue\nimport json as theirs\ndef f(): return ['mine', hasattr(theirs, 'dumps')]\n",
    )
    toolset.write(
        "later.py", f"import {name}\ndef f(): return str({name}.__name__) + str(getattr({name}, 'f', None))\n"
    )
    code = (
        f"import sys; sys.path.insert(0, {str(SDK)!r}); sys.dont_write_bytecode = True\n"
        "from covalt_toolset import _runtime as r\n"
        f"print(r.invoke({str(toolset.root)!r}, '{name}:f', {{}}, r.Context('/'), 1000))\n"
        f"print(r.invoke({str(toolset.root)!r}, 'later:f', {{}}, r.Context('/'), 1000))\n"
    )
    lines = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines == ["{'ok': ['mine', True]}", f"{{'ok': '{name}None'}}"]


def test_a_folder_with_a_name_of_pythons_own(toolset):
    toolset.write("json/util.py", "from . import other\nfrom .other import word\ndef f(): return word\n")
    toolset.write("json/other.py", "word = 'mine'\n")
    toolset.write("email/__init__.py", "from .other import word\ndef f(): return word\n")
    toolset.write("email/other.py", "word = 'also mine'\n")
    assert toolset.result("json.util:f") == "mine"
    assert toolset.result("email:f") == "also mine"
    assert json.dumps({}) == "{}" and sys.modules["json"] is json


def test_a_name_of_an_installed_package(toolset, tmp_path, monkeypatch):
    """The toolset's own comes first, also where it has no __init__.py and the package has one."""
    site = tmp_path / "site"
    for path in ("tools/__init__.py", "tools/util.py", "lib_x/__init__.py", "data_x/__init__.py"):
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text("word = 'theirs'\n")
    monkeypatch.syspath_prepend(str(site))
    toolset.write("tools/util.py", "word = 'mine'\n")
    toolset.write("lib_x.py", "def f(): return 'mine'\n")
    toolset.write("data_x/file.txt", "no code")
    toolset.write("t.py", "from tools.util import word\nimport data_x\ndef f(): return [word, data_x.word]\n")
    assert toolset.result("t:f") == ["mine", "theirs"]
    assert toolset.result("lib_x:f") == "mine"


def test_a_name_that_somebody_has_already(toolset, tmp_path, monkeypatch):
    site = tmp_path / "site"
    site.mkdir()
    (site / "taken_x.py").write_text("def f(): return 'theirs'\n")
    monkeypatch.syspath_prepend(str(site))
    import taken_x

    toolset.write("taken_x.py", "def f(): return 'mine'\n")
    assert toolset.result("taken_x:f") == "mine"
    assert sys.modules["taken_x"] is taken_x


@pytest.mark.parametrize(
    "entrypoint",
    [
        "",
        "a",
        "a:",
        ":f",
        "a:b:c",
        "a.b:c.d",
        "../a:f",
        "a..b:f",
        "__main__:f",
        "a:__import__",
        "a:f\n",
        "é:f",
        "os.path:join\0",
    ],
)
def test_what_is_no_entrypoint(toolset, entrypoint):
    assert "is not an entrypoint: write package.module:function" in toolset.describe(entrypoint)["problem"]


def test_what_cannot_be_found(toolset):
    toolset.write("tools/t.py", "class C: pass\nword = 1\ndef analyse(): pass\n")
    for entrypoint, problem in [
        ("os:system", "the toolset has no file os.py, and no tools/os.py"),
        ("tools.nope:f", "the toolset has no file tools/nope.py, and no tools/tools/nope.py"),
        ("tools.t:analyze", "tools/t.py has no function analyze; is it analyse?"),
        ("tools.t:zzz", "tools/t.py has no function zzz"),
        ("tools.t:C", "C in tools/t.py is a class; an entrypoint names a function"),
        ("tools.t:word", "word in tools/t.py is no function; an entrypoint names a function"),
    ]:
        found = toolset.describe(entrypoint)
        assert found["problem"] == problem
        assert found["entrypoint"] == entrypoint
        assert toolset.error(entrypoint) == {"kind": "not_loaded", "message": problem, "traceback": None}


@pytest.mark.parametrize(
    "code, problem",
    [
        (
            "import nowhere_to_be_found",
            "it cannot be imported: ModuleNotFoundError: No module named 'nowhere_to_be_found'\nTraceback (most recent call last):\n  File \"tools/t.py\", line 1, in <module>\n    import nowhere_to_be_found\nModuleNotFoundError: No module named 'nowhere_to_be_found'",
        ),
        (
            "def f(:",
            'it cannot be imported: SyntaxError: invalid syntax (tools/t.py, line 1)\nTraceback (most recent call last):\n  File "tools/t.py", line 1\n    def f(:\nSyntaxError: invalid syntax (tools/t.py, line 1)',
        ),
        (
            "from tools import broken",
            'it cannot be imported: ZeroDivisionError: division by zero\nTraceback (most recent call last):\n  File "tools/t.py", line 1, in <module>\n    from tools import broken\n  File "tools/broken.py", line 1, in <module>\n    1 / 0\nZeroDivisionError: division by zero',
        ),
        ("import sys; sys.exit(4)", "its module ended Python while it was imported (sys.exit(4))\nTraceback"),
        ("raise KeyboardInterrupt", "it cannot be imported: KeyboardInterrupt\nTraceback"),
        (
            "from covalt_toolset import get_context\nget_context()",
            "it cannot be imported: RuntimeError: get_context() called outside of tool execution",
        ),
        (
            "from covalt_toolset import tool\n@tool(name='')\ndef f(): pass",
            "it cannot be imported: ValueError: @tool: name is empty",
        ),
    ],
)
def test_a_module_that_fails(toolset, code, problem):
    toolset.write("tools/t.py", code + "\n")
    toolset.write("tools/broken.py", "1 / 0\n")
    toolset.write("tools/good.py", "def f(): return 1\n")
    found = toolset.describe("tools.t:f")
    assert found["problem"].startswith(problem), found["problem"]
    assert "importlib" not in found["problem"] and str(toolset.root) not in found["problem"]
    assert (found["input_schema"], found["output_schema"]) == ({}, None)
    assert toolset.error("tools.t:f")["kind"] == "not_loaded"
    assert toolset.result("tools.good:f") == 1


def test_loading_imports_once_and_prepares(toolset):
    from covalt_toolset import _runtime

    toolset.write("t.py", "print('imported')\nasync def f(): return 1\n")
    code = (
        f"import sys; sys.path.insert(0, {str(SDK)!r})\nfrom covalt_toolset import _runtime as r\n"
        f"assert r.load({str(toolset.root)!r}, 't:f').__name__ == 'f'\nassert 'asyncio' in sys.modules\n"
        f"r.describe({str(toolset.root)!r}, 't:f', None); print(r.invoke({str(toolset.root)!r}, 't:f', {{}}, r.Context('/'), 9))\n"
    )
    assert (
        subprocess.run([sys.executable, "-B", "-c", code], capture_output=True, text=True, check=True).stdout
        == "imported\n{'ok': 1}\n"
    )
    with pytest.raises(_runtime.NotLoaded):
        _runtime.load(str(toolset.root), "nope:f")
