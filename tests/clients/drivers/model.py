"""A stand-in for the model behind an agent: the Messages API of Anthropic and the Responses API of OpenAI, streamed.

It has one idea. When it is offered the tool it was told of, it calls it; when it has read the result, it repeats it and is done.
What it was offered and what it read is kept, so that a test can look at the agent from the model's side.
"""

import json
import threading
from collections.abc import Iterator
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

    def wants(self, offered: list[str], heard: list[Any]) -> bool:
        """Whether this turn is a call. Agents also ask for titles and the like, and offer no tools then."""
        ours = [name.removeprefix(self.prefix) for name in offered if name.startswith(self.prefix)]
        self.offered = ours or self.offered
        self.heard = heard or self.heard
        return self.name in ours and not heard

    def says(self) -> str:
        return f"The tool said: {json.dumps(self.heard[-1])}" if self.heard else "There is nothing to do."


def messages(model: Model, body: Body) -> Iterator[Body]:
    """One turn of the Messages API."""
    blocks = [b for m in body["messages"] if isinstance(m["content"], list) for b in m["content"]]
    heard = [b.get("content") for b in blocks if b.get("type") == "tool_result"]
    name = model.prefix + model.name
    if model.wants([t["name"] for t in body.get("tools", [])], heard):
        block: Body = {"type": "tool_use", "id": "toolu_1", "name": name, "input": {}}
        delta: Body = {"type": "input_json_delta", "partial_json": json.dumps(model.arguments)}
        stop = "tool_use"
    else:
        block, delta, stop = {"type": "text", "text": ""}, {"type": "text_delta", "text": model.says()}, "end_turn"
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"], "content": []}
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
            places |= {tool["name"] + inner["name"]: (tool["name"], inner["name"]) for inner in tool["tools"]}
        elif tool["type"] == "function":
            places[tool["name"]] = (None, tool["name"])
    done = {"id": "item_1", "status": "completed"}
    if model.wants(list(places), heard):
        space, name = places[model.prefix + model.name]
        call = {"type": "function_call", "call_id": "call_1", "name": name, "arguments": json.dumps(model.arguments)}
        item: Body = {**done, **call, **({"namespace": space} if space else {})}
        parts: list[Body] = [{"type": "response.function_call_arguments.delta", "delta": call["arguments"]}]
        parts.append({"type": "response.function_call_arguments.done", "arguments": call["arguments"]})
        begun = {**item, "arguments": "", "status": "in_progress"}
    else:
        text = {"type": "output_text", "text": model.says(), "annotations": []}
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
            if path.endswith("/messages"):
                self.stream(messages(model, body))
            elif path.endswith("/responses"):
                self.stream(responses(model, body))
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

        def stream(self, events: Iterator[Body]) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            for number, event in enumerate(events):
                event["sequence_number"] = number
                self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
                self.wfile.flush()

    return Handler
