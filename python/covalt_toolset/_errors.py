"""Exceptions for people to read: what happened, and where in the toolset's own files."""

import os
from types import TracebackType

MOST_TEXT = 8_000
MOST_FRAMES = 30


def safe(text: str, most: int = MOST_TEXT) -> str:
    """A text that JSON can carry and that is not endless."""
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most} more characters)"


def describe(error: BaseException, root: str) -> str:
    """The kind of an exception and its text. Its own code may fail, too."""
    kind = type(error).__name__
    try:
        if isinstance(error, SyntaxError) and error.filename:
            text = f"{error.msg} ({_relative(error.filename, root) or error.filename}, line {error.lineno})"
        else:
            text = str(error)
        inner = getattr(error, "exceptions", ())
        if isinstance(inner, tuple) and inner and kind.endswith("ExceptionGroup"):
            text += ": " + "; ".join(describe(each, root) for each in inner[:5])
    except BaseException as failure:
        text = f"its text cannot be shown, since __str__ raised {type(failure).__name__}"
    return safe(f"{kind}: {text}" if text else kind)


def trimmed(error: BaseException, root: str) -> str | None:
    """The traceback with the frames of the toolset's files only, or None if there are none."""
    try:
        parts: list[str] = []
        seen: set[int] = set()
        current: BaseException | None = error
        while current is not None and id(current) not in seen and len(seen) < 5:
            seen.add(id(current))
            frames = _frames(current.__traceback__, root) + _syntax(current, root)
            for each in (
                getattr(current, "exceptions", ())[:5] if type(current).__name__.endswith("ExceptionGroup") else ()
            ):
                frames += _frames(each.__traceback__, root)
            if frames:
                parts.append("\n".join(["Traceback (most recent call last):", *frames, describe(current, root)]))
            if current.__cause__ is not None:
                word, current = (
                    "The above exception was the direct cause of the following exception:",
                    current.__cause__,
                )
            elif current.__context__ is not None and not current.__suppress_context__:
                word, current = (
                    "During handling of the above exception, another exception occurred:",
                    current.__context__,
                )
            else:
                break
            if frames:
                parts.append(word)
        while parts and not parts[-1].startswith("Traceback"):
            parts.pop()
        return safe("\n\n".join(reversed(parts)), 4 * MOST_TEXT) if parts else None
    except BaseException:
        # No memory, or no stack, is left to tell more. The message is there.
        return None


def _relative(file: str, root: str) -> str | None:
    root = os.path.abspath(root)
    file = os.path.abspath(file)
    return os.path.relpath(file, root) if file.startswith(root + os.sep) else None


def _frames(traceback: TracebackType | None, root: str) -> list[str]:
    import linecache

    own = os.path.dirname(os.path.abspath(__file__)) + os.sep
    frames = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        file = _relative(code.co_filename, root)
        # The SDK may be below the toolset's folder (the built-in tools), and is not what failed.
        if file is not None and not os.path.abspath(code.co_filename).startswith(own):
            line = linecache.getline(code.co_filename, traceback.tb_lineno).strip()
            frames.append(
                f'  File "{file}", line {traceback.tb_lineno}, in {code.co_name}' + (f"\n    {line}" if line else "")
            )
        traceback = traceback.tb_next
    if len(frames) > MOST_FRAMES:
        left_out = len(frames) - MOST_FRAMES
        frames = [*frames[:5], f"  … {left_out} more …", *frames[left_out + 5 :]]
    return frames


def _syntax(error: BaseException, root: str) -> list[str]:
    if not isinstance(error, SyntaxError) or not error.filename:
        return []
    file = _relative(error.filename, root)
    if file is None:
        return []
    return [f'  File "{file}", line {error.lineno}' + (f"\n    {error.text.strip()}" if error.text else "")]
