"""Prometheus reads its files, and alerts fire when they must and not before: by its own tool, on made-up numbers."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Dict, List, Set

import pytest
import yaml

from reading import DEPLOY, ROOT, pods

PROMETHEUS = DEPLOY / "prometheus"
BUCKETS = ["0.1", "1", "2.5", "60", "+Inf"]


def promtool(*command: object) -> None:
    assert shutil.which("promtool"), "promtool is missing. Install it: apt-get install prometheus"
    said = subprocess.run(["promtool", *map(str, command)], capture_output=True, text=True)
    assert said.returncode == 0, said.stdout + said.stderr


def test_alerts_are_what_prometheus_says():
    promtool("check", "rules", PROMETHEUS / "alerts.yaml")


@pytest.mark.parametrize("name", ["prometheus.yaml", "kubernetes.yaml"])
def test_configurations_are_what_prometheus_says(name: str, tmp_path: Path):
    config = yaml.safe_load((PROMETHEUS / name).read_text())
    assert config["rule_files"] == ["alerts.yaml"]
    (job,) = config["scrape_configs"]
    assert job["job_name"] == "kitbag", "alerts select the job by its name"
    # Debian's does not know Kubernetes: what it says of the rest is said of addresses.
    (found,) = job.pop("kubernetes_sd_configs", [None])
    if found:
        job["static_configs"] = [{"targets": ["node:8700"]}]
        (selector,) = found.pop("selectors")
        assert found == {"role": "pod", "namespaces": {"names": ["kitbag"]}} and selector["role"] == "pod"
        labels = dict(one.split("=") for one in selector["label"].split(","))
        scraped = [pod for pod in pods() if labels.items() <= pod["metadata"]["labels"].items()]
        assert [container["args"][0] for pod in scraped for container in pod["spec"]["containers"]] == ["serve"]
    (tmp_path / name).write_text(yaml.safe_dump(config))
    # The token is where Prometheus is, and not here.
    promtool("check", "config", "--syntax-only", tmp_path / name)


def took(route: str, least: str) -> Dict[str, str]:
    """Requests of a route, two a second, that all take as long as this bucket has."""
    labels = f'instance="one",method="POST",route="{route}"'
    above = BUCKETS[BUCKETS.index(least) :]
    found = {f'kitbag_http_request_seconds_bucket{{{labels},le="{le}"}}': "0+30x80" if le in above else "0x80" for le in BUCKETS}
    return {**found, f"kitbag_http_request_seconds_count{{{labels}}}": "0+30x80"}


def of_one(name: str, value: object, labels: str = "") -> Dict[str, str]:
    return {f'{name}{{instance="one"{labels}}}': f"{value}x80"}


def queue(taken: int) -> Dict[str, str]:
    return {**of_one("kitbag_calls_queued", taken), **of_one("kitbag_calls_queue_limit", 256)}


def connections(used: int) -> Dict[str, str]:
    return {
        **of_one("kitbag_database_connections", used, ',state="used"'),
        **of_one("kitbag_database_connections", 16 - used, ',state="idle"'),
        **of_one("kitbag_database_connections_limit", 16),
    }


UP = {'up{job="kitbag",instance="one"}': "1x80"}

CASES = {
    "all is well": ({**UP, **queue(20), **connections(3)}, set()),
    "one of two is down": ({**UP, 'up{job="kitbag",instance="two"}': "0x80"}, {"KitbagDown"}),
    "all are down": ({'up{job="kitbag",instance="one"}': "0x80"}, {"KitbagDown", "KitbagAllDown"}),
    "nothing is scraped": ({'up{job="another",instance="one"}': "1x80"}, {"KitbagAllDown"}),
    "one organisation floods": ({**UP, **queue(128), **connections(8)}, {"KitbagQueueTakenByOne", "KitbagConnectionsUsedUp"}),
    "its calls come and go": ({**UP, **queue(0), **{'kitbag_calls_queued{instance="one"}': "128 120 96 127" + " 128 110 126 119" * 20}}, {"KitbagQueueTakenByOne"}),
    "three organisations flood": ({**UP, **queue(192)}, {"KitbagQueueTakenByOne", "KitbagQueueFull"}),
    "there is no room": ({**UP, **of_one("kitbag_calls_refused_total", "0+1", ',reason="busy"')}, {"KitbagCallsRefused"}),
    "quotas are used up": ({**UP, **of_one("kitbag_calls_refused_total", "0+9", ',reason="quota"')}, set()),
    "tools take their time": ({**UP, **took("/v1/orgs/{org}/chats/{chat}/tool-calls", "60"), **took("/v1/orgs/{org}/chats", "0.1")}, set()),
    "so do MCP servers": ({**UP, **took("/v1/orgs/{org}/mcp", "60"), **took("/v1/orgs/{org}/chats", "0.1")}, set()),
    "the server is slow": ({**UP, **took("/v1/orgs/{org}/chats", "2.5")}, {"KitbagSlowRequests"}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_alerts_fire_when_they_must(name: str, tmp_path: Path):
    series, firing = CASES[name]
    assert firing <= set(rules()), "there is no such alert"
    asked = {
        "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
        "eval_time": "20m",
        "exp_samples": [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in sorted(firing)],
    }
    one = {
        "interval": "15s",
        "input_series": [{"series": series, "values": values} for series, values in series.items()],
        "promql_expr_test": [asked],
    }
    file = tmp_path / "case.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(PROMETHEUS / "alerts.yaml")], "evaluation_interval": "15s", "tests": [one]}))
    promtool("test", "rules", file)


def rules() -> Dict[str, str]:
    groups = yaml.safe_load((PROMETHEUS / "alerts.yaml").read_text())["groups"]
    return {rule["alert"]: rule["expr"] for group in groups for rule in group["rules"]}


def routes() -> Set[str]:
    return set(json.loads((ROOT / "docs" / "openapi.json").read_text())["paths"])


def own_time() -> List[str]:
    """The routes that wait for tools, servers, models and files: those that have deadlines of their own."""
    found = []
    for file, function in (("edge/observe.rs", "takes_its_time"), ("transfer/mod.rs", "takes_files")):
        text = (ROOT / "crates" / "server" / "src" / file).read_text()
        body = text[text.index(f"fn {function}(") :]
        found += re.findall(r'"(/[^"]+)"', body[: body.index("\n}\n")])
    prefix = "/v1/orgs/{org}"
    assert prefix in found and "/internal/nodes/" in found, "the functions read otherwise now"
    return [route if route.startswith("/internal") else prefix + route for route in found if route != prefix]


def test_slow_requests_are_not_those_of_tools():
    (left_out,) = set(re.findall(r'route!~"([^"]+)"', rules()["KitbagSlowRequests"]))
    for route in own_time():
        # The builder's are all that begin like that.
        assert re.fullmatch(left_out, route) or re.fullmatch(left_out, f"{route}/{{id}}"), f"{route} takes its time, and would make the alert fire"
    judged = {route for route in routes() if not re.fullmatch(left_out, route)}
    assert {"/v1/orgs/{org}/chats", "/v1/orgs/{org}/tools", "/v1/orgs/{org}/toolsets"} <= judged and len(judged) > len(routes()) / 2
