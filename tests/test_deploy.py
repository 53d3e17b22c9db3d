"""What deploy/ holds: valid by the schemas of those who will read it, and in words that our own programs take."""

import copy
import importlib.util
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

from epochcast.agent.cli import main as agent_command
from epochcast.agent.config import Config
from epochcast.analyzer.node.cli import _parser as node_parser
from epochcast.analyzer.node.config import NodeConfig
from epochcast.analyzer.service.config import Settings, load_settings
from epochcast.common.settings_file import load

PORTS = {"agent": Config().port, "node": NodeConfig().port, "http": Settings().port}
LOADERS = {
    "agent.toml": lambda path: load(Config, path, {}),
    "node.toml": lambda path: load(NodeConfig, path, {}),
    "analyzer.toml": load_settings,
}
# The oldest that is still cared for when this was written, and the newest known to the validator.
KUBERNETES = ("1.31", "1.37")


def documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def deploy(root: Path) -> Path:
    return root / "deploy"


@pytest.fixture(scope="module")
def base(deploy: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """The objects of the base as they are written, by kind and name."""
    folder = deploy / "kubernetes" / "base"
    names = yaml.safe_load((folder / "kustomization.yaml").read_text(encoding="utf-8"))["resources"]
    objects = [one for name in names for one in documents(folder / name)]
    return {(one["kind"], one["metadata"]["name"]): one for one in objects}


def pods(base: dict[tuple[str, str], dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for one in base.values():
        if "template" in one.get("spec", {}):
            yield one["spec"]["template"]["spec"]


def container(base: dict[tuple[str, str], dict[str, Any]], name: str) -> dict[str, Any]:
    (found,) = (one for pod in pods(base) for one in pod["containers"] if one["name"] == name)
    return found


# Settings


def test_every_settings_file_is_taken_by_the_program_that_reads_it(deploy: Path) -> None:
    files = sorted(deploy.rglob("*.toml"))
    assert {path.name for path in files} == set(LOADERS)
    for path in files:
        LOADERS[path.name](path)


def test_the_base_listens_for_others_and_asks_them_for_a_token(deploy: Path) -> None:
    settings = deploy / "kubernetes" / "base" / "settings"
    node, service = load(NodeConfig, settings / "node.toml", {}), load_settings(settings / "analyzer.toml")
    assert node.host == service.host == "0.0.0.0"
    assert node.token_file is not None and service.token_file is not None and service.read_only
    (source,) = service.sources
    assert source.every_address and source.token_file == node.token_file


def test_attribution_is_the_base_with_processes(deploy: Path) -> None:
    plain = load(Config, deploy / "kubernetes" / "base" / "settings" / "agent.toml", {})
    looking = load(Config, deploy / "kubernetes" / "attribution" / "agent.toml", {})
    changed = {name for name in vars(plain) if getattr(plain, name) != getattr(looking, name)}
    assert changed == {"processes"}
    assert looking.processes > 0


# Kubernetes


@pytest.mark.parametrize("version", KUBERNETES)
def test_kubernetes_takes_the_objects(base: dict[tuple[str, str], dict[str, Any]], version: str) -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="the extra dev is not installed")
    assert len(base) == 8  # and the two maps of settings, which kustomize makes
    for one in base.values():
        kubernetes_validate.validate(one, version, strict=True)
    broken = copy.deepcopy(base["DaemonSet", "epochcast-agent"])
    broken["spec"]["template"]["spec"]["containers"][0]["readOnly"] = True
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, version, strict=True)


@pytest.mark.parametrize("folder", ["base", "attribution", "prometheus-operator"])
def test_kustomize_puts_them_together(deploy: Path, folder: str) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    built = subprocess.run(
        ["kubectl", "kustomize", deploy / "kubernetes" / folder], capture_output=True, text=True, check=False, timeout=60
    )
    assert built.returncode == 0, built.stderr
    objects = [one for one in yaml.safe_load_all(built.stdout) if one["kind"] != "Namespace"]
    assert {one["metadata"]["namespace"] for one in objects} == {"epochcast"}
    if folder == "prometheus-operator":
        return
    kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="the extra dev is not installed")
    for one in objects:
        kubernetes_validate.validate(one, KUBERNETES[-1], strict=True)
    maps = {one["metadata"]["name"] for one in objects if one["kind"] == "ConfigMap"}
    assert maps == set(re.findall(r"name: (epochcast-\w+-settings-\w+)", built.stdout))
    assert built.stdout.count("hostPID: true") == (folder == "attribution")


def test_containers_are_closed(base: dict[tuple[str, str], dict[str, Any]]) -> None:
    assert len(list(pods(base))) == 2
    for pod in pods(base):
        assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
        for one in pod["containers"]:
            assert one["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert "memory" in one["resources"]["limits"]
            assert "nvidia.com/gpu" not in json.dumps(one["resources"])
            mounted = {mount["name"] for mount in one["volumeMounts"]}
            assert mounted <= {volume["name"] for volume in pod["volumes"]}


def test_ports_are_those_of_the_programs(base: dict[tuple[str, str], dict[str, Any]]) -> None:
    opened = {port["name"]: port["containerPort"] for pod in pods(base) for one in pod["containers"] for port in one["ports"]}
    assert opened == PORTS
    for one in base.values():
        if one["kind"] == "Service":
            assert all(port["port"] == PORTS[port["targetPort"]] for port in one["spec"]["ports"])
    for pod in pods(base):
        for one in pod["containers"]:
            own = {port["name"] for port in one["ports"]}
            assert {one[probe]["httpGet"]["port"] for probe in ("startupProbe", "readinessProbe", "livenessProbe")} == own


def test_the_service_asks_where_the_node_analyzers_answer(base: dict[tuple[str, str], dict[str, Any]], deploy: Path) -> None:
    (source,) = load_settings(deploy / "kubernetes" / "base" / "settings" / "analyzer.toml").nodes
    name, port = re.fullmatch(r"http://([\w-]+):(\d+)", source.url).groups()
    service = base["Service", name]["spec"]
    assert service["clusterIP"] == "None"
    assert int(port) == service["ports"][0]["port"]
    assert service["selector"] == base["DaemonSet", "epochcast-agent"]["spec"]["template"]["metadata"]["labels"]


def test_tokens_are_mounted_where_the_settings_look(base: dict[tuple[str, str], dict[str, Any]], deploy: Path) -> None:
    settings = deploy / "kubernetes" / "base" / "settings"
    wanted = {
        "node-analyzer": load(NodeConfig, settings / "node.toml", {}),
        "analyzer": load_settings(settings / "analyzer.toml"),
    }
    for name, config in wanted.items():
        assert config.token_file is not None
        folders = {Path(mount["mountPath"]) for mount in container(base, name)["volumeMounts"]}
        assert config.token_file.parent in folders
        assert config.state.parent in folders


def test_the_commands_are_taken_by_the_programs(base: dict[tuple[str, str], dict[str, Any]], capsys: Any) -> None:
    node = container(base, "node-analyzer")
    arguments = node_parser().parse_args(node["args"][1:])
    assert node["command"] == ["epochcast"] and node["args"][0] == "serve"
    assert str(arguments.config) == "/etc/epochcast/node.toml" and arguments.name == "$(NODE_NAME)"
    assert container(base, "analyzer")["args"] == ["serve", "--config", "/etc/epochcast/analyzer.toml"]
    # The agent's settings are where its map of settings is mounted; no file is there now, which it says.
    assert agent_command(container(base, "agent")["args"]) == 2
    assert "cannot read the configuration /etc/epochcast/agent.toml" in capsys.readouterr().err


def test_images_bear_the_version_of_the_package(deploy: Path) -> None:
    files = [deploy / "Dockerfile", deploy / "compose" / "compose.yaml", deploy / "kubernetes" / "base" / "kustomization.yaml"]
    tags = [
        tag for path in files for tag in re.findall(r"(?:epochcast-\w+:|newTag: )([\d.]+)", path.read_text(encoding="utf-8"))
    ]
    assert len(tags) == 9
    assert set(tags) == {version("epochcast")}


# Prometheus


def _written_rules(folder: Path) -> Any:
    spec = importlib.util.spec_from_file_location("write_rules", folder / "write_rules.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.prometheus_rule(module.DASHBOARDS)


def test_the_operators_rules_are_those_of_the_dashboards(deploy: Path) -> None:
    folder = deploy / "kubernetes" / "prometheus-operator"
    (rules,) = documents(folder / "rules.yaml")
    assert rules == _written_rules(folder), f"run python {folder / 'write_rules.py'}"
    assert sum(len(group["rules"]) for group in rules["spec"]["groups"]) > 30


def test_the_operators_scrape_jobs_are_those_of_the_rules(deploy: Path, root: Path, base: dict[tuple[str, str], Any]) -> None:
    monitors = documents(deploy / "kubernetes" / "prometheus-operator" / "monitors.yaml")
    jobs = {one["metadata"]["name"]: one["spec"] for one in monitors}
    plain = yaml.safe_load((root / "dashboards" / "prometheus.yml").read_text(encoding="utf-8"))["scrape_configs"]
    assert set(jobs) == {one["job_name"] for one in plain}
    names = {name for _, name in base}
    for job, spec in jobs.items():
        (endpoint,) = spec.get("podMetricsEndpoints") or spec["endpoints"]
        assert endpoint["relabelings"][0] == {"targetLabel": "job", "replacement": job}
        assert endpoint["port"] in PORTS
        assert endpoint["interval"] == plain[0]["scrape_interval"]
        assert spec["selector"]["matchLabels"]["app.kubernetes.io/name"] in names


# Containers


def test_hadolint_finds_nothing(deploy: Path) -> None:
    # Next to the interpreter where it came as a package.
    program = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint")
    if program is None:
        pytest.skip("hadolint is not installed")
    done = subprocess.run([program, deploy / "Dockerfile"], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_builder_is_sent_all_that_it_copies(deploy: Path, root: Path) -> None:
    text = (deploy / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    copied = {
        name for line in re.findall(r"^COPY ((?!--from).+)$", text, flags=re.MULTILINE) for name in shlex.split(line)[:-1]
    }
    sent = set(re.findall(r"^!(.+)$", (root / ".dockerignore").read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert copied == sent
    assert all((root / name).exists() for name in sent)
    exposed = {int(port) for line in re.findall(r"^EXPOSE (.+)$", text, flags=re.MULTILINE) for port in line.split()}
    assert exposed == set(PORTS.values())
    assert text.count("USER 10001:10001") == 1


@pytest.mark.parametrize("name", ["compose.yaml", "gpu.yaml"])
def test_compose_takes_the_file(deploy: Path, name: str) -> None:
    pytest.importorskip("check_jsonschema", reason="the extra dev is not installed")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", deploy / "compose" / name]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_compose_mounts_what_there_is_and_publishes_to_this_machine_alone(deploy: Path) -> None:
    folder = deploy / "compose"
    (compose,) = documents(folder / "compose.yaml")
    targets = set(re.findall(r"^FROM .* AS ([\w-]+)$", (deploy / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    for name, service in compose["services"].items():
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            assert source in compose["volumes"] or (folder / source).exists(), f"{name} mounts {source}"
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
        if "build" in service:
            assert service["build"]["target"] in targets
            assert (folder / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
        with suppress(KeyError):
            assert set(service["depends_on"]) <= set(compose["services"])
    (gpu,) = documents(folder / "gpu.yaml")
    assert set(gpu["services"]) <= set(compose["services"])


def test_composes_prometheus_scrapes_its_services_by_the_same_rules(deploy: Path, root: Path, tmp_path: Path) -> None:
    folder = deploy / "compose"
    (compose,) = documents(folder / "compose.yaml")
    (settings,) = documents(folder / "prometheus.yml")
    (plain,) = documents(root / "dashboards" / "prometheus.yml")
    assert [Path(name).name for name in settings["rule_files"]] == plain["rule_files"]
    assert [one["job_name"] for one in settings["scrape_configs"]] == [one["job_name"] for one in plain["scrape_configs"]]
    hosts, ports = zip(*(one["static_configs"][0]["targets"][0].split(":") for one in settings["scrape_configs"]), strict=True)
    assert set(hosts) <= set(compose["services"])
    assert [int(port) for port in ports] == list(PORTS.values())
    (source,) = documents(folder / "grafana-datasource.yml")
    (shared,) = documents(root / "dashboards" / "provisioning" / "datasources" / "epochcast.yml")
    assert source["datasources"][0].pop("url") == "http://prometheus:9090"
    assert shared["datasources"][0].pop("url")
    assert source == shared
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed")
    shutil.copy(folder / "prometheus.yml", tmp_path)
    (tmp_path / "rules").symlink_to(root / "dashboards")
    checked = subprocess.run(
        ["promtool", "check", "config", tmp_path / "prometheus.yml"], capture_output=True, text=True, check=False, timeout=60
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
