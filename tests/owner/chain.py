"""The whole product on one machine, in real processes, before the truth that was simulated.

    traces ─► agent a (4 GPUs) ─► node analyzer ─────────────► service (its watcher next to it)
    traces ─► agent b (4 GPUs) ─► Prometheus (remote write) ──►   │
                     Prometheus scrapes agents, node analyzer and service ◄┘

The recordings' times end about when the tests do, because a database refuses samples of the future and of long ago.
"""

import json
import shutil
import signal
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
import pytest

from epochcast.analyzer.traces.trace import Trace, write_trace
from lab.simulator import SimulatedTrace, simulate

from ..processes import Program, free_port, wait_until

STARTUP_S = 12.0
"""From the making of the traces until all processes run, at most."""

BOUNDARY_S = 0.3
"""Boundaries are found to a sample of 0.1 s, and marked at the end of a step."""

MISSED_S = 2.0
"""Seconds of a recording that nobody samples while its agent is restarted."""

HOLE_S = 47.0
"""The same for an agent that was away for long."""


@dataclass(frozen=True)
class Gpu:
    """A GPU that is replayed, and the truth about it."""

    uuid: str
    node: str
    job: str
    trace: SimulatedTrace

    @property
    def epochs(self) -> list[tuple[float, float]]:
        """True epochs: each lasts until the next one starts, the last one until its own end."""
        starts = self.trace.epoch_starts.tolist()
        return list(zip(starts, [*starts[1:], float(self.trace.epoch_ends[-1])], strict=True))

    @property
    def period_s(self) -> float:
        """Mean seconds from one epoch's start to the next, the first epoch (warm-up) left out."""
        return float(np.diff(self.trace.epoch_starts)[1:].mean())

    def mean(self, column: str, numbers: Sequence[int]) -> float:
        """Mean of a column over these true epochs."""
        starts, ends = np.array(self.epochs)[numbers].T
        inside = ((self.trace.time[:, None] > starts) & (self.trace.time[:, None] <= ends)).any(axis=1)
        return float(np.nanmean(self.trace.metrics[column][inside]))


class Chain:
    """All processes, and what was replayed.

    ``speed``: seconds of recording per second. ``first``: share of the recordings that the agents have before their first
    restart, so that on a busy machine it does not come too late.
    """

    def __init__(self, folder: Path, gpus: list[Gpu], speed: float, first: float = 1.0) -> None:
        self.folder = folder
        self.first = first
        self.missed = {"a": (np.inf, np.inf), "b": (np.inf, np.inf)}  # by node: of the recordings, what no agent had
        self.gpus = gpus
        self.speed = speed
        ports = {name: free_port() for name in ("agent-a", "agent-b", "prometheus", "node", "service")}
        urls = {name: f"http://127.0.0.1:{port}" for name, port in ports.items()}
        self._write_settings(ports, urls)
        epochcast = [sys.executable, "-m", "epochcast.analyzer", "serve"]
        commands: dict[str, list[object]] = {
            "prometheus": [
                *("prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'tsdb'}"),
                *(f"--web.listen-address=127.0.0.1:{ports['prometheus']}", "--web.enable-remote-write-receiver"),
                "--log.level=warn",
            ],
            "agent-a": [sys.executable, "-m", "epochcast.agent", "--config", folder / "agent-a.toml"],
            "agent-b": [sys.executable, "-m", "epochcast.agent", "--config", folder / "agent-b.toml"],
            "node": [*epochcast, "--node", "--config", folder / "node.toml"],
            "service": [*epochcast, "--config", folder / "analyzer.toml"],
        }
        self.programs = {name: Program(command, urls[name], folder / f"{name}.log") for name, command in commands.items()}

    @property
    def prometheus(self) -> Program:
        return self.programs["prometheus"]

    @property
    def service(self) -> Program:
        return self.programs["service"]

    @property
    def node(self) -> Program:
        return self.programs["node"]

    def start(self) -> None:
        for name in ("prometheus", "agent-a", "agent-b", "node"):
            self.programs[name].start()
        self.wait(lambda: all(self.programs[name].answers("/metrics") for name in ("agent-a", "agent-b", "node")))
        # Found only as scraped, a replayed GPU would be read so: by the clock on the wall, which is not its recording's.
        self.wait(lambda: len(self.query('count by (uuid) ({__name__="epochcast_gpu_power_watts",job="pushed"})')) == 4)
        self.service.start()
        self.wait(lambda: self.service.answers("/healthz"))

    def stop(self) -> None:
        for program in reversed(self.programs.values()):
            program.stop(signal.SIGKILL)

    def wait(self, condition: Callable[[], object], seconds: float = 120.0) -> None:
        def logs() -> str:
            written = {name: program.log for name, program in self.programs.items() if program.log.exists()}
            return json.dumps({name: log.read_text()[-1500:] for name, log in written.items()}, indent=1)

        wait_until(condition, seconds, logs)

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Answer of Prometheus to an instant query, now."""
        return self.prometheus.query(expression)

    def wait_until_played(self) -> None:
        """Wait until the replays have ended, and all of them has been analysed."""
        self.wait(lambda: all(self.programs[f"agent-{node}"].json("/healthz")["status"] == "replay finished" for node in "ab"))
        self.wait(lambda: all(self.seen(gpu) >= gpu.trace.time[-1] - 1 for gpu in self.gpus))

    def seen(self, gpu: Gpu) -> float:
        """Time of the newest sample of a GPU that the service has heard of."""
        rows = {row["uuid"]: row for row in self.service.json("/api/v1/gpus")["gpus"]}
        return float(rows[gpu.uuid]["last_sample"] or 0) if gpu.uuid in rows else 0.0

    def epochs(self, gpu: Gpu) -> list[dict[str, Any]]:
        """Epochs of a GPU as the service tells them, with profiles."""
        path = f"/api/v1/gpus/{urllib.parse.quote(gpu.uuid)}/epochs"
        return list(self.service.json(path, limit="1000", profiles="true")["epochs"])

    def jobs(self) -> dict[str, dict[str, Any]]:
        """The jobs that the service tells of, by the job of `make_gpus` that they are."""
        names = {gpu.uuid: gpu.job for gpu in self.gpus}
        told = self.service.json("/api/v1/jobs")["jobs"]
        jobs = {names[job["gpus"][0]]: job for job in told}
        assert len(jobs) == len(told), f"jobs that there are not: {told}"
        return jobs

    def assert_epochs(self, gpu: Gpu) -> None:
        """Every true epoch that was seen whole is told, each once, and none besides."""
        told = np.array([(epoch["start"], epoch["end"]) for epoch in self.epochs(gpu)])
        true = np.array(gpu.epochs)
        # A boundary that nobody sampled can be told no better than from before to after.
        begin, end = self.missed[gpu.node]
        unseen = (true > begin - BOUNDARY_S) & (true < end + BOUNDARY_S)
        nearest = (np.abs(told[:, None, :] - true) / np.where(unseen, MISSED_S, BOUNDARY_S)).max(axis=2)
        wrong = nearest.min(axis=1) >= 1
        assert not wrong.any(), f"{gpu.uuid}: wrong epochs {told[wrong].tolist()}, the true ones are {true.tolist()}"
        which = nearest.argmin(axis=1).tolist()
        seen = self.seen_whole(gpu)
        assert which == seen, f"{gpu.uuid}: of {len(true)} epochs, {len(seen)} seen whole, these are told: {which}"

    def seen_whole(self, gpu: Gpu) -> list[int]:
        """Numbers of the true epochs but those that reach into a long hole."""
        begin, end = self.missed[gpu.node]
        short = not end - begin > MISSED_S
        return [number for number, epoch in enumerate(gpu.epochs) if short or epoch[1] < begin or epoch[0] > end]

    def assert_profiles(self, gpu: Gpu) -> None:
        """Every epoch has a profile, and the mean over them, but the first, is that of the recording."""
        epochs = self.epochs(gpu)
        assert all(epoch["profile"] for epoch in epochs), f"{gpu.uuid}: an epoch has no profile"
        seconds = [epoch["end"] - epoch["start"] for epoch in epochs[1:]]
        for column in ("dram_active", "sm_active", "power", "gpu_utilization", "pcie_rx", "memory_used"):
            means = [epoch["profile"]["metrics"][column]["mean"] for epoch in epochs[1:]]
            assert np.average(means, weights=seconds) == pytest.approx(gpu.mean(column, self.seen_whole(gpu)[1:]), rel=0.01), (
                gpu.uuid,
                column,
            )

    def restart(self, name: str, number: int = signal.SIGTERM, missed_s: float = MISSED_S) -> None:
        """End a part and start it again; an agent goes on so many seconds after what was read of its recording."""
        program = self.programs[name]
        program.stop(number)
        if name.startswith("agent"):
            read_until = self._read_until(name[-1])
            self.missed[name[-1]] = (read_until, read_until + missed_s)
            self._cut(name[-1], read_until + missed_s)
        program.start()
        self.wait(lambda: program.answers("/-/ready" if name == "prometheus" else "/healthz"))

    def kill_watcher(self) -> None:
        """End the service's watcher by SIGKILL; the service starts it again."""
        (watcher,) = (one for one in psutil.Process(self.service.pid).children() if "spawn_main" in " ".join(one.cmdline()))
        watcher.kill()

    def _read_until(self, node: str) -> float:
        """Time of the newest sample that has left a node's agent, which runs no more."""

        def newest() -> float:
            if node == "a":
                return max(report["last_sample"] for report in self.node.json("/api/v1/reports")["reports"])
            series = self.query('{__name__="epochcast_gpu_power_watts",job="pushed"}[2h]')
            return max(float(one["values"][-1][0]) for one in series)

        before = newest()
        time.sleep(1)
        while (now := newest()) > before:
            before = now
            time.sleep(1)
        return now

    def _cut(self, node: str, since: float) -> None:
        """Leave of an agent's recordings what comes after a moment."""
        for gpu in self.gpus:
            if gpu.node == node:
                _write(gpu, self.folder / f"traces-{node}", since)

    def _write_settings(self, ports: dict[str, int], urls: dict[str, str]) -> None:
        folder = self.folder
        end = max(float(gpu.trace.time[-1]) for gpu in self.gpus)
        length = max(float(np.ptp(gpu.trace.time)) for gpu in self.gpus)
        for node in "ab":
            (folder / f"traces-{node}").mkdir()
            for gpu in self.gpus:
                if gpu.node == node:
                    _write(gpu, folder / f"traces-{node}", until=end - (1 - self.first) * length)
            push = f'[push]\nurl = "{urls["prometheus"]}/api/v1/write"\ninterval = 0.5\n'
            push += '[push.labels]\njob = "pushed"\ncluster = "b"\ninstance = "node-b"\n'
            (folder / f"agent-{node}.toml").write_text(
                f'port = {ports[f"agent-{node}"]}\nreplay = "{folder / f"traces-{node}"}"\nspeed = {self.speed}\n'
                + (push if node == "b" else "")
            )
        (folder / "node.toml").write_text(
            f'agent = "{urls["agent-a"]}"\nport = {ports["node"]}\nstate = "{folder / "node.db"}"\ninterval = 0.2\n'
            'node = "node-a"\ninstance = "g4dn.8xlarge"\ncloud = "aws"\nregion = "us-east-1"\n'
        )
        (folder / "analyzer.toml").write_text(
            f'port = {ports["service"]}\nstate = "{folder / "service.db"}"\n'
            f'[[nodes]]\nurl = "{urls["node"]}"\ninterval = 1\n'
            f'[[prometheus]]\nurl = "{urls["prometheus"]}"\ninterval = 1\nlag = 0\nhistory = 3600\n'
            'matcher = {cluster = "b"}\ninstance = "g4dn.8xlarge"\ncloud = "aws"\nregion = "us-east-1"\n'
        )
        targets = {
            "epochcast-agent": [("agent-a", "a"), ("agent-b", "b")],
            "epochcast-node": [("node", "a")],
            "epochcast-analyzer": [("service", "")],
        }
        scrapes = [
            {
                "job_name": job,
                "static_configs": [
                    {"targets": [f"127.0.0.1:{ports[name]}"], "labels": {"cluster": cluster}} for name, cluster in of_job
                ],
            }
            for job, of_job in targets.items()
        ]
        # JSON is YAML.
        (folder / "prometheus.yml").write_text(json.dumps({"global": {"scrape_interval": "1s"}, "scrape_configs": scrapes}))


def _write(gpu: Gpu, folder: Path, since: float = -np.inf, until: float = np.inf) -> None:
    kept = (gpu.trace.time > since) & (gpu.trace.time <= until)
    frame = pd.DataFrame({"time": gpu.trace.time[kept], **{name: column[kept] for name, column in gpu.trace.metrics.items()}})
    name = gpu.uuid.removeprefix("replay-")
    write_trace(Trace(frame, gpu.trace.gpu, gpu.uuid, "replay", True), folder / f"{name}.parquet")


def _with_noise(trace: SimulatedTrace, seed: int) -> SimulatedTrace:
    """The same job seen by another GPU: the same marks, its own small noise on what is measured."""
    rng = np.random.default_rng(seed)
    noisy = {name: column * rng.normal(1, 0.005, column.size) for name, column in trace.metrics.items() if name != "energy"}
    ratios = [name for name in noisy if name.endswith(("_active", "_occupancy", "_utilization"))]
    noisy |= {name: noisy[name].clip(0, 1) for name in ratios}
    kept = {name: column for name, column in trace.metrics.items() if name == "energy"}
    return SimulatedTrace(**{**vars(trace), "metrics": noisy | kept})


def make_gpus(end: float) -> list[Gpu]:
    """Eight GPUs on two nodes whose recordings end at ``end`` [unix s]: a job of four, one of two, and two of one."""
    plans: dict[str, tuple[str, int, dict[str, Any]]] = {
        "four": ("a", 4, {"epochs": 14, "epoch_s": 25.0, "seed": 1}),
        "two": ("b", 2, {"epochs": 10, "epoch_s": 33.0, "seed": 2}),
        "one": ("b", 1, {"epochs": 18, "epoch_s": 18.0, "seed": 3}),
        "other": ("b", 1, {"epochs": 8, "epoch_s": 41.0, "seed": 4}),
    }
    gpus = []
    for job, (node, count, plan) in plans.items():
        length = float(np.ptp(simulate(**plan).time))
        trace = simulate(**plan, start=round(end - length, 1))
        gpus += [
            Gpu(f"replay-{job}-{number}", node, job, _with_noise(trace, 10 * number + plan["seed"])) for number in range(count)
        ]
    return gpus


@pytest.fixture(scope="module")
def make_chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Chain]]:
    """Start a chain with what `Chain` takes next to its folder and GPUs; it is ended after the module."""
    if shutil.which("prometheus") is None:
        pytest.skip("no prometheus on this machine (Debian: apt install prometheus)")
    chains: list[Chain] = []

    def make(speed: float, first: float = 1.0) -> Chain:
        length = 14 * 25.0 + 24
        chain = Chain(tmp_path_factory.mktemp("chain"), make_gpus(time.time() + STARTUP_S + length / speed), speed, first)
        chains.append(chain)
        chain.start()
        return chain

    yield make
    for chain in chains:
        chain.stop()


@pytest.fixture(scope="module")
def chain(make_chain: Callable[..., Chain]) -> Chain:
    """A chain whose recordings have been played to their end at twenty times life, all of it analysed."""
    chain = make_chain(20.0)
    chain.wait_until_played()
    return chain
