"""A server on the web that behaves as its first argument says. It prints its port, and writes every request that it gets to
the file `seen`, one JSON object a line."""

import gzip
import itertools
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

behaviour = sys.argv[1]
options = dict(argument.split("=", 1) for argument in sys.argv[2:])
seen = open(options["seen"], "a", buffering=1)
lock = threading.Lock()
ECHO = {"name": "echo", "inputSchema": {"type": "object"}, "x-ours": [1]}


class Twin(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def handle_any(self):
        length = int(self.headers.get("content-length") or 0)
        body = self.rfile.read(length).decode() if length else ""
        self.message = json.loads(body) if body.startswith("{") else {}
        with lock:
            headers = {name.lower(): value for name, value in self.headers.items()}
            seen.write(json.dumps({"verb": self.command, "path": self.path, "headers": headers, "message": self.message}) + "\n")
        try:
            globals()[behaviour](self)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    do_GET = do_POST = do_DELETE = handle_any

    # What the behaviours are made of.

    def method(self):
        return self.message.get("method")

    def empty(self, status, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", "0")
        self.end_headers()

    def json(self, value, status=200, **headers):
        data = json.dumps({"jsonrpc": "2.0", "id": self.message.get("id"), **value}).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json; charset=utf-8")
        self.send_header("content-length", str(len(data)))
        for name, text in headers.items():
            self.send_header(name.replace("_", "-"), text)
        self.end_headers()
        self.wfile.write(data)

    def stream(self):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.wfile.flush()
        self.close_connection = True

    def say(self, data):
        self.wfile.write(data if isinstance(data, bytes) else data.encode())
        self.wfile.flush()

    def answer(self):
        """What a good server answers to this."""
        method, params = self.method(), self.message.get("params") or {}
        if method == "initialize":
            return {"result": {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {"listChanged": True}}, "serverInfo": {"name": "twin"}}}
        if method == "tools/list":
            return {"result": {"tools": [ECHO]}}
        if method == "tools/call":
            return {"result": {"content": [{"type": "text", "text": json.dumps(params.get("arguments"))}]}}
        if method == "ping":
            return {"result": {}}
        return {"error": {"code": -32601, "message": "Method not found"}}

    def event(self, value=None):
        return json.dumps({"jsonrpc": "2.0", "id": self.message.get("id"), **(value or self.answer())})

    def serve(self):
        """A good server with a session."""
        if self.command == "GET":
            self.empty(405)
        elif self.command == "DELETE":
            self.empty(200)
        elif "id" not in self.message:
            self.empty(202)
        elif self.method() == "initialize":
            self.json(self.answer(), mcp_session_id="s-1")
        elif self.method() == "server/discover":
            self.json({"error": {"code": -32000, "message": "Bad Request: no session"}}, 400)
        else:
            self.json(self.answer())


def honest(self):
    self.serve()


def modern(self):
    """A good server without a session, with a tool that wants an argument in a header."""
    if self.method() == "server/discover":
        self.json({"result": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "serverInfo": {"name": "twin"}}})
    elif self.method() == "tools/list":
        marked = {"type": "object", "properties": {"where": {"type": "string", "x-mcp-header": "Where"}}}
        bad = {"type": "object", "properties": {"where": {"type": "object", "x-mcp-header": "Where"}}}
        self.json({"result": {"ttlMs": 5000, "tools": [ECHO, {"name": "marked", "inputSchema": marked}, {"name": "bad", "inputSchema": bad}]}})
    elif self.method() == "tools/call" and (self.message["params"].get("arguments") or {}).get("hang"):
        self.stream()
        while True:
            self.say(": still here\n\n")
            time.sleep(0.02)
    elif self.method() == "tools/call":
        self.json(self.answer())
    else:
        self.empty(405)


def redirects(self):
    """Redirects everything to the address it was given, except what is there already."""
    if self.path == "/there":
        self.serve()
    else:
        self.empty(int(options["status"]), location=options["to"])


def refuses(self):
    """Wants a token, which is `new`."""
    if self.headers.get("authorization") == "Bearer new":
        self.serve()
    else:
        self.empty(int(options["status"]), www_authenticate='Bearer resource_metadata="http://twin/meta", scope="a b"')


def refuses_calls(self):
    if self.method() == "tools/call":
        self.empty(403, www_authenticate='Bearer error="insufficient_scope", scope="more"')
    else:
        self.serve()


def forgets(self):
    """Forgets its session as soon as a tool is called."""
    if self.method() == "tools/call":
        self.empty(404)
    else:
        self.serve()


def endless_body(self):
    if self.method() != "tools/call":
        return self.serve()
    self.send_response(200)
    self.send_header("content-type", "application/json")
    self.send_header("connection", "close")
    self.end_headers()
    self.close_connection = True
    while True:
        self.say(b" " * 65536)


def huge_length(self):
    if self.method() != "tools/call":
        return self.serve()
    self.send_response(200)
    self.send_header("content-type", "application/json")
    self.send_header("content-length", str(10**15))
    self.end_headers()
    self.say(b"{")
    time.sleep(3600)


def endless_event(self):
    if self.method() != "tools/call":
        return self.serve()
    self.stream()
    self.say("data: ")
    while True:
        self.say(b"x" * 65536)


def drips(self):
    if self.method() != "tools/call":
        return self.serve()
    self.stream()
    while True:
        self.say(":")
        time.sleep(0.01)


def bomb(self):
    if self.method() != "tools/call":
        return self.serve()
    data = gzip.compress(b" " * 50_000_000)
    self.send_response(200)
    self.send_header("content-type", "application/json")
    self.send_header("content-encoding", "gzip")
    self.send_header("content-length", str(len(data)))
    self.end_headers()
    self.say(data)


def storms(self):
    """Says thousands of things by itself on the stream for that."""
    if self.command != "GET":
        return self.serve()
    self.stream()
    message = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "blah"}})
    while True:
        self.say(f"data: {message}\n\n" * 1000)


def odd_events(self):
    """Answers in a stream that is cut in odd places, with every line end there is."""
    if "id" not in self.message or self.method() in ("initialize", "server/discover"):
        return self.serve()
    self.stream()
    progress = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
    first, second = self.event().split(", ", 1)
    text = f"\ufeff: hello\r\n\r\nevent: message\rdata:{json.dumps(progress)}\r\rid: 1\ndata: {first},\ndata:{second}\n\ndata: never ended"
    for byte in text.encode():
        self.say(bytes([byte]))


def ends_early(self):
    """Ends a call's stream before the answer, without a number to go on from."""
    if self.method() != "tools/call":
        return self.serve()
    self.stream()
    self.say(": bye\n\n")


def not_json(self):
    if self.method() != "tools/call":
        return self.serve()
    self.send_response(int(options.get("status", "200")))
    self.send_header("content-type", "text/html")
    self.send_header("content-length", "15")
    self.end_headers()
    self.say("<html>hi</html>")


def accepts(self):
    """Takes a call and never says more."""
    if self.method() != "tools/call":
        return self.serve()
    self.empty(202)


def announces(self):
    """Has a stream for what it says by itself, which breaks and goes on."""
    if self.command != "GET":
        return self.serve()
    self.stream()
    changed = json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    number = int(self.headers.get("last-event-id") or 0) + 1
    self.say(f"id: {number}\nretry: 10\ndata: {changed}\n\n")
    if number >= 3:
        time.sleep(3600)


# The older way.

streams = {}
numbers = itertools.count()


def old(self, endpoint=None):
    if self.command == "GET":
        number = str(next(numbers))
        self.stream()
        streams[number] = self
        self.say("event: endpoint\ndata: " + (endpoint or f"/messages?n={number}") + "\n\n")
        while not getattr(self, "over", False):
            time.sleep(0.01)
        return
    self.empty(202)
    if "id" in self.message:
        stream = streams[self.path.split("n=")[1]]
        stream.say("event: message\r\ndata: " + self.event() + "\r\n\r\n")
        if self.message["params"].get("name") == "end":
            stream.over = True


def old_elsewhere(self):
    old(self, endpoint=options["endpoint"])


def old_silent(self):
    self.stream()
    while True:
        self.say(": wait\n\n")
        time.sleep(0.02)


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass


server = Server(("127.0.0.1", 0), Twin)
print(server.server_address[1], flush=True)
server.serve_forever()
