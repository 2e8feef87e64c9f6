"""What a docstring says: its first paragraph, and the text of each entry of its `Args:` section (Google style)."""

import re
from inspect import cleandoc

_SECTION = re.compile(
    r"(Args|Arguments|Parameters|Params|Attributes|Returns?|Yields?|Raises|Examples?|Notes?|Warnings?|See Also|Todo|"
    r"References|Keyword Args|Keyword Arguments|Other Parameters):\s*$"
)
_ARGUMENTS = ("Args", "Arguments", "Parameters", "Params", "Attributes", "Keyword Args", "Keyword Arguments")
# name: text, name (type): text, name (list[tuple(int, str)], optional): text
_ENTRY = re.compile(
    r"(?P<name>\*{0,2}[^\W\d]\w*)\s*(?:\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))?\s*:(?:\s+(?P<text>.*))?$"
)


def read(text: str | None) -> tuple[str | None, dict[str, str]]:
    """The first paragraph, if there is one, and the text of each argument."""
    if not text:
        return None, {}
    lines = cleandoc(text).expandtabs(4).splitlines()
    return _summary(lines), _arguments(lines)


def _summary(lines: list[str]) -> str | None:
    words: list[str] = []
    for line in lines:
        if _SECTION.match(line):
            break
        if not line.strip():
            if words:
                break
            continue
        words.append(line.strip())
    return " ".join(words) or None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _arguments(lines: list[str]) -> dict[str, str]:
    found: dict[str, list[list[str]]] = {}
    inside = False
    header = entry = 0
    paragraphs: list[list[str]] | None = None
    for line in lines:
        stripped = line.strip()
        section = _SECTION.match(stripped)
        if section and (not inside or _indent(line) <= header):
            inside, header, entry, paragraphs = section.group(1) in _ARGUMENTS, _indent(line), 0, None
            continue
        if not inside:
            continue
        if not stripped:
            if paragraphs and paragraphs[-1]:
                paragraphs.append([])
            continue
        if _indent(line) <= header:
            inside = False
            continue
        entry = entry or _indent(line)
        match = _ENTRY.match(stripped) if _indent(line) <= entry else None
        if match:
            first = [match.group("text")] if match.group("text") else []
            paragraphs = found.setdefault(match.group("name").lstrip("*"), [first])
        elif paragraphs is not None:
            paragraphs[-1].append(stripped)
    joined = {name: "\n".join(" ".join(part) for part in parts if part).strip() for name, parts in found.items()}
    return {name: text for name, text in joined.items() if text}
