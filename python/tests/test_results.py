"""What a call gives: results as JSON, results that are none, and every way for a tool to fail."""

import base64
import json
import sys

import pytest
from conftest import HEADER

PNG = b"\x89PNG\r\n\x1a\nrest"


@pytest.mark.parametrize(
    "code, json_value",
    [
        ("None", None),
        ("True", True),
        ("2**64 - 1", 2**64 - 1),
        ("-(2**63)", -(2**63)),
        ("-1.5", -1.5),
        ("'é\\U0001f600\\x00'", "é😀\0"),
        ("[1, (2, [3])]", [1, [2, [3]]]),
        ("{'a': {'b': None}}", {"a": {"b": None}}),
        ("{1: 'a', 2.5: 'b', None: 'c', False: 'd'}", {"1": "a", "2.5": "b", "null": "c", "false": "d"}),
        (
            "{Color.RED: 1, uuid.UUID(int=1): 2, pathlib.Path('a'): 3}",
            {"red": 1, "00000000-0000-0000-0000-000000000001": 2, "a": 3},
        ),
        ("Point(1, 2)", {"x": 1, "y": 2}),
        ("[Point(1)]", [{"x": 1, "y": 0}]),
        ("Pair(1)", [1, "r"]),
        ("Movie(title='a')", {"title": "a"}),
        ("[Color.RED, Level.HIGH, Shape.WIDE]", ["red", 2, "WIDE"]),
        ("datetime.datetime(2024, 5, 1, 12, 30, tzinfo=datetime.timezone.utc)", "2024-05-01T12:30:00+00:00"),
        ("[datetime.date(2024, 5, 1), datetime.time(1, 2, 3)]", ["2024-05-01", "01:02:03"]),
        (
            "[datetime.timedelta(days=1, seconds=2), datetime.timedelta(seconds=-1.5), datetime.timedelta()]",
            ["P1DT2S", "-PT1.5S", "PT0S"],
        ),
        ("pathlib.Path('a') / 'b'", "a/b"),
        ("uuid.UUID(int=1)", "00000000-0000-0000-0000-000000000001"),
        ("decimal.Decimal('1.10')", "1.10"),
        ("collections.OrderedDict(a=1)", {"a": 1}),
        ("collections.Counter('aab')", {"a": 2, "b": 1}),
        ("collections.deque([1])", [1]),
        ("type('S', (str,), {'__str__': lambda self: 'no'})('yes')", "yes"),
        ("type('I', (int,), {'__repr__': lambda self: 'no'})(5)", 5),
    ],
)
def test_a_result(toolset, code, json_value):
    toolset.write("t.py", HEADER + f"def f():\n    return {code}\n")
    found = toolset.result("t:f")
    assert found == json_value
    # The very types that json has, so that nothing of a class's own can be said in its place.
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert type(found) in (dict, list, str, int, float, bool, type(None))


@pytest.mark.parametrize(
    "code, text",
    [
        ("float('nan')", "the result is not JSON: nan is not a number in JSON"),
        ("{'a': [1, float('inf')]}", "at /a/1: inf is not a number"),
        ("{'a': decimal.Decimal('NaN')}", "at /a: NaN is not a number"),
        ("{'a/b': b'x'}", "at /a~1b: bytes; return a text, an Image"),
        ("[{1}]", "at /0: a set, which has no order; return sorted(…)"),
        ("frozenset()", "a set, which has no order"),
        ("{1: 'a', '1': 'b'}", "at /1: two keys become the same text '1'"),
        ("{(1, 2): 'a'}", "a key of the type tuple; the keys of an object are texts"),
        ("{float('nan'): 1}", "a key of the type float"),
        ("{'x': object()}", "at /x: object has no form in JSON"),
        ("[print]", "at /0: builtin_function_or_method has no form in JSON"),
        ("Point", "type has no form in JSON"),
        ("(n for n in [1])", "generator, which gives its items one by one; return list(…) of it"),
        ("{'a': map(str, [])}", "at /a: map, which gives its items one by one"),
        ("['\\ud800']", "at /0: a text with half of a character"),
        ("{'\\ud800': 1}", "half of a character"),
        ("10**5000", "a whole number with too many digits"),
        ("10**400", "a whole number of more than 64 bits"),
        ("[2**64]", "at /0: a whole number of more than 64 bits"),
        ("{'a': Text('x')}", "at /a: Text inside of something else"),
        ("cycle()", "at /a/0: it contains itself"),
        ("deep(201)", "it is nested deeper than 200"),
        ("Point(1, {2})", "at /y: a set"),
        ("Color", "has no form in JSON"),
    ],
)
def test_a_result_that_is_none(toolset, code, text):
    toolset.write(
        "t.py",
        HEADER
        + "def cycle():\n    a = {}\n    a['a'] = [a]\n    return a\n"
        + "def deep(n):\n    a = []\n    for _ in range(n): a = [a]\n    return a\n"
        + f"def f():\n    return {code}\n",
    )
    error = toolset.error("t:f")
    assert error["kind"] == "bad_result"
    assert text in error["message"], error["message"]
    assert error["traceback"] is None
    json.dumps(error).encode()


def test_a_thing_that_is_there_twice_is_no_cycle(toolset):
    toolset.write("t.py", "def f():\n    a = [1]\n    return {'x': a, 'y': [a, a]}\n")
    assert toolset.result("t:f") == {"x": [1], "y": [[1], [1]]}


def test_a_result_of_the_greatest_depth(toolset):
    toolset.write("t.py", "def f():\n    a = []\n    for _ in range(199): a = [a]\n    return a\n")
    assert json.dumps(toolset.result("t:f")) == "[" * 200 + "]" * 200


@pytest.mark.parametrize(
    "code", ["'é\"\\n' * 10", "[None, True, False, 1.5, -3, 'x']", "{'a': {}, 'b': [], 'ü': [1, 2]}", "[]", "{}"]
)
def test_the_limit_is_exact(toolset, code):
    toolset.write("t.py", f"def f():\n    return {code}\n")
    size = len(json.dumps(eval(code), ensure_ascii=False, separators=(",", ":")).encode())
    assert "ok" in toolset.call("t:f", most_bytes=size)
    error = toolset.error("t:f", most_bytes=size - 1)
    assert error["kind"] == "bad_result"
    assert f"larger than {size - 1} bytes" in error["message"]


def test_an_endless_result_stops_at_the_limit(toolset):
    toolset.write("t.py", "def f():\n    a = ['x' * 1000]\n    for _ in range(40): a = [a, a]\n    return {'big': a}\n")
    assert "limit was reached at /big/0/0" in toolset.error("t:f", most_bytes=10_000)["message"]


RICH_HEADER = HEADER + f"PNG = {PNG!r}\n"


@pytest.mark.parametrize(
    "code, content",
    [
        ("Text('hi')", [{"type": "text", "text": "hi"}]),
        (
            "['a', Text('b'), Image(PNG)]",
            [
                {"type": "text", "text": "a"},
                {"type": "text", "text": "b"},
                {"type": "image", "mimeType": "image/png", "data": base64.b64encode(PNG).decode()},
            ],
        ),
        ("Image('chart.png')", [{"type": "image", "mimeType": "image/png", "data": base64.b64encode(PNG).decode()}]),
        (
            "Image(get_context().workspace / 'pic.svg')",
            [{"type": "image", "mimeType": "image/svg+xml", "data": "PHN2Zy8+"}],
        ),
        ("Image(base64='aGk=', mime_type='image/webp')", [{"type": "image", "mimeType": "image/webp", "data": "aGk="}]),
        ("File('a/report.pdf')", [{"type": "file", "path": "a/report.pdf", "mimeType": "application/pdf"}]),
        (
            "File(get_context().workspace / 'notes.md')",
            [{"type": "file", "path": "notes.md", "mimeType": "text/markdown"}],
        ),
        ("File('a/../notes.md', mime_type='text/x-y')", [{"type": "file", "path": "notes.md", "mimeType": "text/x-y"}]),
        ("File('odd.zzz')", [{"type": "file", "path": "odd.zzz", "mimeType": "application/octet-stream"}]),
        ("File('inner')", [{"type": "file", "path": "inner", "mimeType": "application/octet-stream"}]),
    ],
)
def test_rich_content(toolset, code, content):
    (toolset.workspace / "chart.png").write_bytes(PNG)
    (toolset.workspace / "pic.svg").write_bytes(b"<svg/>")
    (toolset.workspace / "a").mkdir()
    for name in ["a/report.pdf", "notes.md", "odd.zzz"]:
        (toolset.workspace / name).touch()
    (toolset.workspace / "inner").symlink_to("notes.md")
    toolset.write("t.py", RICH_HEADER + f"def f():\n    return {code}\n")
    assert toolset.result("t:f") == {"content": content}


@pytest.mark.parametrize(
    "code, kind, text",
    [
        ("File('../secret')", "bad_result", "../secret is outside the workspace"),
        ("['x', File('/etc/passwd')]", "bad_result", "at /1: /etc/passwd is outside the workspace"),
        ("File('out')", "bad_result", "out is outside the workspace"),
        ("File('nope.txt')", "bad_result", "nope.txt is not a file of the workspace"),
        ("File('.')", "bad_result", ". is not a file"),
        ("[Text('a'), {'b': 1}]", "bad_result", "at /1: dict cannot stand beside rich content"),
        ("Image(b'x')", "exception", "what kind of image is it?"),
        ("Image(b'x', mime_type='text/html')", "exception", "text/html is not an image"),
        ("Image(base64='*', mime_type='image/png')", "exception", "this is not base64"),
        ("Image()", "exception", "give either"),
        ("Image('nope.png')", "exception", "FileNotFoundError"),
        ("Text(1)", "exception", "must be str"),
    ],
)
def test_rich_content_that_is_none(toolset, code, kind, text):
    (toolset.workspace.parent / "secret").touch()
    (toolset.workspace / "out").symlink_to("../secret")
    toolset.write("t.py", RICH_HEADER + f"def f():\n    return {code}\n")
    error = toolset.error("t:f")
    assert error["kind"] == kind and text in error["message"], error


def test_rich_content_counts(toolset):
    toolset.write("t.py", RICH_HEADER + "def f():\n    return Image(PNG * 1000)\n")
    assert "larger than 1000 bytes" in toolset.error("t:f", most_bytes=1000)["message"]


# A task group fails with one of these; what happened is inside of it.
GROUPS = [
    ("raise ExceptionGroup('many', [ValueError('a'), KeyError('b')])", "exception", "ExceptionGroup: many (2 sub-exceptions): ValueError: a; KeyError: 'b'"),
] if sys.version_info >= (3, 11) else []  # fmt: skip


@pytest.mark.parametrize(
    "code, kind, message",
    [
        ("1 / 0", "exception", "ZeroDivisionError: division by zero"),
        ("raise ValueError", "exception", "ValueError"),
        ("raise KeyError('x')", "exception", "KeyError: 'x'"),
        ("sys.exit()", "exit", "the tool ended itself with exit code 0 (sys.exit) instead of returning"),
        ("sys.exit(3)", "exit", "the tool ended itself with exit code 3 (sys.exit) instead of returning"),
        ("sys.exit('bye')", "exit", "the tool ended itself with the message 'bye' (sys.exit) instead of returning"),
        ("raise KeyboardInterrupt", "interrupt", "the tool was interrupted (KeyboardInterrupt)"),
        ("raise GeneratorExit", "exception", "GeneratorExit"),
        ("raise MemoryError", "exception", "MemoryError"),
        ("raise StopIteration(1)", "exception", "StopIteration: 1"),
        ("raise asyncio.CancelledError()", "exception", "CancelledError"),
        ("raise Mute()", "exception", "Mute: its text cannot be shown, since __str__ raised RuntimeError"),
        ("raise Odd()", "exception", "Odd: its text cannot be shown, since __str__ raised SystemExit"),
        ("raise ValueError('\\ud800')", "exception", "ValueError: \\ud800"),
        ("raise BaseException('base')", "exception", "BaseException: base"),
        *GROUPS,
    ],
)
@pytest.mark.parametrize("way", ["def", "async def"])
def test_a_failure(toolset, code, kind, message, way):
    if "StopIteration" in code and way == "async def":
        message = "RuntimeError: coroutine raised StopIteration"
    toolset.write(
        "tools/t.py",
        "import asyncio, sys\n"
        "class Mute(Exception):\n    def __str__(self): raise RuntimeError('x')\n"
        "class Odd(Exception):\n    def __str__(self): sys.exit(1)\n"
        f"{way} f():\n    {code}\n",
    )
    error = toolset.error("tools.t:f")
    assert (error["kind"], error["message"]) == (kind, message)
    assert 'File "tools/t.py", line 7, in f' in error["traceback"]
    assert "covalt_toolset" not in error["traceback"] and str(toolset.root) not in error["traceback"]
    json.dumps(error).encode()


def test_endless_recursion(toolset):
    toolset.write("t.py", "def f(): return f()\n")
    error = toolset.error("t:f")
    assert error["message"].startswith("RecursionError: maximum recursion depth exceeded")
    assert "more …" in error["traceback"] and error["traceback"].count("File") == 30


def test_a_traceback_has_only_the_toolsets_frames_and_its_causes(toolset):
    toolset.write("tools/util.py", "import json\ndef parse(text):\n    return json.loads(text)\n")
    toolset.write(
        "tools/t.py",
        "from tools.util import parse\ndef f():\n    try:\n        parse('{')\n    except ValueError as error:\n        raise RuntimeError('bad file') from error\n",
    )
    assert toolset.error("tools.t:f")["traceback"] == (
        "Traceback (most recent call last):\n  File \"tools/t.py\", line 4, in f\n    parse('{')\n"
        '  File "tools/util.py", line 3, in parse\n    return json.loads(text)\n'
        "JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)\n\n"
        "The above exception was the direct cause of the following exception:\n\n"
        "Traceback (most recent call last):\n  File \"tools/t.py\", line 6, in f\n    raise RuntimeError('bad file') from error\n"
        "RuntimeError: bad file"
    )


def test_a_long_message_is_cut(toolset):
    toolset.write("t.py", "def f(): raise ValueError('x' * 1_000_000)\n")
    error = toolset.error("t:f")
    assert len(error["message"]) < 9_000 and error["message"].endswith("more characters)")
    assert len(error["traceback"]) < 33_000


def test_async_and_awaitables(toolset):
    toolset.write(
        "t.py",
        """
        import asyncio
        from covalt_toolset import get_context
        async def inner():
            await asyncio.sleep(0)
            return get_context().chat_id
        async def direct(): return await asyncio.create_task(inner())
        def returned(): return inner()
        async def threaded(): return await asyncio.to_thread(lambda: get_context().chat_id)
        class Later:
            def __await__(self): return inner().__await__()
        def awaitable(): return Later()
        """,
    )
    for name in ("direct", "returned", "threaded", "awaitable"):
        assert toolset.result(f"t:{name}") == "chat"


def test_generators_are_refused(toolset):
    toolset.write("t.py", "def f():\n    yield 1\nasync def g():\n    yield 1\ndef h():\n    return f()\n")
    for name in ("f", "g"):
        assert (
            toolset.describe(f"t:{name}")["problem"] == "it is a generator (it has a yield); a tool returns its result"
        )
        assert toolset.error(f"t:{name}")["kind"] == "not_loaded"
    assert toolset.error("t:h")["kind"] == "bad_result"
