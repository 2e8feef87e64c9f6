"""A server over pipes that does on request what servers do to those who look after them.

It needs nothing but Python, speaks the revisions with a session, and starts fast. Flags:
  --starts FILE   adds a line to FILE at each start
  --hang          never answers
  --fail TEXT     says TEXT on standard error and ends
  --crash         ends right after it has listed its tools
  --ttl MS        says that its list is current for so long
  --lie           has a list of tools that is none
  --no-ping       says nothing to a ping
  --lists FILE    adds a line to FILE for each list of its tools
  --linger        takes its time to end
  --flood         never stops talking, on all ways that it has
  --methods FILE  adds a line to FILE for each thing that it is asked
  --timid         ends when it is asked something that it does not know
  --extra NAME    has one tool more
  --describe FILE says of its tool echo what FILE says at that moment
  --app           has a tool with a page, for clients that say that they show pages
"""

import json
import os
import subprocess
import sys
import threading
import time

lock = threading.Lock()
tools = ["echo", "pid", "lists", "change", "environment", "say", "refuse", "sleep", "die", "freeze", "spawn", "log", "progress", "ask"]
lists = 0
frozen = False
questions, answers = {}, {}
shows_pages = False
PAGE = "ui://twin/page"


def flag(name):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else None


def send(message):
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def text(value):
    return {"content": [{"type": "text", "text": str(value)}]}


def call(name, args, token):
    global frozen
    if name == "echo":
        return text(args.get("text", ""))
    if name == "pid":
        return text(os.getpid())
    if name == "lists":
        return text(lists)
    if name == "environment":
        return text(json.dumps(dict(os.environ)))
    if name == "change":
        if "add" in args:
            tools.append(args["add"])
        for _ in range(args.get("times", 1)):
            send({"method": "notifications/tools/list_changed"})
        return text("changed")
    if name == "say":
        print(args["text"], file=sys.stderr, flush=True)
        return text("said")
    if name == "log":
        send({"method": "notifications/message", "params": {"level": "warning", "data": args["text"]}})
        return text("logged")
    if name == "refuse":
        raise ValueError(args["text"])
    if name == "sleep":
        time.sleep(args["seconds"])
        return text("slept")
    if name == "die":
        os._exit(7)
    if name == "freeze":
        frozen = True
        return text("frozen")
    if name == "progress":
        report = {"progressToken": token, "progress": 1, "total": 2, "message": args["text"]}
        send({"method": "notifications/progress", "params": report})
        return text("done")
    if name == "ask":
        with lock:
            number = f"q{len(questions)}"
            questions[number] = threading.Event()
        send({"id": number, "method": "elicitation/create", "params": {"message": args["text"], "requestedSchema": {"type": "object"}}})
        questions[number].wait()
        return text(json.dumps(answers[number]))
    if name == "shown":
        return text("shown")
    if name == "spawn":
        child = subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL, start_new_session=True)
        return text(child.pid)
    raise KeyError(name)


def answer(request):
    global lists, shows_pages
    method, params = request["method"], request.get("params") or {}
    if method == "initialize":
        ui = params["capabilities"].get("extensions", {}).get("io.modelcontextprotocol/ui", {})
        shows_pages = "--app" in sys.argv and "text/html;profile=mcp-app" in ui.get("mimeTypes", [])
        more = {"resources": {}} if shows_pages else {}
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {"listChanged": True}, "logging": {}, **more},
            "serverInfo": {"name": "twin", "version": "1"},
        }
    if method == "ping":
        return {}
    if method == "tools/list":
        lists += 1
        if flag("--lists"):
            with open(flag("--lists"), "a", encoding="utf-8") as file:
                file.write("listed\n")
        if "--lie" in sys.argv:
            return {"tools": "all of them"}
        listed = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in tools]}
        if flag("--describe"):
            with open(flag("--describe"), encoding="utf-8") as file:
                listed["tools"][0]["description"] = file.read()
        if shows_pages:
            ui = {"resourceUri": PAGE, "visibility": ["app"]}
            listed["tools"].append({"name": "shown", "inputSchema": {"type": "object"}, "_meta": {"ui": ui}})
        if flag("--ttl"):
            listed["ttlMs"] = int(flag("--ttl"))
        return listed
    if method == "resources/read" and shows_pages and params["uri"] == PAGE:
        csp = {"connectDomains": ["https://example.org"]}
        content = {"uri": PAGE, "mimeType": "text/html;profile=mcp-app", "text": "<p>theirs</p>", "_meta": {"ui": {"csp": csp}}}
        return {"contents": [content]}
    if method == "tools/call":
        return call(params["name"], params.get("arguments") or {}, params.get("_meta", {}).get("progressToken"))
    if "--timid" in sys.argv:
        os._exit(5)
    raise NotImplementedError(method)


def serve(request):
    try:
        reply = {"result": answer(request)}
    except NotImplementedError as error:
        reply = {"error": {"code": -32601, "message": f"unknown method {error}"}}
    except Exception as error:
        reply = {"error": {"code": -32000, "message": str(error), "data": {"said": str(error)}}}
    if not frozen or request["method"] == "tools/call":
        send({"id": request["id"], **reply})
    if "--crash" in sys.argv and request["method"] == "tools/list":
        os._exit(9)


def flood():
    while True:
        send({"method": "notifications/tools/list_changed"})
        send({"method": "notifications/message", "params": {"level": "info", "data": "x" * 1000}})
        send({"method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}})
        print("y" * 1000, file=sys.stderr, flush=True)


if flag("--starts"):
    with open(flag("--starts"), "a", encoding="utf-8") as file:
        file.write(f"{os.getpid()}\n")
if flag("--extra"):
    tools.append(flag("--extra"))
if flag("--fail"):
    print(flag("--fail"), file=sys.stderr, flush=True)
    sys.exit(3)
if "--hang" in sys.argv:
    time.sleep(1000)
if "--flood" in sys.argv:
    threading.Thread(target=flood, daemon=True).start()
for line in sys.stdin:
    message = json.loads(line)
    if message.get("id") in questions and "method" not in message:
        answers[message["id"]] = message.get("result") or message.get("error")
        questions[message["id"]].set()
        continue
    if "id" not in message or "method" not in message:
        continue
    if flag("--methods"):
        with open(flag("--methods"), "a", encoding="utf-8") as file:
            file.write(message["method"] + "\n")
    if message["method"] == "ping" and "--no-ping" in sys.argv:
        continue
    if message["method"] == "tools/call" and message["params"]["name"] in ("sleep", "ask"):
        threading.Thread(target=serve, args=(message,), daemon=True).start()
    else:
        serve(message)
if "--linger" in sys.argv:
    time.sleep(1)
