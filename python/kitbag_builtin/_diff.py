"""A unified diff of replacements whose places are known. Only the lines around them are compared, so that a large file costs
no more than a small one."""

from bisect import bisect_right
from difflib import SequenceMatcher

CONTEXT = 3
MOST_DIFF = 64 * 1024
# Beyond this a comparison line by line takes too long; old lines and new lines are shown instead.
MOST_COMPARED = 2_000


def unified(name: str, text: str, old: str, new: str, places: list[int]) -> tuple[str, bool]:
    """The diff, and whether the end of it was left out."""
    lines = _lines(text)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    parts = [f"--- a/{name}\n", f"+++ b/{name}\n"]
    size = moved = 0
    for first, last in _regions(starts, places, len(old), len(lines)):
        before = text[starts[first] : starts[last]]
        old_lines, new_lines = lines[first:last], _lines(before.replace(old, new))
        grown = len(new_lines) - len(old_lines)
        while min(len(old_lines), len(new_lines)) > CONTEXT and old_lines[-CONTEXT - 1 :] == new_lines[-CONTEXT - 1 :]:
            old_lines.pop()
            new_lines.pop()
        parts.append(f"@@ -{_span(first, old_lines)} +{_span(first + moved, new_lines)} @@\n")
        for mark, line in _compared(old_lines, new_lines):
            text_line = mark + line if line.endswith("\n") else f"{mark}{line}\n\\ No newline at end of file\n"
            size += len(text_line)
            if size > MOST_DIFF:
                return "".join(parts) + "… the rest of the diff is left out …\n", True
            parts.append(text_line)
        moved += grown
    return "".join(parts), False


def _lines(text: str) -> list[str]:
    parts = text.split("\n")
    return [part + "\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _span(first: int, lines: list[str]) -> str:
    return f"{first + 1 if lines else first},{len(lines)}"


def _regions(starts: list[int], places: list[int], length: int, count: int) -> list[tuple[int, int]]:
    """The lines that change, with those around them; regions that meet are one."""
    regions: list[tuple[int, int]] = []
    for place in places:
        first = max(0, bisect_right(starts, place) - 1 - CONTEXT)
        # The line after the last character, too: without its line end, what follows is drawn to it.
        last = min(count, bisect_right(starts, place + length) + CONTEXT)
        if regions and first <= regions[-1][1]:
            regions[-1] = (regions[-1][0], max(last, regions[-1][1]))
        else:
            regions.append((first, last))
    return regions


def _compared(old: list[str], new: list[str]) -> list[tuple[str, str]]:
    if len(old) + len(new) > MOST_COMPARED:
        return [("-", line) for line in old] + [("+", line) for line in new]
    marked: list[tuple[str, str]] = []
    for what, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if what == "equal":
            marked += [(" ", line) for line in old[a:b]]
        else:
            marked += [("-", line) for line in old[a:b]] + [("+", line) for line in new[c:d]]
    return marked
