"""A server on stdio that behaves as its first argument says. It writes what it is sent to the file `--seen`, one message a
line, so that a test can tell what really arrived."""

import json
import os
import subprocess
import sys
import threading
import time

behaviour = sys.argv[1]
options = dict(argument.split("=", 1) for argument in sys.argv[2:])
seen = open(options["seen"], "a", buffering=1) if "seen" in options else None
lock = threading.Lock()

ECHO = {"name": "echo", "description": "Says it again.", "inputSchema": {"type": "object"}, "x-ours": {"kept": [1, None]}}


def raw(text):
    with lock:
        sys.stdout.write(text)
        sys.stdout.flush()


def send(message):
    raw(json.dumps({"jsonrpc": "2.0", **message}) + "\n")


def result(request, value):
    send({"id": request["id"], "result": value})


def error(request, code, message, data=None):
    send({"id": request["id"], "error": {"code": code, "message": message, **({"data": data} if data is not None else {})}})


def messages():
    for line in sys.stdin:
        if seen:
            seen.write(line)
        yield json.loads(line)


def discover(request, versions=("2026-07-28",), capabilities=None):
    result(request, {
        "resultType": "complete", "ttlMs": 0, "cacheScope": "private", "supportedVersions": list(versions),
        "capabilities": capabilities or {"tools": {}}, "serverInfo": {"name": "twin", "version": "1"},
        "instructions": "Be kind.",
    })


def initialize(request, version=None):
    result(request, {
        "protocolVersion": version or request["params"]["protocolVersion"], "capabilities": {"tools": {"listChanged": True}},
        "serverInfo": {"name": "twin", "version": "1", "x-more": True}, "instructions": "Be kind.",
    })


def call(request):
    result(request, {"content": [{"type": "text", "text": json.dumps(request["params"]["arguments"])}], "x-extra": 7})


def serve(tools=(ECHO,), on_list=None, on_call=call, on_initialized=None, on_other=None):
    """A server of the session era; what is given replaces a part of it."""
    for request in messages():
        method = request.get("method")
        if method == "initialize":
            initialize(request)
        elif method == "notifications/initialized":
            if on_initialized:
                on_initialized()
        elif method == "ping":
            result(request, {})
        elif method == "tools/list":
            on_list(request) if on_list else result(request, {"tools": list(tools)})
        elif method == "tools/call":
            on_call(request)
        elif on_other and on_other(request):
            pass
        elif "method" in request and "id" in request:
            error(request, -32601, "Method not found")


def honest():
    serve()


def silent():
    for _ in messages():
        pass


def deaf():
    """Starts well and then reads nothing any more."""
    def stop_reading():
        send({"method": "notifications/tools/list_changed"})
        time.sleep(3600)
    serve(on_initialized=stop_reading)


def noisy():
    raw("\n\x1b[32mStarting up…\x1b[0m\n   \n")
    def noisy_call(request):
        raw("calling\n{\"level\": \"info\"}\n42\n\xff\n[\n")
        call(request)
        raw("\r\n")
    serve(on_call=noisy_call)


def long_line():
    def flood(_request):
        while True:
            raw("x" * 65536)
    serve(on_call=flood)


def long_result():
    serve(on_call=lambda request: result(request, {"content": [{"type": "text", "text": "x" * int(options["size"])}]}))


def dies_mid_call():
    def die(_request):
        print("I am dying", file=sys.stderr, flush=True)
        os._exit(3)
    serve(on_call=die)


def dies_after_call():
    def answer_and_die(request):
        call(request)
        os._exit(0)
    serve(on_call=answer_and_die)


def dies_at_once():
    print("cannot find my key", file=sys.stderr, flush=True)
    sys.exit(7)


def cannot_start():
    """What a shell does that finds nothing to start, but not before it has read something."""
    next(iter(messages()))
    sys.exit(127)


def legacy_version():
    for request in messages():
        if request.get("method") == "initialize":
            initialize(request, options["version"])
        elif "id" in request:
            error(request, -32601, "Method not found")


def ignores_unknown():
    """Says nothing to a method it does not know."""
    serve(on_other=lambda request: True)


def dies_on_unknown():
    """Takes a first message that is no greeting for the end of the world."""
    serve(on_other=lambda request: os._exit(1))


def modern():
    for request in messages():
        method = request.get("method")
        if method == "server/discover":
            discover(request)
        elif method == "tools/list":
            result(request, {"resultType": "complete", "ttlMs": 60000, "cacheScope": "private", "tools": [ECHO]})
        elif method == "tools/call":
            call(request)
        elif "id" in request:
            error(request, -32601, "Method not found")


def modern_ignores_unknown():
    """The same, but says nothing to a method it does not know."""
    for request in messages():
        if request.get("method") == "server/discover":
            discover(request)


def modern_subscription():
    """Announces its list on the subscription only, and ends the first subscription."""
    count = 0
    for request in messages():
        method = request.get("method")
        if method == "server/discover":
            discover(request, capabilities={name: {"listChanged": True} for name in ("tools", "prompts", "resources")})
        elif method == "subscriptions/listen":
            count += 1
            beside = {"_meta": {"io.modelcontextprotocol/subscriptionId": request["id"]}}
            send({"method": "notifications/subscriptions/acknowledged", "params": {"notifications": request["params"]["notifications"], **beside}})
            send({"method": "notifications/tools/list_changed", "params": beside})
            if count == 1:
                send({"method": "notifications/cancelled", "params": {"requestId": request["id"]}})
        elif "id" in request:
            error(request, -32601, "Method not found")


def modern_rejects():
    """Knows the new question, and says no with the code it is given."""
    for request in messages():
        if request.get("method") == "server/discover":
            supported = [version for version in options.get("supported", "").split(",") if version]
            error(request, int(options["code"]), "no", {"supported": supported, "requested": "2026-07-28"})
        elif request.get("method") == "initialize":
            initialize(request)
        elif "id" in request:
            error(request, -32601, "Method not found")


def modern_asks():
    """Answers a call with questions."""
    for request in messages():
        method = request.get("method")
        if method == "server/discover":
            discover(request)
        elif method == "tools/call" and request["params"]["name"] == "state" and "requestState" in request["params"]:
            call(request)
        elif method == "tools/call" and request["params"]["name"] == "state":
            result(request, {"resultType": "input_required", "requestState": "opaque"})
        elif method == "tools/call":
            questions = {"a": {"method": "elicitation/create", "params": {"message": "Your password?"}}}
            result(request, {"resultType": "input_required", "inputRequests": questions})
        elif "id" in request:
            error(request, -32601, "Method not found")


def many_tools():
    def page(request):
        start = int((request.get("params") or {}).get("cursor", "0"))
        tools = [{"name": f"t{n}", "inputSchema": {"type": "object"}} for n in range(start, start + 100)]
        result(request, {"tools": tools, "nextCursor": str(start + 100)})
    serve(on_list=page)


def same_cursor():
    serve(on_list=lambda request: result(request, {"tools": [ECHO], "nextCursor": "again"}))


def new_cursors():
    """Empty pages without end."""
    count = iter(range(10**9))
    serve(on_list=lambda request: result(request, {"tools": [], "nextCursor": str(next(count))}))


def odd_tools():
    serve(tools=[
        ECHO, {**ECHO, "description": "another"}, {"name": ""}, {"name": "n" * 1025}, {"name": "n" * 1024}, {"description": "nameless"},
        "text", {"name": 5}, {"name": "big", "description": "d" * 1_000_000}, {"name": "bare"},
        {"name": "refs", "inputSchema": {"$ref": options.get("url", "http://127.0.0.1:1/schema.json")}},
    ])


def no_list():
    serve(on_list=lambda request: result(request, {"tools": {"a": 1}}))


def slow():
    """Answers a call only once it is cancelled, and too late."""
    def on_call(request):
        token = request["params"].get("_meta", {}).get("progressToken")
        if token is not None:
            send({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1, "total": 4, "message": "a quarter"}})
            send({"method": "notifications/progress", "params": {"progressToken": token, "progress": 2}})
        slow.pending = request
    def on_other(request):
        if request.get("method") == "notifications/cancelled":
            call(slow.pending)
            return True
        return False
    serve(on_call=on_call, on_other=on_other)


def asks():
    """Asks its client for everything, and says what came back."""
    answers = []
    def on_call(request):
        asks.request = request
        for number, method in enumerate(("sampling/createMessage", "roots/list", "elicitation/create", "ping", "made/up")):
            send({"id": f"q{number}", "method": method, "params": {"messages": [], "maxTokens": 1, "message": "?"}})
    def on_other(request):
        if "method" in request:
            return False
        answers.append(request)
        if len(answers) == 5:
            result(asks.request, {"content": [{"type": "text", "text": json.dumps(answers)}]})
        return True
    serve(on_call=on_call, on_other=on_other)


def floods():
    """Says more than anybody wants to hear, and answers in between."""
    def flood():
        while True:
            raw('{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"blah"}}\n' * 1000)
    serve(on_initialized=lambda: threading.Thread(target=flood, daemon=True).start())


def whoami():
    """Says what it was started with."""
    def on_call(request):
        result(request, {"content": [], "argv": sys.argv[2:], "environment": dict(os.environ), "folder": os.getcwd()})
    serve(on_call=on_call)


def leaves_children():
    """Starts a process that hides, and says its number."""
    def on_call(request):
        hidden = subprocess.Popen(["setsid", "sleep", "3600"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        result(request, {"content": [], "pid": hidden.pid})
    serve(on_call=on_call)


def stderr_flood():
    for number in range(20000):
        print(f"line {number} " + "y" * 100, file=sys.stderr)
    sys.stderr.write("z" * 1_000_000)
    print("\nthe end", file=sys.stderr, flush=True)
    serve()


def lies():
    """Answers with what is no answer, or to what nobody asked."""
    def on_call(request):
        what = request["params"]["name"]
        send({"id": 999999, "result": {}})
        send({"id": None, "error": {"code": 1, "message": "lost"}})
        if what == "text":
            result(request, "text")
        elif what == "error":
            send({"id": request["id"], "error": "text"})
        elif what == "deep":
            raw('{"jsonrpc":"2.0","result":{"content":' + "[" * 100_000 + "]" * 100_000 + '},"id":%d}\n' % request["id"])
        elif what == "string-id":
            send({"id": str(request["id"]), "result": {"content": []}})
        elif what == "batch":
            raw(json.dumps([{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}, {"jsonrpc": "2.0", "id": request["id"], "result": {"content": []}}]) + "\n")
        else:
            error(request, -32602, "Unknown tool", {"tool": what})
    serve(on_call=on_call)


globals()[behaviour]()
