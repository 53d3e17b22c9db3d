"""What a fleet of node analyzers costs the service: CPU of watching and of each round, memory, bytes of state per epoch.

    OMP_NUM_THREADS=1 python -m lab.speed.service.nodes_at_scale [--nodes 1250] [--minutes 60]

Simulated nodes of eight GPUs, in a process of their own, answer with the node analyzer's own code, each at an address of its
own (127.1.0.0 upwards). Their jobs: Slurm jobs of 1 to 64 GPUs for half an hour to eight hours, pauses between them; three in
four have epochs of half a minute to an hour, the others steps, with a profile renewed each minute. The real watcher polls all
nodes every five seconds of their time, but as fast as it can; a process of its own runs a round of the analysis every 30 s of
that time. The first round after a start, which reads and answers everything, is counted apart.
"""

import argparse
import asyncio
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any
from wsgiref.util import setup_testing_defaults

import numpy as np
import psutil

from epochcast.analyzer.jobs.questions import example_profile
from epochcast.analyzer.live.health import WatcherHealth, WatcherReport
from epochcast.analyzer.live.state_store import StateStore
from epochcast.analyzer.live.watcher import Watcher
from epochcast.analyzer.node.process import Api
from epochcast.analyzer.service.config import Settings
from epochcast.analyzer.service.process import build
from epochcast.analyzer.telemetry.gpu_report import MOST_EPOCHS, NOTHING, EpochRecord, GpuDevice, Owner, Report
from epochcast.analyzer.telemetry.settings import NodeSettings, opened
from epochcast.detector import Detection
from epochcast.detector.epochs import Verdict
from epochcast.regressor import load_catalog
from epochcast.regressor.profile_json import read_profile
from lab.speed.processes import free_port, machine

PER_NODE, POLL_S, ROUND_S = 8, 5.0, 30.0
BEGAN, PAST_S = 1_750_000_000.0, 3600.0
EXAMPLE = read_profile(example_profile())


@dataclass(frozen=True)
class Job:
    """A job of the simulation; ``period`` [s] is of an epoch, or None where it shows steps alone."""

    number: int
    since: float
    until: float
    period: float | None


@dataclass
class Gpu:
    """A GPU of the simulation: ``jobs`` one after another, which others may have as well."""

    device: GpuDevice
    jobs: list[Job]
    report: Report | None = None
    _shown: tuple[Job, int, str] | None = None

    def at(self, now: float) -> Report:
        """What its node reports at ``now`` [unix s]; but for its newest sample the same object as long as nothing happens."""
        job = [job for job in self.jobs if job.since <= now][-1]
        end, count = min(now, job.until), self._count(job, now)
        state = "idle" if now > job.until + 15 else "answered" if count >= 5 or job.period is None else "searching"
        renewed = count if job.period else int((end - job.since) // 60)
        report = self.report
        if report is None or self._shown != (job, renewed, state):
            self._shown, self.report = (job, renewed, state), self._made(job, count, renewed, state)
            report = self.report
        return replace(report, last_sample=now, samples=round(10 * (now - BEGAN)))

    def epochs(self, now: float, since: float, limit: int) -> list[EpochRecord]:
        """Its epochs that ended after ``since`` [unix s], with their profiles."""
        found = [epoch for job in self.jobs if job.since <= now for epoch in self._epochs(job, self._count(job, now), limit)]
        return [replace(epoch, profile=EXAMPLE) for epoch in found if epoch.end > since][-limit:]

    def _count(self, job: Job, now: float) -> int:
        return 0 if job.period is None else max(0, int((min(now, job.until) - job.since) // job.period))

    def _epochs(self, job: Job, count: int, most: int) -> list[EpochRecord]:
        since, period = job.since, job.period or 0.0
        return [
            EpochRecord(since + n * period, since + (n + 1) * period, 0.97, since) for n in range(max(0, count - most), count)
        ]

    def _made(self, job: Job, count: int, renewed: int, state: Any) -> Report:
        period: float = job.period or 0.4
        verdict: Verdict = "epochs" if job.period else "steps"
        known = state != "searching"
        epoch_s = period * (1 + 1e-4 * (renewed % 7))
        timed: dict[str, Any] = {"epoch_s": epoch_s, "epoch_s_low": 0.99 * epoch_s, "epoch_s_high": 1.01 * epoch_s}
        unit: Any = {"unit": "epoch" if job.period else "step"}
        profile = replace(EXAMPLE, epochs=renewed, **(unit | timed if known else dict.fromkeys([*unit, *timed])))
        return Report(
            device=self.device,
            state=state,
            detection=Detection(verdict, period, None, (), 0.97, "track", "wall") if known else NOTHING,
            job_since=job.since,
            epochs_seen=sum(self._count(one, min(one.until, job.since)) for one in self.jobs if one is not job) + count,
            epochs=tuple(self._epochs(job, count, MOST_EPOCHS)) if known else (),
            profile=profile,
            owners=(Owner(4000 + job.number, "python", "ada", slurm_job=str(job.number)),) if state != "idle" else (),
        )


def fleet(nodes: int, minutes: float) -> list[list[Gpu]]:
    """The GPUs of each node."""
    rng = np.random.default_rng(0)
    gpus: list[Gpu] = []
    number, end = 0, BEGAN + PAST_S + 60 * minutes
    while len(gpus) < PER_NODE * nodes:
        jobs: list[Job] = []
        moment = BEGAN - float(rng.uniform(0, 1800))
        while moment < end:
            period = float(np.exp(rng.uniform(np.log(30), np.log(3600)))) if rng.random() < 0.75 else None
            number, until = number + 1, moment + float(np.exp(rng.uniform(np.log(1800), np.log(28_800))))
            jobs.append(Job(number, moment, until, period))
            moment = until + float(rng.uniform(60, 600))
        for _ in range(2 ** int(rng.integers(0, 7))):
            node, label = divmod(len(gpus), PER_NODE)
            device = GpuDevice(f"GPU-{node:04d}-{label}", str(label), "Tesla T4", f"node-{node:04d}", "replay", simulated=True)
            gpus.append(Gpu(device, jobs))
    return [gpus[PER_NODE * node : PER_NODE * (node + 1)] for node in range(nodes)]


class Node:
    """A simulated node: what its `Api` asks of watcher and store."""

    def __init__(self, gpus: list[Gpu], clock: Callable[[], float]) -> None:
        self.report = WatcherReport(WatcherHealth())
        self._gpus = {gpu.device.uuid: gpu for gpu in gpus}
        self._clock = clock

    @property
    def reports(self) -> dict[str, Report]:
        """Now."""
        return {uuid: gpu.at(self._clock()) for uuid, gpu in self._gpus.items()}

    def epochs(self, gpu: str, *, since: float | None, limit: int) -> list[EpochRecord]:
        """Those that have ended."""
        return self._gpus[gpu].epochs(self._clock(), -np.inf if since is None else since, limit)


def serve_nodes(port: int, nodes: int, minutes: float, moment: Any, ready: Event) -> None:
    """Answer as all the nodes do, until the process is ended; ``moment.value`` is their time [unix s]."""
    apis: list[Any] = []
    for gpus in fleet(nodes, minutes):
        node = Node(gpus, lambda: float(moment.value))
        apis.append(Api(node, node))  # type: ignore[arg-type]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path, _, query = (await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)[1].decode().partition("?")
        _, _, high, low = map(int, writer.get_extra_info("sockname")[0].split("."))
        environ = {"PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": "GET"}
        setup_testing_defaults(environ)
        head: list[Any] = []
        body = b"".join(apis[256 * high + low](environ, lambda *said: head.extend(said)))
        headers = "".join(f"{name}: {value}\r\n" for name, value in [*head[1], ("Connection", "close")])
        writer.write(f"HTTP/1.1 {head[0]}\r\n{headers}\r\n".encode() + body)
        await writer.drain()
        writer.close()

    async def serve() -> None:
        server = await asyncio.start_server(answer, "0.0.0.0", port, backlog=1024)
        ready.set()
        await server.serve_forever()

    asyncio.run(serve())


def analyse(pipe: Connection, state: Path) -> None:
    """Run a round of the analysis whenever the pipe says so; sends its CPU and wall seconds, jobs, and resident bytes."""
    parts = build(Settings(state=state))
    while pipe.recv():
        cpu, wall = time.process_time(), time.perf_counter()
        parts.analysis.round()
        took = time.process_time() - cpu, time.perf_counter() - wall
        assert not parts.analysis.errors
        pipe.send((*took, len(parts.analysis.snapshot.jobs), psutil.Process().memory_info().rss))


def _state(store: StateStore) -> tuple[int, int]:
    """Bytes of the state, and epochs in it."""
    ((pages, unused, each, epochs),) = store._rows(
        "SELECT page_count, freelist_count, page_size, (SELECT count(*) FROM epoch) "
        "FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
    )
    return (pages - unused) * each, epochs


def main() -> None:
    """Watch for so many minutes of the nodes' time, and print what that cost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1250)
    parser.add_argument("--minutes", type=float, default=60.0)
    options = parser.parse_args()
    context, port = multiprocessing.get_context("spawn"), free_port()
    moment, ready = context.Value("d", BEGAN + PAST_S), context.Event()
    pipe, other = context.Pipe()
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder) / "state.db"
        store = StateStore(state)
        nodes = context.Process(target=serve_nodes, args=(port, options.nodes, options.minutes, moment, ready), daemon=True)
        analysis = context.Process(target=analyse, args=(other, state), daemon=True)
        for process in (nodes, analysis):
            process.start()
        ready.wait()
        settings = [
            NodeSettings(url=f"http://127.1.{n // 256}.{n % 256}:{port}", interval=POLL_S) for n in range(options.nodes)
        ]
        watcher = Watcher(opened(settings), store, catalog=load_catalog(), clock=lambda: float(moment.value))
        print(f"{options.nodes} nodes, {PER_NODE * options.nodes} GPUs, polled every {POLL_S:g} s; {machine()}", flush=True)
        cpus, rounds = [], []
        for step in range(int(60 * options.minutes / POLL_S) + 1):
            began = time.process_time()
            for polled in watcher._polling._polled:
                for report in polled.source.poll():
                    watcher._hear(polled, report)
                moment.value += POLL_S / options.nodes
                watcher._turn()  # the store is written once a second
            cpus.append(time.process_time() - began)
            if step == 0:
                first_size, first_epochs = _state(store)
            if step * POLL_S % ROUND_S == 0:
                pipe.send(True)
                rounds.append(pipe.recv())
        size, epochs = _state(store)
        later = np.array(cpus[1:]) / POLL_S
        per_epoch = (size - first_size) / max(1, epochs - first_epochs)
        cpu, wall = np.array([each[:2] for each in rounds[1:]]).T
        print(f"first poll {cpus[0]:.1f} s of CPU, {first_epochs} epochs; state {first_size / 1e6:.1f} MB")
        print(f"then {later.mean():.1%} of a core, {np.quantile(later, 0.95):.1%} in the busiest twentieth of polls")
        print(f"watcher {psutil.Process().memory_info().rss / 1e6:.0f} MB resident")
        print(f"state {size / 1e6:.1f} MB; {epochs - first_epochs} epochs later, {per_epoch:.0f} B each")
        print(f"{rounds[-1][2]} jobs: first round {rounds[0][0]:.2f} s of CPU, {rounds[0][1]:.2f} s in all")
        print(
            f"later {np.median(cpu):.2f} s of CPU (median, n = {cpu.size}), at most {cpu.max():.2f}, {wall.max():.2f} s in all"
        )
        print(f"analysis {rounds[-1][3] / 1e6:.0f} MB resident")
        nodes.terminate()
        analysis.terminate()


if __name__ == "__main__":
    main()
