"""Both images, built from deploy/Dockerfile and run as deploy/compose/compose.yaml says, between them a real Prometheus.

No image registry is needed: mmdebstrap makes a base like the Dockerfile's, buildah builds on it, crun runs the containers in
namespaces of the test's own. That takes root, Debian's packages and Python's.
"""

import json
import logging
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from ..processes import wait_until

pytestmark = pytest.mark.soak

log = logging.getLogger(__name__)

# The machine's own, so that pip in a build asks the registry as pip does outside.
PIP_SETTINGS = ("/etc/pip.conf", "/etc/ssl/certs")
HOSTS = "/etc/hosts"
USER = "10001:10001"
COMPILER = re.compile(r"(.+-)?(cc|c\+\+|gcc|g\+\+|clang|tcc|as|ld|rustc|go)(-[\d.]+)?")
PIP = re.compile(r"ensurepip|(pip|setuptools|wheel)([\d.]*|-.*\.(whl|dist-info))")
# Prints whom the program runs as, its capabilities, whether it could gain some, and why nothing can be written.
PROBE = """
import re
status = open("/proc/1/status").read()
print(*re.findall(r"(?:Uid|Gid|CapEff|CapBnd|NoNewPrivs):\\s+(\\w+)", status))
for folder in ("/", "/etc", "/opt/epochcast", "/usr/local/bin"):
    try:
        open(f"{folder}/probe", "w")
    except OSError as error:
        print(error.strerror)
"""


def sh(*command: object) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, timeout=1200)
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


@dataclass
class Image:
    """An image's files, and what it says about its containers."""

    root: Path
    config: dict[str, Any]


@dataclass
class Machine:
    """Namespaces of processes, mounts and a network that has nothing but a loopback, where every container's name leads."""

    folder: Path
    init: int
    started: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def inside(self, *command: object) -> list[str]:
        return ["nsenter", "--target", str(self.init), "--all", *map(str, command)]

    def crun(self, *arguments: object) -> list[str]:
        return self.inside("crun", f"--root={self.folder}/crun", "--cgroup-manager=disabled", *arguments)

    def get(self, url: str) -> str:
        """What is answered; the empty text while nothing is."""
        read = f"from urllib.request import urlopen; print(urlopen({url!r}, timeout=10).read().decode())"
        done = subprocess.run(self.inside("/usr/bin/python3", "-c", read), capture_output=True, text=True, check=False)
        return done.stdout

    def start(self, name: str, image: Image, service: dict[str, Any]) -> None:
        """Run a container as compose would; ``volumes`` are of absolute paths."""
        bundle = self.folder / name
        bundle.mkdir()
        sh("crun", "spec", f"--bundle={bundle}")
        spec = json.loads((bundle / "config.json").read_text())
        assert service["cap_drop"] == ["ALL"] and service["security_opt"] == ["no-new-privileges:true"]
        command = service.get("command", [] if "entrypoint" in service else image.config["Cmd"])
        user, group = map(int, image.config["User"].split(":"))
        spec["process"] |= {
            "args": [*service.get("entrypoint", image.config["Entrypoint"]), *command],
            "env": image.config["Env"],
            "user": {"uid": user, "gid": group},
            "capabilities": {},
            "terminal": False,
        }
        spec["root"] = {"path": str(image.root), "readonly": service["read_only"]}
        spec["mounts"] += [{"destination": place, "type": "tmpfs", "source": "tmpfs"} for place in service["tmpfs"]]
        for volume in (*service.get("volumes", ()), f"{HOSTS}:{HOSTS}:ro"):
            source, place, *options = volume.split(":")
            spec["mounts"].append({"destination": place, "source": source, "options": ["bind", *options]})
        spec["linux"]["namespaces"].remove({"type": "network"})
        (bundle / "config.json").write_text(json.dumps(spec))
        with (self.folder / f"{name}.log").open("wb") as out:
            command = self.crun("run", f"--bundle={bundle}", name)
            self.started[name] = subprocess.Popen(command, stdout=out, stderr=out)

    def is_healthy(self, name: str, check: list[str]) -> bool:
        assert self.started[name].poll() is None, (self.folder / f"{name}.log").read_text()[-2000:]
        command = self.crun("exec", f"--user={USER}", name, *check[1:])
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def stop(self, name: str) -> int:
        sh(*self.crun("kill", name, "TERM"))
        return self.started.pop(name).wait(timeout=30)


@contextmanager
def machine(folder: Path, *names: str) -> Iterator[Machine]:
    folder.mkdir()
    (folder / "hosts").write_text(f"127.0.0.1 localhost {' '.join(names)}\n")
    # Control groups of version 2 alone: crun refuses a mixture.
    made = (
        f"ip link set lo up && mount --bind {folder}/hosts {HOSTS} && mount -t cgroup2 cgroup2 /sys/fs/cgroup "
        "&& echo up && exec sleep infinity"
    )
    spaces = ("--net", "--mount", "--pid", "--mount-proc", "--fork", "--kill-child")
    with subprocess.Popen(["unshare", *spaces, "sh", "-c", made], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            if process.stdout.readline() != "up\n":
                pytest.skip("no namespaces can be made here")
            yield Machine(folder, int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()))
        finally:
            process.kill()


@pytest.fixture(scope="module")
def images(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Image]]:
    """Build the images as the Dockerfile's first lines say; their sizes are logged."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a base and namespaces")
    for program in ("buildah", "crun", "mmdebstrap"):
        if shutil.which(program) is None:
            pytest.skip(f"no {program} on this machine (Debian: apt install {program})")
    folder = tmp_path_factory.mktemp("images")
    buildah = ("buildah", f"--root={folder}/store", f"--runroot={folder}/run")
    settings = [f"--volume={path}:{path}:ro" for path in PIP_SETTINGS if Path(path).exists()]
    dockerfile = root / "deploy" / "Dockerfile"
    (suite,) = re.findall(r"^ARG PYTHON=.*-slim-(\w+)$", dockerfile.read_text(encoding="utf-8"), flags=re.MULTILINE)
    try:
        _make_base(folder / "base.tar", suite)
        container = sh(*buildah, "from", "scratch").strip()
        sh(*buildah, "add", container, folder / "base.tar", "/")
        sh(*buildah, "commit", container, "localhost/python")
        made = {}
        for name in ("agent", "analyzer"):
            tag = f"localhost/epochcast-{name}"
            base = ("--isolation=chroot", "--format=docker", "--build-arg=PYTHON=localhost/python")
            sh(*buildah, "build", *base, *settings, f"--file={dockerfile}", f"--target={name}", f"--tag={tag}", root)
            config = json.loads(sh(*buildah, "inspect", "--type=image", tag))["Docker"]["config"]
            mounted = sh(*buildah, "mount", sh(*buildah, "from", tag).strip()).strip()
            made[name] = Image(Path(mounted), config)
        for one in json.loads(sh(*buildah, "images", "--json")):
            log.info("%s: %s", ", ".join(one["names"] or ["a layer"]), one["size"])
        yield made
    finally:
        sh(*buildah, "rm", "--all")
        sh(*buildah, "rmi", "--all", "--force")
        shutil.rmtree(folder)


def _make_base(tar: Path, suite: str) -> None:
    """Debian with Python in /usr/local and pip next to it, and once more in ensurepip, as the official images have it."""
    left_out = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "locale", "man")]
    hooks = (
        'chroot "$1" python3 -m venv /usr/local',
        'mv "$1"/usr/share/python-wheels/* "$1"/usr/lib/python3.*/ensurepip',
    )
    packages = "--include=ca-certificates,netbase,python3-venv,tzdata"
    sh("mmdebstrap", "--variant=minbase", packages, *left_out, *(f"--customize-hook={hook}" for hook in hooks), suite, tar)


@pytest.fixture(scope="module")
def compose(images: dict[str, Image], root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """The services of compose.yaml that are ours, each started when those before it are healthy, and Prometheus."""
    folder = tmp_path_factory.mktemp("compose")
    settings = root / "deploy" / "compose"
    services = yaml.safe_load((settings / "compose.yaml").read_text(encoding="utf-8"))["services"]
    ours = {name: service for name, service in services.items() if service["image"].startswith("epochcast-")}
    with machine(folder / "machine", *ours) as running:
        for name, service in ours.items():
            image = images[re.fullmatch(r"epochcast-(\w+):[\d.]+", service["image"])[1]]  # type: ignore[index]
            service["volumes"] = [_volume(volume, settings, folder, image) for volume in service["volumes"]]
            running.start(name, image, service)
            check = service.get("healthcheck", {})
            if check.get("disable"):
                assert running.started.pop(name).wait(timeout=120) == 0, (folder / f"machine/{name}.log").read_text()
            else:
                test = check.get("test", image.config["Healthcheck"]["Test"])
                wait_until(lambda name=name, test=test: running.is_healthy(name, test))  # type: ignore[misc]
        shutil.copy(settings / "prometheus.yml", folder)
        (folder / "rules").symlink_to(root / "dashboards")
        with (folder / "prometheus.log").open("wb") as out:
            options = (f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb")
            subprocess.Popen(running.inside("prometheus", *options), stdout=out, stderr=out)
        yield running


def _volume(volume: str, settings: Path, folder: Path, image: Image) -> str:
    """A volume as a bind mount; one by name takes the owner of the image's folder, as docker does."""
    source, place, *options = volume.split(":")
    if source.startswith("."):
        return ":".join([str(settings / source), place, *options])
    made = folder / source
    if not made.exists():
        made.mkdir()
        owner = (image.root / place.lstrip("/")).stat()
        os.chown(made, owner.st_uid, owner.st_gid)
    return ":".join([str(made), place, *options])


@pytest.mark.parametrize("name", ["agent", "analyzer"])
def test_an_image_holds_neither_pip_nor_a_compiler_nor_what_runs_as_root(images: dict[str, Image], name: str) -> None:
    image = images[name]
    files = [Path(folder, one) for folder, folders, files in os.walk(image.root) for one in (*folders, *files)]
    assert len(files) > 3000
    assert not [str(file) for file in files if PIP.fullmatch(file.name)]
    assert not [str(file) for file in files if COMPILER.fullmatch(file.name) and file.parent.name in ("bin", "sbin")]
    assert not (image.root / "opt/epochcast").stat().st_mode & stat.S_IWOTH
    assert image.config["User"] == USER
    assert {int(port.split("/")[0]) for port in image.config["ExposedPorts"]} <= {9911, 9912, 9913}


@pytest.mark.parametrize("name", ["agent", "node", "analyzer"])
def test_a_container_has_no_rights_and_writes_nowhere(compose: Machine, name: str) -> None:
    first, *errors = sh(*compose.crun("exec", name, "python", "-c", PROBE)).splitlines()
    assert first.split() == [*USER.split(":"), "0" * 16, "0" * 16, "1"]
    assert errors == ["Read-only file system"] * 4


def test_what_is_replayed_becomes_jobs_and_prometheus_scrapes_all(compose: Machine) -> None:
    service, prometheus = "http://analyzer:9913", "http://localhost:9090/api/v1"

    def recommended() -> bool:
        jobs = json.loads(compose.get(f"{service}/api/v1/jobs") or '{"jobs": []}')["jobs"]
        return sorted(len(job["gpus"]) for job in jobs if job["cheapest"]) == [1, 2]

    wait_until(recommended, 400)
    assert json.loads(compose.get(f"{service}/api/v1/health"))["status"] == "ok"
    targets = json.loads(compose.get(f"{prometheus}/targets"))["data"]["activeTargets"]
    assert {one["labels"]["job"]: (one["health"], one["lastError"]) for one in targets} == {
        f"epochcast-{name}": ("up", "") for name in ("agent", "node", "analyzer")
    }
    groups = json.loads(compose.get(f"{prometheus}/rules"))["data"]["groups"]
    states = [(rule["health"], rule.get("lastError")) for group in groups for rule in group["rules"]]
    assert len(states) > 30 and set(states) == {("ok", None)}
    for url in ("http://agent:9911", "http://node:9912", service):
        assert "epochcast_" in compose.get(f"{url}/metrics")


def test_a_stop_ends_each_with_success(compose: Machine) -> None:
    assert {name: compose.stop(name) for name in list(compose.started)} == dict.fromkeys(("agent", "node", "analyzer"), 0)


def test_the_agents_image_reads_the_driver_that_nvidias_runtime_brings(
    images: dict[str, Image], nvml_library: Path, tmp_path: Path
) -> None:
    closed = {"read_only": True, "cap_drop": ["ALL"], "security_opt": ["no-new-privileges:true"], "tmpfs": ["/tmp"]}
    with machine(tmp_path / "machine", "agent") as running:
        running.start("agent", images["agent"], closed | {"volumes": [f"{nvml_library}:/usr/lib/{nvml_library.name}:ro"]})
        wait_until(lambda: running.is_healthy("agent", images["agent"].config["Healthcheck"]["Test"]))
        wait_until(lambda: '"ready"' in running.get("http://agent:9911/readyz"))
        metrics = running.get("http://agent:9911/metrics")
        assert len(set(re.findall(r'^epochcast_gpu_\w+\{.*uuid="([^"]+)"', metrics, flags=re.MULTILINE))) == 2
