"""What is said between Kitbag and a call: a length of four bytes, then that many bytes of JSON."""

import json
import struct
from typing import Any, Dict, Optional

# Made once, here: what a child makes is lost with it.
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_decode = json.JSONDecoder().decode
_head = struct.Struct("<I")

# Far above any limit that Kitbag sets on arguments; a length beyond it is not a length.
LONGEST = 1 << 30


def read(sock: Any) -> Optional[Dict[str, Any]]:
    """The next one; None if the other side is gone."""
    head = _exactly(sock, 4)
    if head is None:
        return None
    (length,) = _head.unpack(head)
    if length > LONGEST:
        raise ValueError(f"a frame of {length} bytes")
    body = _exactly(sock, length)
    return None if body is None else _decode(body.decode())


def write(sock: Any, message: Dict[str, Any]) -> None:
    """Sends one, whole."""
    sock.sendall(framed(message))


def framed(message: Dict[str, Any]) -> bytes:
    """As it is sent."""
    body = _encode(message).encode("utf-8", "replace")
    return _head.pack(len(body)) + body


def _exactly(sock: Any, length: int) -> Optional[bytes]:
    parts = []
    while length:
        part = sock.recv(min(length, 1 << 20))
        if not part:
            return None
        parts.append(part)
        length -= len(part)
    return b"".join(parts)
