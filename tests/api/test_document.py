"""The server keeps what its own document says, whatever is thrown at it.

Requests are generated from `/openapi.json`, so a route that is added is covered the day it is made.
"""

import itertools
import subprocess
import sys
from pathlib import Path

# Random ids name nothing; these lead past the door. The chat is not given to what would delete it.
CONFIG = """
[parameters]
"path.org" = "{org}"

[[operations]]
include-path-regex = "/chats/[{{]chat[}}]"
exclude-method = "DELETE"
parameters = {{ "path.chat" = "{chat}" }}
"""

# A schema cannot say that a cursor is one that was handed out, or that a title has one line.
EXCLUDED_CHECK = "positive_data_acceptance"

# The first would end the token that the test itself uses, the second the membership, and everything after that would be an easy
# refusal; the last has no end.
EXCLUDED_OPERATIONS = ("revoke_token", "remove_member", "events")


def run(server, tmp_path: Path, org: str, chat: str, headers: dict[str, str], *more: str) -> str:
    config = tmp_path / "schemathesis.toml"
    config.write_text(CONFIG.format(org=org, chat=chat))
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(config)),
        *("run", f"{server.url}/openapi.json"),
        *(word for name, value in headers.items() for word in ("-H", f"{name}: {value}")),
        *(word for name in EXCLUDED_OPERATIONS for word in ("--exclude-operation-id", name)),
        *("--checks", "all", "--exclude-checks", EXCLUDED_CHECK),
        *("--seed", "1", "--continue-on-failure", "--no-color", *more),
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_document_is_kept(server, tmp_path: Path) -> None:
    # Not the stateful phase: it would delete the chat that the others use.
    phases = ("--phases", "coverage,fuzzing", "--max-examples", "60")
    said = run(server, tmp_path, "local", server.chat, {"Authorization": f"Bearer {server.token}"}, *phases)
    # The token is good everywhere but where executors ask with their own; what is for people alone answers it with 403.
    _, _, refused = said.partition("401 Unauthorized")
    lines = [line.strip() for line in refused.splitlines()[1:]]
    paths = [line.split()[-1] for line in itertools.takewhile(lambda line: line.startswith("- "), lines)]
    assert paths and all(path.startswith("/v1/executors/") for path in paths), said


# Not what is of the person alone: it would sign them out.
OF_AN_ORGANISATION = ("--include-path-regex", "^/v1/orgs/[{]org[}]/", "--phases", "coverage")


def test_a_member_is_answered_as_documented(server, organisation, tmp_path: Path) -> None:
    headers = {"Cookie": organisation.member, "Sec-Fetch-Site": "same-origin"}
    run(server, tmp_path, organisation.name, organisation.chat, headers, *OF_AN_ORGANISATION)


def test_a_stranger_is_answered_as_documented(server, organisation, tmp_path: Path) -> None:
    headers = {"Cookie": organisation.stranger, "Sec-Fetch-Site": "same-origin"}
    run(server, tmp_path, organisation.name, organisation.chat, headers, *OF_AN_ORGANISATION)
