"""What a docstring says: its first paragraph, and the text of each entry of its `Args:` section (Google style)."""

import re
from inspect import cleandoc
from typing import Dict, List, Optional, Tuple

_SECTION = re.compile(
    r"(Args|Arguments|Parameters|Params|Attributes|Returns?|Yields?|Raises|Examples?|Notes?|Warnings?|See Also|Todo|"
    r"References|Keyword Args|Keyword Arguments|Other Parameters):\s*$"
)
_ARGUMENTS = ("Args", "Arguments", "Parameters", "Params", "Attributes", "Keyword Args", "Keyword Arguments")
# name: text, name (type): text, name (list[tuple(int, str)], optional): text
_ENTRY = re.compile(r"(?P<name>\*{0,2}[^\W\d]\w*)\s*(?:\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))?\s*:(?:\s+(?P<text>.*))?$")


def read(text: Optional[str]) -> Tuple[Optional[str], Dict[str, str]]:
    """The first paragraph, if there is one, and the text of each argument."""
    if not text:
        return None, {}
    lines = cleandoc(text).expandtabs(4).splitlines()
    return _summary(lines), _arguments(lines)


def _summary(lines: List[str]) -> Optional[str]:
    words: List[str] = []
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


def _arguments(lines: List[str]) -> Dict[str, str]:
    found: Dict[str, List[List[str]]] = {}
    inside = False
    header = entry = 0
    paragraphs: Optional[List[List[str]]] = None
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
