"""An MCP server that wants tokens, and the authorization server that gives them, on one socket.

It prints its port, and adds a line of JSON to the file that it is given for each request that matters. A person who comes to
/authorize says yes at once. Tokens are good until they are revoked. Whoever revokes one waits while there is a file `busy`
beside the other one.
"""

import base64
import hashlib
import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlencode, urlsplit

codes, good, clients = {}, set(), {"machine": "m4chine-s3cret", "given": "g1ven-s3cret"}
count = 0


def note(what, **more):
    with open(sys.argv[1], "a", encoding="utf-8") as file:
        file.write(json.dumps({"what": what, **more}) + "\n")


def fresh(kind):
    global count
    count += 1
    return f"{kind}-0f8fad5bd9cb-{count}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, body=None, **headers):
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        if body is not None:
            self.send_header("Content-Type", "application/json")
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def do_DELETE(self):
        self.answer(405)

    def do_GET(self):
        url, own = urlsplit(self.path), f"http://{self.headers['Host']}"
        if url.path == "/.well-known/oauth-protected-resource/mcp":
            self.answer(200, {"resource": f"{own}/mcp", "authorization_servers": [own], "scopes_supported": ["read"]})
        elif url.path == "/.well-known/oauth-authorization-server":
            self.answer(200, {
                "issuer": own,
                "authorization_endpoint": f"{own}/authorize",
                "token_endpoint": f"{own}/token",
                "registration_endpoint": f"{own}/register",
                "revocation_endpoint": f"{own}/revoke",
                "response_types_supported": ["code"],
                "grant_types_supported": ["authorization_code", "refresh_token", "client_credentials"],
                "code_challenge_methods_supported": ["S256"],
                "authorization_response_iss_parameter_supported": True,
            })
        elif url.path == "/authorize":
            asked = {name: values[0] for name, values in parse_qs(url.query).items()}
            code = fresh("code")
            codes[code] = asked
            note("authorize", client=asked["client_id"], scope=asked.get("scope"))
            back = urlencode({"code": code, "state": asked["state"], "iss": own})
            self.answer(302, Location=f"{asked['redirect_uri']}?{back}")
        else:
            self.answer(405 if url.path == "/mcp" else 404)

    def do_POST(self):
        body, path = self.body(), urlsplit(self.path).path
        if path == "/mcp":
            return self.mcp(json.loads(body))
        if path == "/register":
            asked, client = json.loads(body), fresh("client")
            clients[client] = None
            note("register", name=asked.get("client_name"))
            return self.answer(201, {**asked, "client_id": client, "token_endpoint_auth_method": "none"})
        form = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        if path == "/revoke":
            note("revoke", kind=form.get("token_type_hint"))
            while os.path.exists(os.path.join(os.path.dirname(sys.argv[1]), "busy")):
                time.sleep(0.02)
            good.discard(form["token"])
            return self.answer(200, {})
        if path == "/token":
            return self.token(form)
        return self.answer(404)

    def client(self, form):
        header = self.headers.get("Authorization", "")
        if header.startswith("Basic "):
            return base64.b64decode(header[6:]).decode().split(":", 1)
        return form.get("client_id"), form.get("client_secret")

    def assertion(self, form):
        # It cannot check a signature, but it can read what was signed.
        parts = form.get("client_assertion", "").split(".")[:2]
        decode = lambda part: json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        return [decode(part) for part in parts] if len(parts) == 2 else ({}, {})

    def token(self, form):
        client, secret = self.client(form)
        head, said = self.assertion(form)
        client = client or said.get("iss")
        note("token", grant=form["grant_type"], client=client, scope=form.get("scope"), algorithm=head.get("alg"))
        signed = client == "signer" and said.get("sub") == client and said.get("aud") == f"http://{self.headers['Host']}"
        if not signed and (client not in clients or clients[client] != secret):
            return self.answer(401, {"error": "invalid_client"})
        if form["grant_type"] == "authorization_code":
            asked = codes.pop(form["code"], None)
            shown = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).rstrip(b"=").decode()
            if asked is None or asked["code_challenge"] != shown or asked["client_id"] != client:
                return self.answer(400, {"error": "invalid_grant"})
        elif form["grant_type"] != "client_credentials":
            return self.answer(400, {"error": "unsupported_grant_type"})
        access, given = fresh("access"), {"token_type": "Bearer", "expires_in": 3600}
        good.add(access)
        given["access_token"] = access
        if form["grant_type"] == "authorization_code":
            given["refresh_token"] = fresh("refresh")
        return self.answer(200, given)

    def mcp(self, message):
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if token not in good:
            own = f"http://{self.headers['Host']}"
            header = f'Bearer resource_metadata="{own}/.well-known/oauth-protected-resource/mcp"'
            return self.answer(401, WWW_Authenticate=header)
        if "id" not in message:
            return self.answer(202)
        method, params = message.get("method"), message.get("params") or {}
        if method == "initialize":
            result = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "behind a door", "version": "1"},
            }
        elif method == "ping":
            result = {}
        elif method == "tools/list":
            result = {"tools": [{"name": "whoami", "inputSchema": {"type": "object"}}]}
        elif method == "tools/call":
            result = {"content": [{"type": "text", "text": f"you are in, {params['name']}"}]}
        else:
            error = {"code": -32601, "message": f"unknown method {method}"}
            return self.answer(200, {"jsonrpc": "2.0", "id": message["id"], "error": error})
        return self.answer(200, {"jsonrpc": "2.0", "id": message["id"], "result": result})


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
