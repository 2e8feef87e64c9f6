"""Whoever stops a program gives it the time that it may take, and whoever sends it requests has noticed before it is gone."""

import re
from typing import Dict, Tuple

from reading import DEPLOY, ROOT, compose, everything, nodes, settings


def given(file: str, name: str) -> int:
    """How many seconds the program gives something."""
    text = (ROOT / "crates" / file).read_text()
    found = re.search(rf"^(?:pub(?:\(\w+\))? )?const {name}: Duration = Duration::from_secs\((\d+)\);$", text, re.M)
    assert found, f"{file} has no {name}: look how long a stop takes now, and what stands here and in docs/operations.md"
    return int(found.group(1))


# What a server that stops goes through besides its delay and its drain, in order. Each ends at once where nothing hangs, the database and the
# collector are there, and the programs of others end when they are told to.
SERVER = [
    # MCP servers whose processes another node is to start: their calls, their processes, their leases.
    ("server/src/listen.rs", "HANDING_OVER"),
    ("mcp/src/manager/tend.rs", "LONGEST_CLOSE"),
    ("server/src/nodes/servers.rs", "GIVING_BACK"),
    # Calls that are not over when the drain is: they are ended, and whoever asked is told.
    ("server/src/calls/end.rs", "PATIENCE"),
    ("server/src/listen.rs", "LAST_WORDS"),
    # Those that did not end are told again, then the workers go, and the MCP servers.
    ("server/src/calls/end.rs", "PATIENCE"),
    ("python/src/running.rs", "BURIAL"),
    ("mcp/src/manager/tend.rs", "LONGEST_CLOSE"),
    ("server/src/nodes/servers.rs", "GIVING_BACK"),
    # How calls ended is written down, and spans are sent.
    ("store/src/behind/mod.rs", "LAST_TRIES"),
    ("kitbag/src/commands/serve.rs", "TRACES_PATIENCE"),
]

# The same of an executor, besides the grace that agents have.
EXECUTOR = [
    ("executor/src/daemon/mod.rs", "KILLING"),
    ("executor/src/daemon/mod.rs", "LAST_WORDS"),
    ("executor/src/daemon/mod.rs", "LAST_WORDS"),
    ("executor/src/program/start.rs", "TRACES_PATIENCE"),
]


def unit(name: str) -> Tuple[Dict[str, str], int]:
    """The variables of a unit, and how long systemd waits for it."""
    text = (DEPLOY / "systemd" / name).read_text()
    environment = dict(pair.split("=", 1) for line in re.findall(r"^Environment=(.*)$", text, re.M) for pair in line.split())
    return environment, int(re.search(r"^TimeoutStopSec=(\d+)$", text, re.M).group(1))


def test_servers_have_the_time_that_a_stop_may_take():
    (deployment,) = everything()["Deployment"]
    graces = [
        ("Kubernetes", settings(), deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]),
        ("systemd", *unit("kitbag.service")),
    ]
    graces += [("compose", node["environment"], int(node["stop_grace_period"].removesuffix("s"))) for node in nodes()]
    besides = sum(given(*one) for one in SERVER)
    for where, environment, grace in graces:
        longest = besides + int(environment["KITBAG_DRAIN_SECONDS"]) + int(environment.get("KITBAG_DRAIN_DELAY_SECONDS", 0))
        assert grace > longest, f"{where} kills a server after {grace} s, which may need {longest}"
    told = re.search(r"a stop takes (\d+) seconds at the most besides", (ROOT / "docs" / "operations.md").read_text())
    assert int(told.group(1)) == besides


def test_executors_have_the_time_that_a_stop_may_take():
    default = re.search(r"KITBAG_EXECUTOR_GRACE.*default_value_t = (\d+)", (ROOT / "crates" / "executor" / "src" / "program" / "cli.rs").read_text())
    (executor,) = everything()["StatefulSet"]
    spec = executor["spec"]["template"]["spec"]
    in_compose = compose()["services"]["executor"]
    graces = [
        ("Kubernetes", {entry["name"]: entry.get("value") for entry in spec["containers"][0]["env"]}, spec["terminationGracePeriodSeconds"]),
        ("compose", in_compose["environment"], int(in_compose["stop_grace_period"].removesuffix("s"))),
        ("systemd", *unit("kitbag-executor.service")),
    ]
    for where, environment, grace in graces:
        longest = int(environment.get("KITBAG_EXECUTOR_GRACE", default.group(1))) + sum(given(*one) for one in EXECUTOR)
        assert grace > longest, f"{where} kills an executor after {grace} s, which may need {longest}"


def server_lines(text: str) -> Tuple[int, int]:
    """How often a balancer asks, and how many noes it wants."""
    inter, fall = re.search(r"check inter (\d+)s fall (\d+) rise 1\b", text).groups()
    return int(inter), int(fall)


def test_balancers_have_noticed_before_a_node_stops():
    """Twice what they need, as docs/operating.md says: one question may have been asked a moment before."""
    inter, fall = server_lines((DEPLOY / "haproxy" / "haproxy.cfg").read_text())
    for node in nodes():
        assert int(node["environment"]["KITBAG_DRAIN_DELAY_SECONDS"]) >= 2 * inter * fall
    (deployment,) = everything()["Deployment"]
    probe = deployment["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]
    assert int(settings()["KITBAG_DRAIN_DELAY_SECONDS"]) >= 2 * probe["periodSeconds"] * probe["failureThreshold"]
    guide = (ROOT / "docs" / "operating.md").read_text()
    inter, fall = server_lines(guide)
    assert int(re.search(r"^\$ kitbag serve .*--drain-delay-seconds (\d+)", guide, re.M).group(1)) >= 2 * inter * fall


def choices(text: str) -> Dict[str, str]:
    """What decides who gets a request, and what happens to one that is not taken."""
    found = {}
    for word in ("balance", "option httpchk", "http-check send", "http-check expect", "retries", "option redispatch"):
        said = re.findall(rf"^ *{word}\b *(.*)$", text, re.M)
        assert len(said) == 1, f"{word}: {said}"
        found[word] = said[0]
    found["fall, rise"] = re.search(r"fall \d+ rise \d+", text).group()
    return found


def test_the_balancer_is_the_one_that_was_tested():
    tested = (ROOT / "tests" / "nodes" / "balancer.rs").read_text()
    tested = tested.replace("\\n\\\n", "\n").replace("\\n", "\n")
    assert choices((DEPLOY / "haproxy" / "haproxy.cfg").read_text()) == choices(tested)
    assert choices((ROOT / "docs" / "operating.md").read_text()) == choices(tested)
