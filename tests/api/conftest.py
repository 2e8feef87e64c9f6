"""The real program, serving a fresh data folder; `scripts/test` says where it was built."""

import os
import subprocess
from dataclasses import dataclass

import pytest
import requests


@dataclass(frozen=True)
class Server:
    url: str
    token: str
    chat: str


@dataclass(frozen=True)
class Organisation:
    """One with an owner, a member and a chat, and the owner of another one."""

    name: str
    chat: str
    member: str
    stranger: str


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory):
    data = tmp_path_factory.mktemp("data")
    command = [os.environ["KITBAG_TEST_BINARY"], "--data", data, "serve", "--listen", "127.0.0.1:0"]
    with (data / "log").open("wb") as log:
        process = subprocess.Popen(command, env={}, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        line = process.stdout.readline()
        assert line.startswith("kitbag listening on "), (data / "log").read_text()
        url, token = line.removeprefix("kitbag listening on ").strip().split("/?token=")
        made = post(url, "/v1/orgs/local/chats", {}, Authorization=f"Bearer {token}")
        yield Server(url, token, made.json()["id"])
    finally:
        process.terminate()
        assert process.wait(timeout=60) == 0
    # A request that fails inside says so in the log; none may.
    assert '"level":"ERROR"' not in (data / "log").read_text()


@pytest.fixture(scope="session")
def organisation(server: Server) -> Organisation:
    owner, stranger = (found(server, name) for name in ("acme", "rival"))
    invitation = {"email": "member@acme.example", "role": "member"}
    invited = post(server.url, "/v1/orgs/acme/invitations", invitation, Cookie=owner)
    member = join(server, invited.json()["secret"])
    chat = post(server.url, "/v1/orgs/acme/chats", {}, Cookie=owner)
    return Organisation("acme", chat.json()["id"], member, stranger)


def found(server: Server, org: str) -> str:
    """Makes an organisation. Its owner's cookie."""
    body = {"id": org, "ownerEmail": f"owner@{org}.example"}
    made = post(server.url, "/v1/orgs", body, Authorization=f"Bearer {server.token}")
    return join(server, made.json()["invitation"]["secret"])


def join(server: Server, secret: str) -> str:
    joined = post(server.url, "/v1/invitations/accept", {"secret": secret, "password": "correct horse battery"})
    return joined.headers["Set-Cookie"].split(";")[0]


def post(url: str, path: str, body: dict, **headers: str) -> requests.Response:
    headers = {"Sec-Fetch-Site": "same-origin", **headers}
    answer = requests.post(f"{url}{path}", json=body, headers=headers, timeout=30)
    answer.raise_for_status()
    return answer
