"""What a worker calls: describe a tool, load it, and make one call of it. No call of these raises.

It knows neither the sandbox nor the wire; a worker gives it a `Context` and takes JSON values.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from . import _errors
from ._context import Context, _current
from ._load import NotLoaded, find
from ._plan import BadArguments, Plan
from ._result import BadResult, to_json

__all__ = ["Context", "NotLoaded", "describe", "invoke", "load"]

MOST_SCHEMA = 1_000_000

_plans: dict[tuple[str, str], Plan] = {}


def load(root: str, entrypoint: str) -> Callable[..., Any]:
    """The function of an entrypoint, imported and ready: a fork made after this pays for nothing of it again.

    Raises:
        NotLoaded: There is no such function, or its module cannot be imported. The text is for people.
    """
    return _plan(root, entrypoint).function


def _plan(root: str, entrypoint: str) -> Plan:
    key = (os.path.abspath(root), entrypoint)
    plan = _plans.get(key)
    if plan is None:
        try:
            plan = Plan(find(root, entrypoint))
        except NotLoaded:
            raise
        except SystemExit as error:
            raise NotLoaded(
                f"its module ended Python while it was imported (sys.exit({error.code!r}))",
                _errors.trimmed(error, root),
            ) from None
        except BaseException as error:
            raise NotLoaded(
                f"it cannot be imported: {_errors.describe(error, root)}", _errors.trimmed(error, root)
            ) from None
        if plan.waits:
            import asyncio  # noqa: F401  Here, so that each call need not import it.
        _plans[key] = plan
    return plan


def describe(root: str, entrypoint: str, manifest_schema: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What is known of a tool. `problem` says why it cannot be called; everything else is empty then."""
    found: dict[str, Any] = {
        "entrypoint": entrypoint,
        "problem": None,
        "name": None,
        "description": None,
        "requires_confirmation": None,
        "category": None,
        "input_schema": {},
        "output_schema": None,
        "style": None,
    }
    try:
        plan = _plan(root, entrypoint)
        said = plan.said
        schema = plan.input_schema()
        if said is None and manifest_schema is not None:
            schema = _checked(dict(manifest_schema), plan)
        output_schema = plan.output_schema()
        for each in (schema, output_schema):
            # A model may put anything into its schema.
            to_json(each, MOST_SCHEMA, Path())
        return {
            **found,
            "name": said.name if said else None,
            "description": (said.description if said else None) or plan.summary,
            "requires_confirmation": said.requires_confirmation if said else None,
            "category": said.category if said else None,
            "input_schema": schema,
            "output_schema": output_schema,
            "style": "decorated" if said else "plain",
        }
    except NotLoaded as problem:
        text = str(problem) + (f"\n{problem.traceback}" if problem.traceback else "")
        return {**found, "problem": _errors.safe(text)}
    except BadResult as error:
        return {**found, "problem": f"its schema cannot be used: {error}".replace("the result", "it")}
    except BaseException as error:
        return {**found, "problem": f"it cannot be described: {_errors.describe(error, root)}"}


def _checked(schema: dict[str, Any], plan: Plan) -> dict[str, Any]:
    known = [parameter.name for parameter in plan.parameters]
    properties = schema.get("properties")
    for name in properties if isinstance(properties, dict) else ():
        if name not in known:
            listed = ", ".join(known) or "none"
            raise NotLoaded(
                f"input_schema has the property {name}, but the function has no such parameter; it has {listed}"
            )
    return schema


def invoke(root: str, entrypoint: str, args: Mapping[str, Any], context: Context, most_bytes: int) -> dict[str, Any]:
    """Make one call. Gives `{"ok": result}`, or `{"error": {"kind", "message", "traceback"}}`."""
    try:
        plan = _plan(root, entrypoint)
    except NotLoaded as problem:
        return _error("not_loaded", str(problem), problem.traceback)
    token = _current.set(context)
    try:
        positional, named = plan.bind(args, context.workspace)
        value = plan.function(*positional, **named)
        if hasattr(value, "__await__"):
            import asyncio

            value = asyncio.run(_wait(value))
        return {"ok": to_json(value, most_bytes, context.workspace)}
    except BadArguments as error:
        return _error("bad_arguments", str(error), None)
    except BadResult as error:
        return _error("bad_result", str(error), None)
    except SystemExit as error:
        code = 0 if error.code is None else error.code
        how = f"exit code {code}" if isinstance(code, int) else f"the message {_errors.safe(str(code))!r}"
        return _error(
            "exit", f"the tool ended itself with {how} (sys.exit) instead of returning", _errors.trimmed(error, root)
        )
    except KeyboardInterrupt as error:
        return _error("interrupt", "the tool was interrupted (KeyboardInterrupt)", _errors.trimmed(error, root))
    except BaseException as error:
        return _error("exception", _errors.describe(error, root), _errors.trimmed(error, root))
    finally:
        _current.reset(token)


async def _wait(value: Any) -> Any:
    return await value


def _error(kind: str, message: str, traceback: str | None) -> dict[str, Any]:
    return {"error": {"kind": kind, "message": _errors.safe(message), "traceback": traceback}}
