"""A stand-in for a model as a process of its own: follows the script that is its argument until its standard input ends.

It prints its address, and then everything that it is asked, a line each: `{"path", "body"}`.
"""

import json
import sys
import threading
from typing import Any

from model import Script

ONE_AT_A_TIME = threading.Lock()


def tell(value: dict[str, Any]) -> None:
    with ONE_AT_A_TIME:
        print(json.dumps(value), flush=True)


script = Script(json.loads(sys.argv[1]), lambda path, body: tell({"path": path, "body": body}))
tell({"url": script.url})
sys.stdin.read()
