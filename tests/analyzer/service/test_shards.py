"""A service whose watchers are processes of their own, next to simulated nodes: the same as one process finds."""

import json
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.service.config import Settings
from epochcast.analyzer.service.shard_process import serve_shard
from epochcast.analyzer.telemetry.gpu_report import Owner, Report, epoch_json, report_json
from epochcast.analyzer.telemetry.shard import Shard

from ...processes import Program, free_port
from ..jobs.made_reports import report

NODES = [f"127.0.0.{number}" for number in range(2, 10)]


def reports() -> dict[str, list[Report]]:
    """Of each node: a GPU of a job over all nodes, one of a job over two, and one in step with those of all others."""
    found = {}
    for place, node in enumerate(NODES):
        owners = (Owner(7, "python", slurm_job="1"), Owner(8, "python", slurm_job=f"2{place // 2}"), Owner(9, "python"))
        found[node] = [
            report(f"GPU-{place}-{label}", label=str(label), node=node, period=30.0 + label, owners=(owner,))
            for label, owner in enumerate(owners)
        ]
    return found


class Nodes(ThreadingHTTPServer):
    down = False


@pytest.fixture
def port() -> Iterator[int]:
    """Where the nodes listen, each at its own address; the third is out of order when `down` is set."""
    of_nodes = reports()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts, node = urlsplit(self.path), self.headers["Host"].split(":")[0]
            body: dict[str, Any] = {"schema": "epochcast.reports/v1", "reports": [report_json(one) for one in of_nodes[node]]}
            if parts.path == "/api/v1/epochs":
                (uuid,) = parse_qs(parts.query)["gpu"]
                (own,) = (one for one in of_nodes[node] if one.device.uuid == uuid)
                epochs = [epoch_json(replace(epoch, profile=own.profile)) for epoch in own.epochs]
                body = {"schema": "epochcast.epochs/v1", "gpu": uuid, "epochs": epochs}
            self.send_response(503 if node == NODES[2] and Nodes.down else 200)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, *_: object) -> None:
            pass

    server = Nodes(("0.0.0.0", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()
    Nodes.down = False


def found_by(service: Program) -> tuple[Any, Any]:
    """The jobs with their GPUs, and the epochs of each GPU."""
    jobs = service.json("/api/v1/jobs")["jobs"]
    gpus = [gpu["uuid"] for gpu in service.json("/api/v1/gpus")["gpus"]]
    epochs = {uuid: service.json(f"/api/v1/gpus/{uuid}/epochs")["epochs"] for uuid in gpus}
    return {job["id"]: (job["gpus"], job["epochs_seen"]) for job in jobs}, epochs


def settings(folder: Path, port: int, more: str = "") -> Path:
    folder.mkdir()
    nodes = "".join(f'[[nodes]]\nurl = "http://{node}:{port}"\ninterval = 0.5\n' for node in NODES)
    (folder / "analyzer.toml").write_text(f'state = "{folder}/state.db"\n{more}{nodes}')
    return folder / "analyzer.toml"


class Running:
    """Programs of ``epochcast serve`` on free ports, ended after the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.programs: list[Program] = []

    def start(self, name: str, config: Path, *more: str, url: str) -> Program:
        command = [sys.executable, "-m", "epochcast.analyzer", "serve", "--config", config, *more]
        program = Program(command, url, self.folder / f"{name}.log")
        self.programs.append(program)
        program.start()
        return program


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    made = Running(tmp_path)
    yield made
    for program in made.programs:
        program.stop()


def says(service: Program, what: str) -> bool:
    """Whether the service's health has this in its notes."""
    return service.answers("/healthz") and what in str(service.json("/api/v1/health"))


def test_shards_find_what_one_process_finds(running: Running, until: Callable[..., None], tmp_path: Path, port: int) -> None:
    url, *urls = (f"http://127.0.0.1:{free_port()}" for _ in range(3))
    whole = running.start("whole", settings(tmp_path / "whole", port, f"port = {urlsplit(url).port}\n"), url=url)
    jobs = 1 + len(NODES) // 2 + 1
    until(lambda: whole.answers("/healthz") and len(found_by(whole)[0]) == jobs)
    until(lambda: all(found_by(whole)[1].values()))
    expected = found_by(whole)
    assert len(expected[1]) == 3 * len(NODES)
    whole.stop()

    config = settings(tmp_path / "shards", port, f"port = {urlsplit(url).port}\nshards = {urls}\n")
    shards = [running.start(f"shard-{n}", config, "--shard", f"{n}/2", url=own) for n, own in enumerate(urls, 1)]
    service = running.start("service", config, url=url)
    until(lambda: service.answers("/healthz") and found_by(service) == expected)
    of_shards = [{one["device"]["uuid"] for one in shard.json("/api/v1/reports")["reports"]} for shard in shards]
    assert all(of_shards) and not of_shards[0] & of_shards[1]
    assert of_shards[0] | of_shards[1] == expected[1].keys()
    assert {path.name for path in config.parent.glob("*.db")} == {"state.db", "state-1.db", "state-2.db"}

    shards[1].stop(signal.SIGKILL)
    until(lambda: says(service, f"node analyzer {urls[1]} does not answer"))
    shards[1].start()
    until(lambda: says(service, "'status': 'ok'"), 150)  # its source is polled again after a minute at most
    assert found_by(service) == expected

    Nodes.down = True  # it is the shard that reads it, and the service that says so
    until(lambda: says(service, f"{NODES[2]}:{port}/api/v1/reports answers with status 503"))


@pytest.mark.parametrize(("shard", "shards"), [("1/3", 2), ("1/2", 0)])
def test_another_number_of_shards_than_configured_is_refused(shard: str, shards: int, tmp_path: Path) -> None:
    own = Settings(state=tmp_path / "state.db", shards=["http://127.0.0.1:1"] * shards)
    with pytest.raises(InputError, match=f"--shard is {shard}, but the setting shards lists {shards}"):
        serve_shard(own, Shard.parse(shard))
