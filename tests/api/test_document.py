"""The server keeps what its own document says, whatever is thrown at it.

Requests are generated from `/openapi.json`, so a route that is added is covered the day it is made.
"""

import subprocess
import sys
from pathlib import Path

# Random ids name nothing; these lead past the door. The chat is not given to what would delete it.
CONFIG = """
[parameters]
"path.org" = "local"

[[operations]]
include-path-regex = "/chats/[{{]chat[}}]"
exclude-method = "DELETE"
parameters = {{ "path.chat" = "{chat}" }}
"""

# A schema cannot say that a cursor is one that was handed out, or that a title has one line.
EXCLUDED_CHECK = "positive_data_acceptance"

# The one would end the token that the test itself uses, and everything after that would be an easy 401; the other has no end.
EXCLUDED_OPERATIONS = ("revoke_token", "events")


def test_the_document_is_kept(server, tmp_path: Path) -> None:
    config = tmp_path / "schemathesis.toml"
    config.write_text(CONFIG.format(chat=server.chat))
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(config)),
        *("run", f"{server.url}/openapi.json", "-H", f"Authorization: Bearer {server.token}"),
        *(word for name in EXCLUDED_OPERATIONS for word in ("--exclude-operation-id", name)),
        *("--checks", "all", "--exclude-checks", EXCLUDED_CHECK),
        # Not the stateful phase: it would delete the chat that the others use.
        *("--phases", "coverage,fuzzing", "--max-examples", "60", "--seed", "1", "--continue-on-failure", "--no-color"),
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Authentication failed" not in done.stdout, done.stdout
