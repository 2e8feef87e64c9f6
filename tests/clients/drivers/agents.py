"""Drives an agent's command line, headless, with a stand-in for its model, and sees to it that it calls one tool.

Job: `{"agent": "claude-code", "codex" or "opencode", "home", "call": {"name", "arguments"}}`, and the server by `url` and `headers`, or by
`command` and `args`. Without either the agent has what its own files in `home` say; there the server must be called `kitbag`.

Answer: `{"tools": names that the model was offered, "heard": what it read as the tool's result, "said": what the agent ended with}`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from model import Model

Job = dict[str, Any]

PROGRAMS = Path(os.environ["KITBAG_TEST_CLIENTS"], "node_modules/.bin")
PROMPT = "Call the tool."


def claude(job: Job, model: Model, home: Path) -> tuple[list[str], dict[str, str]]:
    environment = {
        "ANTHROPIC_API_KEY": "nobody-asks-for-it",
        "ANTHROPIC_BASE_URL": model.url,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        # Otherwise tools are offered only after a search for them.
        "ENABLE_TOOL_SEARCH": "false",
        # It wants to know that root's machine is not at stake.
        "IS_SANDBOX": "1",
    }
    line = ["claude", "-p", PROMPT, "--model", "claude-sonnet-4-5", "--allowedTools", "mcp__kitbag"]
    if "url" in job:
        server = {"type": "http", "url": job["url"], "headers": job["headers"]}
    elif "command" in job:
        server = {"type": "stdio", "command": job["command"], "args": job["args"]}
    else:
        return line, environment
    file = home / "servers.json"
    file.write_text(json.dumps({"mcpServers": {"kitbag": server}}))
    return [*line, "--strict-mcp-config", "--mcp-config", str(file)], environment


def codex(job: Job, model: Model, home: Path) -> tuple[list[str], dict[str, str]]:
    settings: Job = {
        "model": "a-model",
        "model_provider": "local",
        "approval_policy": "never",
        "sandbox_mode": "danger-full-access",
        "model_providers.local.name": "local",
        "model_providers.local.base_url": f"{model.url}/v1",
        "model_providers.local.env_key": "LOCAL_KEY",
        "model_providers.local.wire_api": "responses",
        "model_providers.local.request_max_retries": 0,
        "model_providers.local.stream_max_retries": 0,
    }
    if "url" in job:
        settings["mcp_servers.kitbag.url"] = job["url"]
        settings |= {f'mcp_servers.kitbag.http_headers."{name}"': value for name, value in job["headers"].items()}
    elif "command" in job:
        settings |= {"mcp_servers.kitbag.command": job["command"], "mcp_servers.kitbag.args": job["args"]}
    # A JSON text, number or list of texts is also a value of TOML.
    flags = [part for key, value in settings.items() for part in ("-c", f"{key}={json.dumps(value)}")]
    (home / ".codex").mkdir(exist_ok=True)
    return ["codex", "exec", "--skip-git-repo-check", *flags, PROMPT], {"LOCAL_KEY": "nobody-asks-for-it"}


def opencode(job: Job, model: Model, home: Path) -> tuple[list[str], dict[str, str]]:
    options = {"baseURL": f"{model.url}/v1", "apiKey": "nobody-asks-for-it"}
    models = {"a-model": {"name": "A model", "tool_call": True, "limit": {"context": 128000, "output": 4096}}}
    settings: Job = {
        "autoupdate": False,
        "share": "disabled",
        "model": "local/a-model",
        "small_model": "local/a-model",
        "provider": {"local": {"npm": "@ai-sdk/openai", "name": "Local", "options": options, "models": models}},
    }
    if "url" in job:
        server = {"type": "remote", "url": job["url"], "headers": job["headers"], "oauth": False}
        settings["mcp"] = {"kitbag": server}
    elif "command" in job:
        settings["mcp"] = {"kitbag": {"type": "local", "command": [job["command"], *job["args"]]}}
    environment = {
        "OPENCODE_CONFIG_CONTENT": json.dumps(settings),
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
    }
    return ["opencode", "run", PROMPT], environment


# What stands before a tool's name when the model sees it.
AGENTS = {"claude-code": (claude, "mcp__kitbag__"), "codex": (codex, "mcp__kitbag__"), "opencode": (opencode, "kitbag_")}


def main() -> None:
    job = json.load(sys.stdin)
    agent, prefix = AGENTS[job["agent"]]
    model = Model(prefix, job["call"]["name"], job["call"]["arguments"])
    home = Path(job["home"])
    (home / "work").mkdir(exist_ok=True)
    line, environment = agent(job, model, home)
    ended = subprocess.run(
        [PROGRAMS / line[0], *line[1:]],
        cwd=home / "work",
        # Nothing of this machine's own settings, keys and proxies.
        env={"HOME": str(home), "PATH": os.environ["PATH"], **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
    )
    seen = {"tools": model.offered, "heard": model.heard[-1] if model.heard else None, "said": ended.stdout}
    if ended.returncode != 0:
        seen["failure"] = f"{line[0]} ended with {ended.returncode}: {ended.stderr[-4000:]}"
    print(json.dumps(seen))


main()
