"""A server over pipes that keeps a value in its memory, and says what was done to it.

The first argument is a file, to which it adds a line at each start (its process id), for each request that was given up (`cancelled`), and
whatever it is asked to note.
"""

import json
import os
import sys
import threading

lock = threading.Lock()
tools = ["put", "get", "pid", "wait", "add", "note"]
value = None
stops = {}


def note(line):
    with lock, open(sys.argv[1], "a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def send(message):
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def text(said):
    return {"content": [{"type": "text", "text": str(said)}]}


def call(number, name, args, token):
    global value
    if name == "put":
        value = args["value"]
        return text("kept")
    if name == "get":
        return text(value)
    if name == "note":
        note(args["line"])
        return text("noted")
    if name == "pid":
        return text(os.getpid())
    if name == "add":
        tools.append(args["name"])
        send({"method": "notifications/tools/list_changed"})
        return text("added")
    if token is not None:
        report = {"progressToken": token, "progress": 1, "total": 2, "message": "half of it"}
        send({"method": "notifications/progress", "params": report})
    if args.get("mark"):
        open(args["mark"], "w", encoding="utf-8").close()
    if args.get("line"):
        note(args["line"])
    stop = stops[number]
    while "until" in args and not os.path.exists(args["until"]) and not stop.wait(0.02):
        pass
    if "until" in args and not stop.is_set():
        note(f"answers {args['mark']}")
    if stop.wait(args["seconds"]):
        note("cancelled")
    return text("waited")


def answer(request):
    method, params = request["method"], request.get("params") or {}
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "keeps", "version": "1"},
        }
    if method == "ping":
        return {}
    if method == "tools/list":
        return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in tools]}
    if method == "tools/call":
        token = params.get("_meta", {}).get("progressToken")
        return call(request["id"], params["name"], params.get("arguments") or {}, token)
    raise NotImplementedError(method)


def serve(request):
    try:
        reply = {"result": answer(request)}
    except NotImplementedError as error:
        reply = {"error": {"code": -32601, "message": f"unknown method {error}"}}
    send({"id": request["id"], **reply})


note(os.getpid())
print("it keeps", file=sys.stderr, flush=True)
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "notifications/cancelled":
        stops[message["params"]["requestId"]].set()
    elif "id" in message:
        stops[message["id"]] = threading.Event()
        threading.Thread(target=serve, args=(message,), daemon=True).start()
