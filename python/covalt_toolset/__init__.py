"""What a toolset's code imports: a decorator that makes a function a tool, the context of the call, and rich results.

Nothing here knows how a call reaches the function; that is `_runtime`, which a tool never imports.
"""

from ._content import File, Image, Text
from ._context import Context, Process, clear_context, get_context, set_context
from ._tool import tool

__all__ = ["Context", "File", "Image", "Process", "Text", "clear_context", "get_context", "set_context", "tool"]
__version__ = "0.1.0"
