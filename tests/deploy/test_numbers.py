"""The dashboard and the alerts ask for numbers that the program really gives, with labels that it really has."""

import json
import re
from typing import Dict, List, Set

import pytest
import yaml

from conftest import DEPLOY

# Words of PromQL that stand where a metric could.
WORDS = {
    "abs", "and", "avg", "bool", "by", "ceil", "changes", "clamp_min", "count", "delta", "deriv", "floor", "group_left", "histogram_quantile",
    "ignoring", "increase", "inf", "irate", "label_values", "le", "max", "min", "nan", "offset", "on", "or", "quantile", "rate", "round", "sum",
    "time", "topk", "unless", "vector", "without",
}  # fmt: skip

# What Prometheus itself adds to each scrape.
PROMETHEUS = {"up"}
TARGET = {"instance", "job", "le"}


def expressions() -> Dict[str, str]:
    found = {}
    dashboard = json.loads((DEPLOY / "grafana" / "kitbag.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            found[f"panel {panel['title']} {target['refId']}"] = target["expr"]
    for one in dashboard["annotations"]["list"]:
        found[f"annotation {one['name']}"] = one["expr"]
    for one in dashboard["templating"]["list"]:
        if one["type"] == "query":
            found[f"variable {one['name']}"] = one["query"]["query"]
    for group in yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text())["groups"]:
        for rule in group["rules"]:
            found[f"alert {rule['alert']}"] = rule["expr"]
    return found


def metrics(expression: str) -> Set[str]:
    text = re.sub(r'"[^"]*"', "", expression)
    # Labels are names, too: of selectors, of groups, and of label_values.
    text = re.sub(r"\{[^}]*\}", "", text)
    text = re.sub(r"\b(?:by|without|ignoring|on)\s*\([^)]*\)", "", text)
    text = re.sub(r"(label_values\([^,]*),[^)]*", r"\1", text)
    text = re.sub(r"\[[^\]]*\]", "", text)
    return set(re.findall(r"(?<![\w$.])[a-zA-Z_][a-zA-Z0-9_]*", text)) - WORDS


def exported(numbers: str) -> Dict[str, List[Dict[str, str]]]:
    found: Dict[str, List[Dict[str, str]]] = {}
    for line in numbers.splitlines():
        sample = re.match(r"([a-z_]+)(?:\{(.*)\})? ", line)
        if sample and not line.startswith("#"):
            labels = dict(re.findall(r'([a-z_]+)="((?:[^"\\]|\\.)*)"', sample.group(2) or ""))
            found.setdefault(sample.group(1), []).append(labels)
    return found


@pytest.mark.parametrize("name", expressions())
def test_what_is_asked_for_is_there(name: str, numbers: str):
    there, expression = exported(numbers), expressions()[name]
    wanted = metrics(expression)
    assert wanted, "nothing is asked for"
    missing = wanted - set(there) - PROMETHEUS
    assert not missing, f"{missing} is not among {sorted(there)}"
    labels = {label for metric in wanted & set(there) for sample in there[metric] for label in sample} | TARGET
    used = set(re.findall(r'([a-z_]+)\s*(?:=~|!~|!=|=)\s*"', expression))
    for group in re.findall(r"\b(?:by|without|ignoring|on)\s*\(([^)]*)\)", expression):
        used |= {label.strip() for label in group.split(",")}
    assert used <= labels, f"no sample of {wanted} has {used - labels}"
    # A value that a label never has selects nothing, for ever.
    for metric, selector in re.findall(r"([a-z_]+)\{([^}]*)\}", expression):
        for label, operator, value in re.findall(r'([a-z_]+)\s*(=~|=)\s*"([^"]*)"', selector):
            if label in ("state", "code", "provider", "outcome", "listener", "reason") and not value.startswith("$"):
                values = {sample.get(label) for sample in there[metric]}
                for one in value.split("|") if operator == "=~" else [value]:
                    assert one in values, f"{metric} never has {label}={one!r}, only {values}"


def test_labels_are_words_of_ours(numbers: str):
    """No sample of a server tells who uses it, and none has a label with values without end."""
    known = {"method", "route", "status", "le", "provider", "code", "state", "maker", "listener", "outcome", "reason", "version", "commit"}
    for metric, samples in exported(numbers).items():
        for sample in samples:
            assert set(sample) <= known, f"{metric}: {sample}"


def test_the_dashboard_can_be_imported():
    dashboard = json.loads((DEPLOY / "grafana" / "kitbag.json").read_text())
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert {"title", "uid", "schemaVersion", "templating", "time"} <= set(dashboard)
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]
    taken = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in panels]
    assert len(set(taken)) == len(taken), "two panels are in one place"


def test_alerts_say_what_to_do():
    rules = [rule for group in yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text())["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert rule["labels"]["severity"] in ("page", "ticket"), rule["alert"]
        assert {"summary", "action"} <= set(rule["annotations"]), rule["alert"]
        assert re.fullmatch(r"\d+[smhd]", rule.get("for", "0s")), rule["alert"]
    scrape = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yaml").read_text())
    assert all((DEPLOY / "prometheus" / name).exists() for name in scrape["rule_files"])
    assert scrape["scrape_configs"][0]["job_name"] == "kitbag", "alerts select the job by its name"
