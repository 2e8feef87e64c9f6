"""The built-in tools, called as a worker calls them."""

import os
import re
import time
from pathlib import Path

import pytest

from covalt_toolset import _runtime

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT.parent / "crates/model/src/builtin.rs"
HOMES = {"run_command": "shell"}


@pytest.fixture
def workspace(tmp_path):
    folder = tmp_path / "workspace"
    folder.mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    return folder


@pytest.fixture
def call(workspace):
    def call(name, **args):
        entrypoint = f"kitbag_builtin.{HOMES.get(name, 'files')}:{name}"
        return _runtime.invoke(str(ROOT), entrypoint, args, _runtime.Context(workspace), 2_000_000)

    return call


@pytest.fixture
def good(call):
    def good(name, **args):
        outcome = call(name, **args)
        assert "ok" in outcome, outcome
        return outcome["ok"]

    return good


@pytest.fixture
def bad(call):
    def bad(name, **args):
        outcome = call(name, **args)
        assert "error" in outcome, outcome
        return outcome["error"]["message"]

    return bad


def test_they_are_what_the_program_says_they_are():
    text = TABLE.read_text()
    tools = re.findall(
        r'id: "(\w+)",\s+name: "(.+?)",\s+description: "(.+?)",\s+requires_confirmation: (\w+),\s+arguments: &\[(.*?)\n        \]',
        text,
        re.S,
    )
    assert len(tools) == 6
    for name, title, description, confirm, rows in tools:
        found = _runtime.describe(str(ROOT), f"kitbag_builtin.{HOMES.get(name, 'files')}:{name}", None)
        assert (found["problem"], found["name"], found["description"]) == (None, title, description)
        assert bool(found["requires_confirmation"]) == (confirm == "true")
        arguments = re.findall(r'\("(\w+)", "(\w+)", "(.+?)", (\w+)\)', rows)
        properties = {
            word: {key: value for key, value in schema.items() if key != "default"}
            for word, schema in found["input_schema"]["properties"].items()
        }
        assert properties == {word: {"type": kind, "description": what} for word, kind, what, _ in arguments}
        assert list(properties) == [word for word, *_ in arguments]
        assert found["input_schema"]["required"] == [word for word, _, _, must in arguments if must == "true"]
        assert found["input_schema"]["additionalProperties"] is False


@pytest.mark.parametrize(
    "path",
    ["../secret.txt", "a/../../secret.txt", "/etc/passwd", "out", "folder/secret.txt", "dangling", "loop", "a\0b"],
)
@pytest.mark.parametrize("name", ["read_file", "write_file", "edit_file", "list_files", "search_files"])
def test_nothing_leads_out(workspace, bad, name, path):
    (workspace / "out").symlink_to("../secret.txt")
    (workspace / "folder").symlink_to("..")
    (workspace / "dangling").symlink_to("../new.txt")
    (workspace / "loop").symlink_to("loop")
    more = {
        "write_file": {"content": "x"},
        "edit_file": {"old": "secret", "new": "x"},
        "search_files": {"pattern": "s"},
    }
    message = bad(name, path=path, **more.get(name, {}))
    assert re.search("leads out of the workspace|in a circle|NUL", message), message
    assert (workspace.parent / "secret.txt").read_text() == "secret"
    assert not (workspace.parent / "new.txt").exists()


def test_walks_do_not_follow_links(workspace, good):
    (workspace / "folder").symlink_to("..")
    (workspace / "out").symlink_to("../secret.txt")
    assert good("search_files", pattern="secret")["matches"] == []
    assert good("list_files")["files"] == [
        {"path": "folder", "size": 2, "link": ".."},
        {"path": "out", "size": 13, "link": "../secret.txt"},
    ]


def test_a_link_inside_is_followed(workspace, good):
    (workspace / "a.txt").write_text("x")
    (workspace / "b.txt").symlink_to("a.txt")
    assert good("read_file", path="b.txt")["path"] == "a.txt"
    assert good("read_file", path=str(workspace / "a.txt"))["content"] == "x"


@pytest.mark.parametrize(
    "text, args, content, lines, total, next_offset",
    [
        ("", {}, "", 0, 0, None),
        ("a", {}, "a", 1, 1, None),
        ("a\nb\n", {}, "a\nb\n", 2, 2, None),
        ("a\nb\nc", {"offset": 2}, "b\nc", 2, 3, None),
        ("a\nb\nc\n", {"limit": 2}, "a\nb\n", 2, 3, 3),
        ("a\nb\nc\n", {"offset": 2, "limit": 1}, "b\n", 1, 3, 3),
        ("a\nb\nc\n", {"offset": 3, "limit": 9}, "c\n", 1, 3, None),
        ("a\r\nb\u2028c\n", {}, "a\r\nb\u2028c\n", 2, 2, None),
    ],
)
def test_reading(workspace, good, text, args, content, lines, total, next_offset):
    (workspace / "a.txt").write_bytes(text.encode())
    found = good("read_file", path="a.txt", **args)
    assert found["content"] == content
    assert (found["lines"], found["total_lines"], found["next_offset"]) == (lines, total, next_offset)
    assert found["truncated"] == (next_offset is not None)
    assert (found["path"], found["size"]) == ("a.txt", len(text.encode()))


def test_reading_what_cannot_be_read(workspace, bad):
    (workspace / "binary").write_bytes(b"a\0b")
    (workspace / "latin").write_bytes("é".encode("latin-1"))
    (workspace / "folder").mkdir()
    (workspace / "a").write_text("a\n")
    os.mkfifo(workspace / "pipe")
    with open(workspace / "huge", "wb") as file:
        file.truncate(17 * 1024 * 1024)
    for path, args, text in [
        ("binary", {}, "binary is a binary file (3 bytes), not text"),
        ("latin", {}, "latin is not text in UTF-8: byte 0 is 0xe9"),
        ("folder", {}, "folder is a folder, not a file"),
        ("", {}, ". is a folder"),
        ("nope", {}, "there is no file nope in the workspace"),
        ("pipe", {}, "pipe is not an ordinary file"),
        ("huge", {}, "huge is too large: it has 17,825,792 bytes, and 16,777,216 are the most"),
        ("a", {"offset": 2}, "a has only 1 lines; offset is 2"),
        ("a", {"offset": 0}, "at least 1"),
        ("a", {"limit": 0}, "at least 1"),
    ]:
        assert text in bad("read_file", path=path, **args)


def test_reading_is_bounded(workspace, good):
    (workspace / "wide").write_text("é" * 300_000)
    found = good("read_file", path="wide")
    assert found["truncated"] and len(found["content"].encode()) == 256 * 1024
    (workspace / "long").write_text("0123456789\n" * 50_000)
    found = good("read_file", path="long", limit=50_000)
    assert found["truncated"] and found["content"].endswith("9\n") and len(found["content"]) <= 256 * 1024
    rest = good("read_file", path="long", offset=found["next_offset"], limit=50_000)
    assert found["lines"] + rest["lines"] == 46_000 + 4_000 or rest["truncated"]


def test_writing(workspace, good, bad):
    assert good("write_file", path="a/b/c.txt", content="é\r\n") == {"path": "a/b/c.txt", "size": 4, "created": True}
    assert (workspace / "a/b/c.txt").read_bytes() == "é\r\n".encode()
    (workspace / "a/b/c.txt").chmod(0o755)
    assert good("write_file", path="a/b/c.txt", content="")["created"] is False
    assert os.access(workspace / "a/b/c.txt", os.X_OK)
    assert "a is a folder" in bad("write_file", path="a", content="")
    assert "is a folder" in bad("write_file", path=".", content="")
    assert "a part of its path is a file" in bad("write_file", path="a/b/c.txt/d", content="")
    assert "half of a character" in bad("write_file", path="x", content="\ud800")
    assert "too large" in bad("write_file", path="x", content="x" * (16 * 1024 * 1024 + 1))
    assert not (workspace / "x").exists()


def test_editing(workspace, good, bad):
    (workspace / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 21)))
    found = good("edit_file", path="a.txt", old="line 10\n", new="line ten\nand more\n")
    assert found["replaced"] == 1 and found["truncated"] is False
    assert found["diff"] == (
        "--- a/a.txt\n+++ b/a.txt\n@@ -7,7 +7,8 @@\n line 7\n line 8\n line 9\n-line 10\n+line ten\n+and more\n"
        " line 11\n line 12\n line 13\n"
    )
    assert "found 11 times in a.txt (lines 1, 12, 13, 14, 15, 16, 17, 18, 19, …)" in bad(
        "edit_file", path="a.txt", old="1", new="x"
    )
    assert "found 0 times" in bad("edit_file", path="a.txt", old="nothing", new="x")
    assert "old is empty" in bad("edit_file", path="a.txt", old="", new="x")
    assert "the same" in bad("edit_file", path="a.txt", old="x", new="x")
    assert "there is no file" in bad("edit_file", path="b.txt", old="x", new="y")
    found = good("edit_file", path="a.txt", old="line 1", new="LINE 1", all=True)
    assert found["replaced"] == 10
    assert (workspace / "a.txt").read_text().count("LINE 1") == 10


def test_an_edit_that_could_be_two(workspace, bad, good):
    (workspace / "a").write_text("aaa")
    assert "found 2 times" in bad("edit_file", path="a", old="aa", new="b")
    assert good("edit_file", path="a", old="aa", new="b", all=True)["replaced"] == 1
    assert (workspace / "a").read_text() == "ba"


def test_an_edit_keeps_the_line_ends(workspace, good):
    (workspace / "a").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    good("edit_file", path="a", old="one\ntwo", new="1\n2")
    assert (workspace / "a").read_bytes() == b"1\r\n2\r\nthree\r\n"


@pytest.mark.parametrize(
    "text, old, new",
    [
        ("a", "a", "b"),
        ("a\n", "a\n", ""),
        ("a\nb\n", "a\n", "a"),
        ("a\nb", "b", "b\n"),
        ("x\n" * 50 + "y\n" + "x\n" * 50 + "y\n", "y\n", "z\nz\n"),
        ("x\n" * 50 + "y\n" + "x\n" * 2 + "y\n" + "w\n" * 20 + "y", "y", ""),
        ("a\r\nb\r\n", "b", "c"),
    ],
)
def test_a_diff_can_be_applied(workspace, good, text, old, new):
    (workspace / "a").write_bytes(text.encode())
    diff = good("edit_file", path="a", old=old, new=new, all=True)["diff"]
    after = (workspace / "a").read_bytes()
    assert after == text.replace(old, new).encode()
    (workspace / "a").write_bytes(text.encode())
    (workspace / "d.diff").write_bytes(diff.encode())
    import subprocess

    subprocess.run(
        ["git", "apply", "--unidiff-zero", "d.diff"],
        cwd=workspace,
        check=True,
        env={**os.environ, "GIT_DIR": "/nonexistent"},
    )
    assert (workspace / "a").read_bytes() == after


def test_a_diff_counts_lines_of_both_sides(workspace, good):
    (workspace / "a").write_text("x\n" * 50 + "y\n" + "x\n" * 50 + "y\n")
    diff = good("edit_file", path="a", old="y\n", new="z\nz\n", all=True)["diff"]
    assert [line for line in diff.splitlines() if line[0] == "@"] == ["@@ -48,7 +48,8 @@", "@@ -99,4 +100,5 @@"]


def test_a_huge_edit_is_quick_and_bounded(workspace, good):
    (workspace / "a").write_text("same line\n" * 200_000)
    found = good("edit_file", path="a", old="same", new="other", all=True)
    assert found["replaced"] == 200_000 and found["truncated"] and len(found["diff"]) < 70_000


def test_listing(workspace, good, bad):
    for path in ["b.py", "a/x.py", "a/deep/er/y.py", "a.txt", ".hidden", "a/[odd].txt"]:
        (workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (workspace / path).write_text("xx")

    def paths(**args):
        return [file["path"] for file in good("list_files", **args)["files"]]

    assert paths() == [".hidden", "a.txt", "a/[odd].txt", "a/deep/er/y.py", "a/x.py", "b.py"]
    assert good("list_files", pattern="b.py") == {
        "path": ".",
        "files": [{"path": "b.py", "size": 2}],
        "total": 1,
        "truncated": False,
    }
    assert paths(pattern="**/*.py") == ["a/deep/er/y.py", "a/x.py", "b.py"]
    assert paths(pattern="*.py") == ["b.py"]
    assert paths(pattern="a/**") == ["a/[odd].txt", "a/deep/er/y.py", "a/x.py"]
    assert paths(pattern="a/*/*/?.py") == ["a/deep/er/y.py"]
    assert paths(pattern="[ab].*") == ["a.txt", "b.py"]
    assert paths(pattern="[!a].*") == ["b.py"]
    assert paths(pattern="**/[[]odd].txt") == ["a/[odd].txt"]
    assert paths(path="a", pattern="*.py") == ["a/x.py"]
    assert paths(path="a/deep/") == ["a/deep/er/y.py"]
    assert "there is no folder nope" in bad("list_files", path="nope")
    assert "b.py is a file" in bad("list_files", path="b.py")
    assert "not a pattern" in bad("list_files", pattern="[z-a]")


def test_listing_is_bounded(workspace, good):
    for number in range(1_005):
        (workspace / f"{number:04}").touch()
    found = good("list_files")
    assert (len(found["files"]), found["total"], found["truncated"]) == (1_000, 1_005, True)


def test_searching(workspace, good, bad):
    (workspace / "a").mkdir()
    (workspace / "a/x.py").write_bytes(b"import os\r\nprint(os)\r\n")
    (workspace / "b.txt").write_text("nothing\nos é\n")
    (workspace / "binary").write_bytes(b"os\0")
    (workspace / "latin").write_bytes(b"os \xe9\n")
    found = good("search_files", pattern=r"\bos\b")
    assert found["matches"] == [
        {"path": "a/x.py", "line": 1, "text": "import os"},
        {"path": "a/x.py", "line": 2, "text": "print(os)"},
        {"path": "b.txt", "line": 2, "text": "os é"},
        {"path": "latin", "line": 1, "text": "os \ufffd"},
    ]
    assert (found["files_searched"], found["files_skipped"], found["truncated"]) == (3, 1, False)
    assert [match["path"] for match in good("search_files", pattern="os$", path="a")["matches"]] == ["a/x.py"]
    assert [match["line"] for match in good("search_files", pattern="os", path="b.txt")["matches"]] == [2]
    assert "'(' is not a regular expression: missing ), unterminated subpattern at position 0" in bad(
        "search_files", pattern="("
    )
    assert "there is no folder nope" in bad("search_files", pattern="x", path="nope")


def test_searching_is_bounded(workspace, good):
    (workspace / "a").write_text("x\n" * 300)
    found = good("search_files", pattern="x")
    assert len(found["matches"]) == 200 and found["truncated"]
    (workspace / "a").write_text("-" * 5_000 + "needle" + "-" * 5_000)
    text = good("search_files", pattern="needle")["matches"][0]["text"]
    assert "needle" in text and len(text) == 402


def test_running(workspace, good):
    found = good("run_command", command="pwd; echo err >&2; cat; exit 3")
    assert found == {
        "command": "pwd; echo err >&2; cat; exit 3",
        "output": f"{workspace}\nerr\n",
        "exit_code": 3,
        "timed_out": False,
        "truncated": False,
    }
    assert good("run_command", command="kill -9 $$")["exit_code"] == -9
    assert good("run_command", command=r"printf '\377'")["output"] == "\ufffd"


def test_running_too_long_ends_the_whole_group(workspace, good):
    command = "echo before; (trap '' TERM; echo $$ > inner; while true; do sleep 0.1; done) & sleep 1000"
    found = good("run_command", command=command + "; echo after", timeout=0.5)
    assert (found["output"], found["timed_out"]) == ("before\n", True)
    group = int((workspace / "inner").read_text())
    for _ in range(100):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            break
        time.sleep(0.05)
    else:
        pytest.fail("something of the group is still there")


def test_running_does_not_wait_for_what_is_left_behind(good):
    found = good("run_command", command="sleep 30 & echo done", timeout=20)
    assert (found["output"], found["exit_code"], found["timed_out"]) == ("done\n", 0, False)


def test_a_command_that_closes_its_output_is_waited_for(good):
    assert good("run_command", command="exec >&- 2>&-; sleep 0.2; exit 4")["exit_code"] == 4
    assert good("run_command", command="exec >&- 2>&-; sleep 100", timeout=0.3)["timed_out"]


def test_the_output_is_bounded(good):
    found = good("run_command", command="echo first; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo last")
    assert found["truncated"] and len(found["output"]) < 140_000
    assert found["output"].startswith("first\nxxx") and found["output"].endswith("xxx\nlast\n")
    assert "bytes are left out" in found["output"]


def test_a_timeout_is_a_number_of_seconds(bad):
    assert "more than 0" in bad("run_command", command="true", timeout=0)
    assert "more than 0" in bad("run_command", command="true", timeout=-1)
