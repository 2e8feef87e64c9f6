"""What all drivers of Python share: reading the job, printing the answer."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

Job = dict[str, Any]


def plain(value: Any) -> Any:
    """A result of the library as it was on the wire."""
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


def reason(error: BaseException) -> str:
    """What went wrong, out of the groups that task groups wrap it in."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


async def answers(job: Job, call: Callable[[str, Job], Awaitable[Any]]) -> list[Job]:
    """Makes the job's calls, one after the other. One that is refused stops nothing."""
    made: list[Job] = []
    for wanted in job["calls"]:
        try:
            made.append({"result": plain(await call(wanted["name"], wanted["arguments"]))})
        except Exception as error:  # noqa: BLE001 - every refusal is an answer
            made.append({"error": reason(error)})
    return made


def main(drive: Callable[[Job], Awaitable[Job]]) -> None:
    """Runs a driver."""
    job = json.load(sys.stdin)
    try:
        seen = asyncio.run(drive(job))
    except Exception as error:  # noqa: BLE001 - the test tells what it expected
        seen = {"failure": reason(error)}
    print(json.dumps(seen))
