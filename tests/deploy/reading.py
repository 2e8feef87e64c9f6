"""What stands in the files of deploy/, for the tests of them."""

import re
from pathlib import Path
from typing import Any, Dict, Iterator, List

import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"


def documents(path: Path) -> List[Any]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document is not None]


def manifests() -> List[Path]:
    """Those of `kubectl apply -k`, and those of what is done once."""
    return sorted(path for path in KUBERNETES.rglob("*.yaml") if path.name != "kustomization.yaml")


def everything() -> Dict[str, List[Any]]:
    """All that Kubernetes is told of, by kind."""
    found: Dict[str, List[Any]] = {}
    for path in manifests():
        for document in documents(path):
            found.setdefault(document["kind"], []).append(document)
    return found


def pods() -> List[Any]:
    """What every kind of manifest starts in the end."""
    found = []
    for kind in everything().values():
        for document in kind:
            spec = document.get("spec", {})
            spec = spec.get("jobTemplate", {}).get("spec", spec)
            if "template" in spec:
                found.append(spec["template"])
    return found


def settings() -> Dict[str, str]:
    """What all nodes in Kubernetes have."""
    (found,) = documents(KUBERNETES / "settings.yaml")
    return found["data"]


def compose() -> Dict[str, Any]:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def nodes() -> List[Any]:
    """Those of compose.yaml."""
    return [service for service in compose()["services"].values() if "serve" in service.get("command", [])]


def size(text: str) -> int:
    number, unit = re.fullmatch(r"(\d+)([KMGT]i)?", text).groups()
    return int(number) << {None: 0, "Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40}[unit]


def every_file() -> Iterator[Path]:
    return (path for path in sorted(DEPLOY.rglob("*")) if path.is_file())
