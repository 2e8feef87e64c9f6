"""A stand-in for the model behind an agent: the Messages API of Anthropic and both APIs of OpenAI, Responses and Chat Completions, streamed.

It has one idea. When it is offered the tool it was told of, it calls it; when it has read the result, it repeats it and is done.
What it was offered and what it read is kept, so that a test can look at the agent from the model's side. A `Script` has more ideas.
"""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Body = dict[str, Any]


class Model:
    """What the model wants to do, and what it has seen."""

    def __init__(self, prefix: str, name: str, arguments: Body) -> None:
        self.prefix, self.name, self.arguments = prefix, name, arguments
        self.offered: list[str] = []
        self.heard: list[Any] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler(self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def call(self, offered: list[str], heard: list[Any]) -> tuple[str, Body] | None:
        """The call that this turn is, if it is one. Agents also ask for titles and the like, and offer no tools then."""
        ours = [name.removeprefix(self.prefix) for name in offered if name.startswith(self.prefix)]
        self.offered = ours or self.offered
        self.heard = heard or self.heard
        return (self.prefix + self.name, self.arguments) if self.name in ours and not heard else None

    def says(self, heard: list[Any]) -> str:
        return f"The tool said: {json.dumps(heard[-1])}" if heard else "There is nothing to do."

    def asked(self, path: str, body: Body) -> None:
        """It was asked something."""


class Script(Model):
    """Does one thing after the other, whatever it is offered: which one is next is the number of results that it has read.

    A step is `{"tool", "arguments"}`, `{"text"}`, or `{"hang"}`, which never answers.
    """

    def __init__(self, steps: list[Body], asked: Callable[[str, Body], None]) -> None:
        self.steps, self.tell = steps, asked
        super().__init__("", "", {})

    def step(self, heard: list[Any]) -> Body:
        return self.steps[len(heard)] if len(heard) < len(self.steps) else {}

    def call(self, offered: list[str], heard: list[Any]) -> tuple[str, Body] | None:
        step = self.step(heard)
        while "hang" in step:
            time.sleep(1)
        return (step["tool"], step.get("arguments", {})) if "tool" in step else None

    def says(self, heard: list[Any]) -> str:
        return self.step(heard).get("text") or super().says(heard)

    def asked(self, path: str, body: Body) -> None:
        self.tell(path, body)


def messages(model: Model, body: Body) -> Iterator[Body]:
    """One turn of the Messages API."""
    blocks = [b for m in body["messages"] if isinstance(m["content"], list) for b in m["content"]]
    heard = [b.get("content") for b in blocks if b.get("type") == "tool_result"]
    call = model.call([t["name"] for t in body.get("tools", [])], heard)
    # Two turns must not have one name: agents count by it.
    turn = len(heard) + 1
    if call:
        name, arguments = call
        block: Body = {"type": "tool_use", "id": f"toolu_{turn}", "name": name, "input": {}}
        delta: Body = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
        stop = "tool_use"
    else:
        block, delta, stop = {"type": "text", "text": ""}, {"type": "text_delta", "text": model.says(heard)}, "end_turn"
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": f"msg_{turn}", "type": "message", "role": "assistant", "model": body["model"], "content": []}
    yield {"type": "message_start", "message": {**message, "stop_reason": None, "stop_sequence": None, "usage": usage}}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    yield {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage}
    yield {"type": "message_stop"}


def responses(model: Model, body: Body) -> Iterator[Body]:
    """One turn of the Responses API."""
    heard = [item.get("output") for item in body["input"] if item.get("type") == "function_call_output"]
    # Tools may come in namespaces. The tool's full name is then both together.
    places = {}
    for tool in body.get("tools", []):
        if tool["type"] == "namespace":
            places |= {f"{tool['name']}__{inner['name']}": (tool["name"], inner["name"]) for inner in tool["tools"]}
        elif tool["type"] == "function":
            places[tool["name"]] = (None, tool["name"])
    done = {"id": "item_1", "status": "completed"}
    wanted = model.call(list(places), heard)
    if wanted:
        space, name = places.get(wanted[0], (None, wanted[0]))
        arguments = json.dumps(wanted[1])
        call = {"type": "function_call", "call_id": f"call_{len(heard) + 1}", "name": name, "arguments": arguments}
        item: Body = {**done, **call, **({"namespace": space} if space else {})}
        parts: list[Body] = [{"type": "response.function_call_arguments.delta", "delta": arguments}]
        parts.append({"type": "response.function_call_arguments.done", "arguments": arguments})
        begun = {**item, "arguments": "", "status": "in_progress"}
    else:
        text = {"type": "output_text", "text": model.says(heard), "annotations": []}
        item = {**done, "type": "message", "role": "assistant", "content": [text]}
        empty = {"type": "output_text", "text": "", "annotations": []}
        parts = [{"type": "response.content_part.added", "content_index": 0, "part": empty}]
        parts.append({"type": "response.output_text.delta", "content_index": 0, "delta": text["text"]})
        parts.append({"type": "response.output_text.done", "content_index": 0, "text": text["text"]})
        parts.append({"type": "response.content_part.done", "content_index": 0, "part": text})
        begun = {**item, "content": [], "status": "in_progress"}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    response = {"id": "resp_1", "object": "response", "created_at": 0, "model": body["model"], "output": []}
    yield {"type": "response.created", "response": {**response, "status": "in_progress"}}
    yield {"type": "response.output_item.added", "output_index": 0, "item": begun}
    for part in parts:
        yield {**part, "item_id": "item_1", "output_index": 0}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    whole = {**response, "status": "completed", "output": [item], "usage": {**usage, **details}}
    yield {"type": "response.completed", "response": whole}


def completions(model: Model, body: Body) -> Iterator[Body]:
    """One turn of the Chat Completions API."""
    heard = [m.get("content") for m in body["messages"] if m.get("role") == "tool"]
    call = model.call([t["function"]["name"] for t in body.get("tools", [])], heard)
    chunk = {"id": "chatcmpl_1", "object": "chat.completion.chunk", "created": 0, "model": body["model"]}
    if call:
        function = {"name": call[0], "arguments": json.dumps(call[1])}
        delta: Body = {"tool_calls": [{"index": 0, "id": f"call_{len(heard) + 1}", "type": "function", "function": function}]}
        reason = "tool_calls"
    else:
        delta, reason = {"content": model.says(heard)}, "stop"
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    yield {**chunk, "choices": [{"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": None}]}
    yield {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage}


def handler(model: Model) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            self.plain({"object": "list", "data": [], "models": []})

        def do_HEAD(self) -> None:
            self.plain({})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
            path = self.path.split("?")[0]
            model.asked(path, body)
            if path.endswith("/messages"):
                self.stream(messages(model, body))
            elif path.endswith("/responses"):
                self.stream(responses(model, body))
            elif path.endswith("/chat/completions"):
                self.stream(completions(model, body), named=False)
            else:
                self.plain({"input_tokens": 1})

        def plain(self, answer: Body) -> None:
            text = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(text)

        def stream(self, events: Iterator[Body], named: bool = True) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            # Whoever asked may be gone.
            with contextlib.suppress(ConnectionError):
                for number, event in enumerate(events):
                    if named:
                        event["sequence_number"] = number
                        self.wfile.write(f"event: {event['type']}\n".encode())
                    self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
                    self.wfile.flush()
                if not named:
                    self.wfile.write(b"data: [DONE]\n\n")

    return Handler
