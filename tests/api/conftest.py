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
        headers = {"Authorization": f"Bearer {token}"}
        made = requests.post(f"{url}/v1/orgs/local/chats", json={}, headers=headers, timeout=30)
        made.raise_for_status()
        yield Server(url, token, made.json()["id"])
    finally:
        process.terminate()
        assert process.wait(timeout=60) == 0
    # A request that fails inside says so in the log; none may.
    assert '"level":"ERROR"' not in (data / "log").read_text()
