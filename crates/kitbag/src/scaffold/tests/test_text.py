"""Run with: python -m pytest"""

import sys
from pathlib import Path

import pytest
from covalt_toolset import clear_context, set_context

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools.text import word_count, write_note  # noqa: E402


@pytest.fixture(autouse=True)
def workspace(tmp_path):
    set_context(workspace=tmp_path, chat_id="test", toolset_id="{{id}}")
    yield tmp_path
    clear_context()


def test_words_are_counted(workspace):
    (workspace / "a.txt").write_text("to be or not to be")
    result = word_count("a.txt", most=1)
    assert result == {"path": "a.txt", "words": 6, "top": [{"word": "to", "count": 2}]}


def test_a_note_is_written(workspace):
    result = write_note("Hello, world", "Text.")
    assert (workspace / result["path"]).read_text() == "# Hello, world\n\nText.\n"
