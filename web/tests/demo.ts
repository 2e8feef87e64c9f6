// A toolset for the tests of chats and tools: one that says how far it is until it is cancelled, one that takes all sorts of arguments,
// one that fails, one that leaves something running.
import { zip } from './zip.ts';

const MANIFEST = `
manifest_version: "1"
id: demo
name: Demo
version: "1.2.0"
permissions: {listen: true}
tools:
  - id: wait
    name: Wait
    description: Says how far it is, and goes on until it is cancelled
    entrypoint: tools.demo:wait
    input_schema:
      type: object
      properties:
        steps: {type: integer, minimum: 1, maximum: 50, default: 3}
  - id: append
    name: Append
    description: Add a line to a file
    entrypoint: tools.demo:append
    requires_confirmation: true
    input_schema:
      type: object
      properties:
        path: {type: string, description: The file}
        line: {type: string, description: What to add}
      required: [path, line]
      additionalProperties: false
  - id: fail
    name: Fail
    description: Always goes wrong
    entrypoint: tools.demo:fail
    input_schema: {type: object, properties: {}}
  - id: leave
    name: Leave
    description: Leaves something running
    entrypoint: tools.demo:leave
    input_schema: {type: object, properties: {}}
  - id: everything
    name: Everything
    description: Takes all sorts of arguments, and gives them back
    entrypoint: tools.demo:everything
    input_schema:
      type: object
      required: [name, size, kind, where, version]
      properties:
        name: {type: string, minLength: 2, description: How it is called}
        size: {type: integer, minimum: 1, maximum: 10}
        kind: {enum: [small, large]}
        version: {const: 2}
        loud: {type: boolean, description: Whether it shouts}
        day: {type: string, format: date}
        note: {type: [string, "null"], description: May be null}
        tags: {type: array, items: {type: string}, maxItems: 3}
        colours: {type: array, uniqueItems: true, items: {enum: [red, green, blue]}}
        where: {$ref: "#/$defs/place"}
        labels: {type: object, additionalProperties: {type: string}}
        target:
          oneOf:
            - {title: A file, type: object, required: [path], properties: {path: {type: string}}}
            - {title: An address, type: object, required: [url], properties: {url: {type: string, format: uri}}}
        anything: {description: Whatever it is}
      $defs:
        place: {type: object, required: [x], properties: {x: {type: number}, y: {type: number}}}
`;

const CODE = `
import time
from pathlib import Path

from covalt_toolset import get_context


def wait(workspace: Path, steps: int = 3) -> dict:
    context = get_context()
    for step in range(steps):
        context.progress((step + 1) / (steps + 1), f"step {step + 1}")
        context.log(f"at step {step + 1}")
    while True:
        time.sleep(0.05)


def append(workspace: Path, path: str, line: str) -> dict:
    with (workspace / path).open("a") as file:
        file.write(line + "\\n")
    return {"lines": len((workspace / path).read_text().splitlines())}


def fail(workspace: Path) -> dict:
    raise ValueError("this never works")


def leave(workspace: Path) -> dict:
    get_context().start_process(["sleep", "3600"])
    return {"left": True}


def everything(
    workspace: Path, name, size, kind, version, where,
    loud=None, day=None, note=None, tags=None, colours=None, labels=None, target=None, anything=None,
) -> dict:
    given = dict(locals())
    del given["workspace"]
    return {key: value for key, value in given.items() if value is not None}
`;

export function demo(): Uint8Array {
  return zip([
    ['toolset.yaml', MANIFEST],
    ['tools/demo.py', CODE],
  ]);
}
