"""Rich results: text, images and references to files of the workspace. How they travel is the last function here."""

import os
from pathlib import Path
from typing import Any, Union

from ._context import _current

PathLike = Union[str, "os.PathLike[str]"]


class Text:
    """Text for the reader."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise TypeError(f"Text: the text must be str, not {type(text).__name__}")
        self.text = text

    def __repr__(self) -> str:
        return f"Text({self.text!r})"


class Image:
    """An image: a file, its bytes, or its bytes as base64. It is read at once, so a temporary file may go away."""

    __slots__ = ("data", "mime_type")

    def __init__(
        self,
        source: PathLike | bytes | bytearray | memoryview | None = None,
        *,
        base64: str | None = None,
        mime_type: str | None = None,
    ) -> None:
        if (source is None) == (base64 is None):
            raise TypeError("Image: give either a path or bytes, or base64=")
        guessed: str | None = None
        if base64 is not None:
            from base64 import b64decode

            try:
                self.data = b64decode(base64, validate=True)
            except ValueError as error:
                raise ValueError(f"Image: this is not base64: {error}") from None
        elif isinstance(source, (bytes, bytearray, memoryview)):
            self.data = bytes(source)
        else:
            assert source is not None
            path = Path(source)
            context = _current.get()
            if context is not None and not path.is_absolute():
                path = context.workspace / path
            self.data = path.read_bytes()
            guessed = guess(path.name)
        mime_type = mime_type or _sniff(self.data) or guessed
        if mime_type is None:
            raise ValueError('Image: what kind of image is it? Give mime_type="image/png", for example')
        if not mime_type.startswith("image/"):
            raise ValueError(f"Image: {mime_type} is not an image; use File for other files")
        self.mime_type = mime_type

    def __repr__(self) -> str:
        return f"Image({len(self.data)} bytes, mime_type={self.mime_type!r})"


class File:
    """A file of the workspace, by its path. It must be there when the tool returns."""

    __slots__ = ("path", "mime_type")

    def __init__(self, path: PathLike, *, mime_type: str | None = None) -> None:
        self.path = os.fspath(path)
        self.mime_type = mime_type or guess(self.path) or "application/octet-stream"

    def __repr__(self) -> str:
        return f"File({self.path!r}, mime_type={self.mime_type!r})"


RICH = (Text, Image, File)


def guess(name: str) -> str | None:
    """The media type that a name's ending stands for."""
    import mimetypes

    # Only the built-in table: the machine's files differ from one to the next.
    ending = os.path.splitext(name)[1].lower()
    return {".md": "text/markdown", ".webp": "image/webp"}.get(ending) or mimetypes.types_map.get(ending)


def _sniff(data: bytes) -> str | None:
    for magic, mime_type in (
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF8", "image/gif"),
        (b"BM", "image/bmp"),
    ):
        if data.startswith(magic):
            return mime_type
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return None


def inside(workspace: Path, path: str) -> str:
    """The path of an existing file relative to the workspace, or a ValueError that says why it is none."""
    root = workspace.resolve()
    target = (root / path).resolve()
    if target != root and root not in target.parents:
        raise ValueError(f"{path} is outside the workspace")
    if not target.is_file():
        raise ValueError(f"{path} is not a file of the workspace")
    # The name that was given, not what a link inside the workspace leads to.
    plain = Path(os.path.normpath(root / path))
    return (plain if root in plain.parents else target).relative_to(root).as_posix()


def rich_list(value: object) -> list[Any] | None:
    """The items of a rich result, or None if it is an ordinary one."""
    if isinstance(value, RICH):
        return [value]
    if isinstance(value, (list, tuple)) and any(isinstance(item, RICH) for item in value):
        return list(value)
    return None


def as_json(item: object, workspace: Path) -> dict[str, Any]:
    """One item as it travels."""
    if isinstance(item, str):
        return {"type": "text", "text": item}
    if isinstance(item, Text):
        return {"type": "text", "text": item.text}
    if isinstance(item, Image):
        from binascii import b2a_base64

        return {
            "type": "image",
            "mimeType": item.mime_type,
            "data": b2a_base64(item.data, newline=False).decode("ascii"),
        }
    if isinstance(item, File):
        return {"type": "file", "path": inside(workspace, item.path), "mimeType": item.mime_type}
    raise ValueError(f"{type(item).__name__} cannot stand beside rich content: use Text, Image, File or str")
