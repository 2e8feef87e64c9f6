"""The files of deploy/: what the programs that read them say of them, and whether Kitbag knows all that they ask of it."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Dict, Iterator, List, Set

import jsonschema
import kubernetes_validate
import pytest
import yaml
from check_jsonschema import builtin_schemas

from conftest import DEPLOY

KUBERNETES = "1.34"

# What must not be in a unit. Most end the sandbox of tools: they forbid its namespaces, or put mounts below /proc, after which the kernel lets nobody
# mount another one. With RestrictSUIDSGID systemd answers openat2 as if the kernel did not have it, and no workspace can be opened.
FORBIDDEN = {
    "MemoryDenyWriteExecute", "ProcSubset", "ProtectControlGroups", "ProtectHostname", "ProtectKernelLogs", "ProtectKernelTunables",
    "ProtectProc", "RestrictNamespaces", "RestrictSUIDSGID", "SystemCallFilter",
}  # fmt: skip


def documents(path: Path) -> List[Any]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document is not None]


def manifests() -> List[Path]:
    return sorted(path for path in (DEPLOY / "kubernetes").glob("*.yaml") if path.name != "kustomization.yaml")


def pods() -> List[Any]:
    """What every kind of manifest starts in the end."""
    found = []
    for path in manifests():
        for document in documents(path):
            spec = document.get("spec", {})
            spec = spec.get("jobTemplate", {}).get("spec", spec)
            if "template" in spec:
                found.append(spec["template"])
    return found


def settings() -> Dict[str, str]:
    """What all nodes in Kubernetes have."""
    (found,) = documents(DEPLOY / "kubernetes" / "settings.yaml")
    return found["data"]


def size(text: str) -> int:
    number, unit = re.fullmatch(r"(\d+)([KMGT]i)?", text).groups()
    return int(number) << {None: 0, "Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40}[unit]


def every_file() -> Iterator[Path]:
    return (path for path in sorted(DEPLOY.rglob("*")) if path.is_file())


def help_of(binary: str, *command: str) -> str:
    return subprocess.run([binary, *command, "--help"], env={}, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="session")
def helps(binary: str) -> Dict[str, str]:
    commands = ["serve", "admin migrate", "executor start", "executor pair", "doctor"]
    return {command: help_of(binary, *command.split()) for command in commands}


@pytest.fixture(scope="session")
def known(helps: Dict[str, str]) -> Set[str]:
    text = "\n".join(helps.values())
    return set(re.findall(r"--[a-z][a-z-]+", text)) | set(re.findall(r"\[env:\s+([A-Z_]+)", text))


def test_compose_is_what_its_schema_says():
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    schema = json.loads((Path(builtin_schemas.__file__).parent / "vendor" / "compose-spec.json").read_text())
    jsonschema.validate(compose, schema)
    services, volumes = compose["services"], compose["volumes"]
    for name, service in services.items():
        depends = service.get("depends_on", {})
        assert set(depends) <= set(services), f"{name} depends on what is not there"
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (DEPLOY / source).exists() if source.startswith(".") else source in volumes, f"{name}: {volume}"
    nodes = [service for service in services.values() if "serve" in service.get("command", [])]
    assert len(nodes) == 2 and all(node["read_only"] and node["cap_drop"] == ["ALL"] for node in nodes)
    assert len({node["volumes"][0] for node in nodes}) == 2, "two nodes cannot share a data folder"


@pytest.mark.parametrize("path", manifests(), ids=lambda path: path.name)
def test_manifests_are_what_their_schemas_say(path: Path):
    found = documents(path)
    assert found
    for document in found:
        kubernetes_validate.validate(document, KUBERNETES, strict=True)


def test_manifests_fit_together():
    everything = [document for path in manifests() for document in documents(path)]
    listed = yaml.safe_load((DEPLOY / "kubernetes" / "kustomization.yaml").read_text())["resources"]
    assert sorted(listed) == [path.name for path in manifests()]
    by_kind: Dict[str, List[Any]] = {}
    for document in everything:
        by_kind.setdefault(document["kind"], []).append(document)
    names = {(document["kind"], document["metadata"]["name"]) for document in everything}
    for pod in pods():
        spec = pod["spec"]
        assert spec["securityContext"]["runAsNonRoot"] and spec["enableServiceLinks"] is False
        for container in spec["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"] and container["resources"]["requests"]
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            for entry in container.get("env", []):
                key = entry.get("valueFrom", {}).get("secretKeyRef")
                if key:
                    secret = next(it for it in by_kind["Secret"] if it["metadata"]["name"] == key["name"])
                    assert key["key"] in secret["stringData"], key
            for source in container.get("envFrom", []):
                kind, name = ("ConfigMap", "configMapRef") if "configMapRef" in source else ("Secret", "secretRef")
                assert (kind, source[name]["name"]) in names
    # What selects pods selects some: a budget or a rule of the network that is about nobody protects nobody.
    labels = [pod["metadata"]["labels"].items() for pod in pods()]
    selectors = [it["spec"]["selector"] for it in by_kind["Service"]]
    selectors += [it["spec"]["selector"]["matchLabels"] for it in by_kind["PodDisruptionBudget"]]
    selectors += [it["spec"]["podSelector"].get("matchLabels", {}) for it in by_kind["NetworkPolicy"]]
    for selector in selectors:
        assert any(selector.items() <= found for found in labels), selector
    (node,) = by_kind["Deployment"]
    settings = by_kind["ConfigMap"][0]["data"]
    patience = int(settings["KITBAG_DRAIN_DELAY_SECONDS"]) + int(settings["KITBAG_DRAIN_SECONDS"])
    assert node["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] > patience
    for secret in by_kind["Secret"]:
        assert all("REPLACE" in value for value in secret["stringData"].values()), "no real secret is kept here"


def test_pods_with_tools_may_make_their_sandboxes():
    """Each of the three alone is enough to end them, and pods without tools need none."""
    opened = {"seccompProfile": {"type": "Unconfined"}, "appArmorProfile": {"type": "Unconfined"}, "procMount": "Unmasked"}
    seen = set()
    for pod in pods():
        (container,) = pod["spec"]["containers"]
        given = container["securityContext"]
        if container.get("args", [""])[0] == "serve" or container.get("args") == ["executor", "start"]:
            seen.add(container["name"])
            assert {key: given.get(key) for key in opened} == opened, container["name"]
            # The cluster lets nobody see all of /proc whose root is the machine's.
            assert pod["spec"]["hostUsers"] is False
        else:
            assert not set(opened) & set(given), container["name"]
            assert pod["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert seen == {"kitbag", "executor"}


def test_a_node_stays_below_what_its_disk_has():
    """Whoever is above it is evicted, with all calls that run there."""
    (node,) = documents(DEPLOY / "kubernetes" / "deployment.yaml")
    spec = node["spec"]["template"]["spec"]
    disks = {volume["name"]: size(volume["emptyDir"]["sizeLimit"]) for volume in spec["volumes"]}
    copies, workspace = (int(settings()[f"KITBAG_{name}"]) for name in ("BLOB_CACHE_BYTES", "MAX_WORKSPACE_BYTES"))
    assert copies + 2 * workspace <= 0.75 * disks["data"]
    (container,) = spec["containers"]
    assert sum(disks.values()) < size(container["resources"]["limits"]["ephemeral-storage"])


@pytest.mark.parametrize("name", ["kitbag.service", "kitbag-executor.service"])
def test_units_are_what_systemd_says(name: str, tmp_path: Path):
    assert shutil.which("systemd-analyze"), "systemd-analyze is missing. Install it: apt-get install systemd"
    text = (DEPLOY / "systemd" / name).read_text()
    unit = tmp_path / name
    # The program is not installed here, and something has to be.
    unit.write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", text, flags=re.M))
    said = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    assert (said.returncode, said.stderr) == (0, "")
    rated = ["systemd-analyze", "security", "--offline=true", "--threshold=50", unit]
    said = subprocess.run(rated, capture_output=True, text=True)
    assert said.returncode == 0, said.stdout
    for line in ("NoNewPrivileges=yes", "ProtectSystem=strict", "CapabilityBoundingSet="):
        assert f"\n{line}\n" in text
    settings = {line.split("=")[0] for line in text.splitlines() if "=" in line and not line.startswith("#")}
    assert settings & FORBIDDEN == set()


def test_the_balancer_is_what_haproxy_says():
    assert shutil.which("haproxy"), "haproxy is missing. Install it: apt-get install haproxy"
    said = subprocess.run(["haproxy", "-c", "-f", DEPLOY / "haproxy" / "haproxy.cfg"], capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    assert "warning" not in said.stderr.lower(), said.stderr


def test_the_image_is_nobodys_and_takes_what_is_there():
    text = (DEPLOY / "Containerfile").read_text()
    final = text[text.rindex("\nFROM ") :]
    assert re.search(r"^USER 10001:10001$", final, re.M), "the last stage must not run as root"
    assert final.index("USER") < final.index("ENTRYPOINT")
    root = DEPLOY.parent
    for line in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.M):
        assert all((root / source).exists() for source in line.split()), line
    wanted = re.search(r'rust-version = "([\d.]+)"', (root / "Cargo.toml").read_text()).group(1)
    assert f"FROM rust:{wanted}-" in text


@pytest.mark.parametrize("path", [it for it in every_file() if it.suffix == ".sh"], ids=lambda path: path.name)
def test_scripts_can_be_read(path: Path):
    subprocess.run(["sh", "-n", path], check=True)


def asked() -> Set[str]:
    """The flags and variables that the files give Kitbag."""
    found: Set[str] = set()
    for path in every_file():
        found |= set(re.findall(r"\bKITBAG_[A-Z_]+\b", path.read_text()))
    commands = [service.get("command", []) for service in yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"].values()]
    for path in manifests():
        for document in documents(path):
            template = document.get("spec", {}).get("template", {})
            commands += [it.get("args", []) for it in template.get("spec", {}).get("containers", [])]
    for path in (DEPLOY / "systemd").glob("*.service"):
        commands += [line.split() for line in path.read_text().splitlines() if line.startswith("ExecStart=")]
    for command in commands:
        if {"serve", "admin", "executor"} & set(command):
            found |= {word.split("=")[0] for word in command if word.startswith("--")}
    # What is for the build, and what the cluster would make of the service's name.
    return found - {"KITBAG_BUILD_COMMIT", "KITBAG_PORT"}


def test_kitbag_knows_all_that_is_asked_of_it(known: Set[str]):
    wanted = asked()
    assert {"--advertise", "--app-role", "KITBAG_DATABASE", "KITBAG_OWNER_DATABASE"} <= wanted, "the files were not read"
    assert wanted - known == set()
