"""A server over pipes with prompts, resources, templates, completions and a log, of the revisions with a session.

It needs nothing but Python. Flags:
  --heard FILE    adds a line to FILE for each thing that it hears
  --hang METHOD   never answers that
  --bare          has no tools
  --loose         has a tool that returns a list and says so
  --says TEXT     says that it wants to be used like that
"""

import json
import sys
import threading

lock = threading.Lock()
offered, heard, watched = {}, [], set()
questions, answers = {}, {}
BIG = 123456789012345678901234567890
LINK = {"type": "resource_link", "uri": "thing://one", "name": "one", "size": BIG}
URL = {"mode": "url", "message": "Please look", "url": "https://example.org", "elicitationId": "visit-1"}
FORM = {"message": "Well?", "requestedSchema": {"type": "object", "properties": {}}}
TOOL = {"name": "x", "inputSchema": {"type": "object"}}
MODEL = {"messages": [], "maxTokens": 1, "tools": [TOOL], "_meta": {"progressToken": "at it"}}


def flag(name):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else None


def send(message):
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def later(method, params):
    """Says something when the call is over."""
    timer = threading.Timer(0.2, send, [{"method": method, "params": params}])
    timer.daemon = True
    timer.start()


def ask(method, params):
    with lock:
        number = f"q{len(questions)}"
        questions[number] = threading.Event()
    send({"id": number, "method": method, "params": params})
    questions[number].wait()
    return answers[number]


def text(value):
    return {"content": [{"type": "text", "text": value if isinstance(value, str) else json.dumps(value)}]}


def call(name, args):
    if name == "offered":
        return text(offered)
    if name == "heard":
        return text(heard)
    if name == "link":
        return {"content": [LINK], "structuredContent": {"big": BIG}}
    if name == "numbers":
        return {"content": [{"type": "text", "text": "[1, 2]"}], "structuredContent": [1, 2]}
    if name == "touch":
        if args["uri"] in watched:
            send({"method": "notifications/resources/updated", "params": {"uri": args["uri"]}})
        return text("touched")
    if name == "log":
        later("notifications/message", {"level": args["level"], "data": args["text"]})
        return text("soon")
    if name == "ask":
        ways = {"url": ("elicitation/create", URL), "form": ("elicitation/create", FORM), "tools": ("sampling/createMessage", MODEL), "roots": ("roots/list", {})}
        said = ask(*ways[args["what"]])
        if "code" in said and args.get("strict"):
            raise Refused({"code": -32603, "message": "nobody answers"})
        if args.get("finish"):
            later("notifications/elicitation/complete", {"elicitationId": URL["elicitationId"]})
        return text(said)
    if name == "die":
        sys.exit(1)
    raise KeyError(name)


class Refused(Exception):
    pass


def answer(method, params):
    if method == "initialize":
        offered.update(params["capabilities"])
        subscribes = {"subscribe": True, "listChanged": True}
        capabilities = {"tools": {}, "prompts": {}, "resources": subscribes, "completions": {}, "logging": {}}
        says = {"instructions": flag("--says")} if flag("--says") else {}
        return {"protocolVersion": params["protocolVersion"], "capabilities": capabilities, "serverInfo": {"name": "rich", "version": "1"}, **says}
    if method == "tools/list":
        names = ["offered", "heard", "link", "touch", "log", "ask", "die"]
        schema = {"type": "object", "properties": {"most": {"type": "integer", "maximum": 18446744073709551615}}}
        tools = [{"name": name, "inputSchema": schema} for name in names]
        if "--loose" in sys.argv:
            tools.append({"name": "numbers", "inputSchema": {"type": "object"}, "outputSchema": {"type": "array", "items": {"type": "integer"}}})
        return {"tools": [] if "--bare" in sys.argv else tools}
    if method == "tools/call":
        return call(params["name"], params.get("arguments") or {})
    if method == "prompts/list":
        return {"prompts": [{"name": "say", "x-number": BIG}]}
    if method == "prompts/get":
        resource = {"type": "resource", "resource": {"uri": "thing://one", "text": "1", "x-number": BIG}}
        return {"messages": [{"role": "user", "content": resource}, {"role": "user", "content": text("x")["content"][0]}]}
    if method == "resources/list":
        return {"resources": [{"uri": "thing://one", "name": "one", "size": BIG}]}
    if method == "resources/templates/list":
        return {"resourceTemplates": [{"uriTemplate": "thing://{name}", "name": "thing"}]}
    if method == "resources/read":
        return {"contents": [{"uri": params["uri"], "text": "1", "x-number": BIG}]}
    if method == "resources/subscribe":
        if params["uri"] == "thing://none":
            raise Refused({"code": -32002, "message": "there is no such thing", "data": {"uri": params["uri"]}})
        watched.add(params["uri"])
        return {}
    if method == "resources/unsubscribe":
        watched.discard(params["uri"])
        return {}
    if method == "completion/complete":
        return {"completion": {"values": [f"{params['ref'].get('name') or params['ref'].get('uri')} {params['argument']['value']}"]}}
    if method in ("ping", "logging/setLevel"):
        return {}
    if method == "example/double":
        return {"doubled": 2 * params["number"]}
    if method == "example/refuse":
        raise Refused({"code": -32055, "message": "x" * 9000, "data": {"why": "so"}})
    raise Refused({"code": -32601, "message": f"unknown method {method}"})


def serve(message):
    try:
        reply = {"result": answer(message["method"], message.get("params") or {})}
    except Refused as error:
        reply = {"error": error.args[0]}
    if message["method"] != flag("--hang"):
        send({"id": message["id"], **reply})


for line in sys.stdin:
    message = json.loads(line)
    if "method" not in message:
        answers[message["id"]] = message.get("result") or message.get("error")
        questions[message["id"]].set()
        continue
    note = {"method": message["method"], "params": message.get("params")}
    heard.append(note)
    if flag("--heard"):
        with open(flag("--heard"), "a", encoding="utf-8") as file:
            file.write(json.dumps(note) + "\n")
    if "id" not in message:
        continue
    if message["method"] == "tools/call" and message["params"]["name"] == "ask":
        threading.Thread(target=serve, args=(message,), daemon=True).start()
    else:
        serve(message)
