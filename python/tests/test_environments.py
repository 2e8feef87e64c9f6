"""The SDK where it is used: with and without Pydantic, in a new toolset, installed by pip's rules."""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from conftest import HEADER
from test_schema import ROWS

SDK = Path(__file__).resolve().parent.parent
SCAFFOLD = SDK.parent / "crates/kitbag/src/scaffold"

DRIVER = """
import json, sys
sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
if sys.argv[3] == "with":
    import pydantic
else:
    try:
        import pydantic
        raise SystemExit("this environment has pydantic")
    except ImportError:
        pass
from covalt_toolset import _runtime as r
said = []
for entrypoint, values in json.load(sys.stdin):
    said.append(r.describe(sys.argv[2], entrypoint, None))
    for value in values:
        said.append(r.invoke(sys.argv[2], entrypoint, {"x": value}, r.Context("/"), 10_000))
print(json.dumps(said, indent=1))
"""


@pytest.fixture(scope="session")
def bare(tmp_path_factory):
    """An interpreter with nothing installed."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False, symlinks=True)
    return folder / "bin/python"


def drive(python, root, calls, which):
    command = [str(python), "-c", DRIVER, str(SDK), str(root), which]
    done = subprocess.run(
        command, input=json.dumps(calls), capture_output=True, text=True, env={"PATH": os.environ["PATH"]}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_one_toolset_with_and_without_pydantic(toolset, bare):
    code = "@dataclass\nclass Later:\n    a: int\n"
    code += "".join(f"@tool\ndef f{n}(x: {row[0]}):\n    return repr(x)\n" for n, row in enumerate(ROWS))
    (toolset.root / "t.py").write_text(HEADER + code)
    if sys.version_info < (3, 11):
        # NotRequired is not in its typing.
        import typing_extensions

        (toolset.root / "typing_extensions.py").write_text(Path(typing_extensions.__file__).read_text())
    calls = [(f"t:f{n}", [value for value, _ in row[2]] + row[3]) for n, row in enumerate(ROWS)]
    with_it = drive(sys.executable, toolset.root, calls, "with")
    without = drive(bare, toolset.root, calls, "without")
    assert with_it == without
    assert json.loads(without)[0]["problem"] is None and len(json.loads(without)) > 250


def test_a_toolset_that_needs_pydantic_says_so(toolset, bare):
    toolset.write("t.py", "import pydantic\ndef f(x): return x\n")
    toolset.write("u.py", "def f(x): return x\n")
    said = json.loads(drive(bare, toolset.root, [("t:f", [1]), ("u:f", [1])], "without"))
    assert said[0]["problem"].startswith("it cannot be imported: ModuleNotFoundError: No module named 'pydantic'")
    assert said[1]["error"]["kind"] == "not_loaded"
    assert said[3] == {"ok": 1}


def test_the_built_in_tools_need_nothing(bare, tmp_path):
    """Loaded as the program loads them: from the folder that has both packages."""
    said = json.loads(
        drive(bare, SDK, [(f"kitbag_builtin.files:{name}", []) for name in ("read_file", "edit_file")], "without")
    )
    assert [each["problem"] for each in said] == [None, None]


def test_the_tests_of_a_new_toolset_pass(tmp_path):
    for file in SCAFFOLD.rglob("*"):
        if file.is_file() and file.suffix in (".py", ".yaml"):
            target = tmp_path / file.relative_to(SCAFFOLD)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(file.read_text().replace("{{id}}", "my-tools").replace("{{name}}", "My Tools"))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(SDK), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
    )
    assert "2 passed" in done.stdout, done.stdout + done.stderr


def test_the_example_with_plain_functions_works(toolset):
    """The example that ships: plain functions with a schema in the manifest."""
    example = SDK.parent / "examples/app-builder/tools"
    for name in ("files.py", "shell.py"):
        toolset.write(f"tools/{name}", (example / name).read_text())
    assert toolset.result("tools.files:write_file", {"path": "a/b.txt", "content": "hi"}) == {
        "written": "a/b.txt",
        "size": 2,
    }
    assert toolset.result("tools.files:read_file", {"path": "a/b.txt"}) == {
        "path": "a/b.txt",
        "content": "hi",
        "size": 2,
    }
    assert toolset.result("tools.shell:run_command", {"command": "cat a/b.txt"}) == {
        "command": "cat a/b.txt",
        "output": "hi",
        "exit_code": 0,
    }
