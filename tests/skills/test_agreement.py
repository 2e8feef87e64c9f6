"""What the public validator of Agent Skills says about each case of `cases.json`.

Kitbag's own answer to the same cases is held by a test in `crates/formats/src/skill`. Where the two differ, the case
says why.
"""

import json
from pathlib import Path

import pytest
import skills_ref

CASES = json.loads((Path(__file__).parent / "cases.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_the_public_validator(case: dict, tmp_path: Path):
    folder = tmp_path / case["folder"]
    folder.mkdir()
    (folder / "SKILL.md").write_bytes(case["text"].encode())
    # What `agentskills validate DIR` prints and exits by.
    problems = skills_ref.validate(folder)
    assert (problems == []) == case["skills-ref"], problems


def test_every_difference_has_a_reason():
    assert len({case["case"] for case in CASES}) == len(CASES) >= 25
    for case in CASES:
        assert ("why" in case) == (case["kitbag"] != case["skills-ref"]), case["case"]
