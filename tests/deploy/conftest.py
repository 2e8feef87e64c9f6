"""The program whose files these are; `scripts/test` says where it was built."""

import os
import subprocess
import urllib.request
from typing import Iterator

import pytest


@pytest.fixture(scope="session")
def binary() -> str:
    return os.environ["KITBAG_TEST_BINARY"]


@pytest.fixture(scope="session")
def numbers(binary: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """What a server that was just started says of itself."""
    data = tmp_path_factory.mktemp("data")
    with (data / "log").open("wb") as log:
        command = [binary, "--data", data, "serve", "--listen", "127.0.0.1:0"]
        process = subprocess.Popen(command, env={}, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        line = process.stdout.readline()
        assert line.startswith("kitbag listening on "), (data / "log").read_text()
        url = line.removeprefix("kitbag listening on ").split("/?token=")[0]
        for path in ("/healthz", "/metrics"):
            text = urllib.request.urlopen(url + path, timeout=30).read().decode()
        yield text
    finally:
        process.terminate()
        assert process.wait(timeout=60) == 0
