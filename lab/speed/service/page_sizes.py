"""Bytes and CPU of a scrape, of the web pages and of the API's lists for fleets of 64, 512 and 10,000 GPUs whose nodes report.

    python -m lab.speed.service.page_sizes [--gpus 64 512 10000] [--largest 64]

Nodes have eight GPUs and a node analyzer each; jobs have 1, 2, 4, ... up to ``--largest`` GPUs in turn, each job a profile of
its own. The real application answers in this process, without a socket.
"""

import argparse
import itertools
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from starlette.testclient import TestClient

from epochcast.analyzer.jobs.questions import example_profile
from epochcast.analyzer.live.health import SourceStatus, WatcherHealth, WatcherReport
from epochcast.analyzer.live.state_store import GpuChange
from epochcast.analyzer.service.app import create_app
from epochcast.analyzer.service.config import Settings
from epochcast.analyzer.service.parts import Parts
from epochcast.analyzer.service.process import build
from epochcast.analyzer.telemetry.gpu_report import EpochRecord, GpuDevice, Owner, Report
from epochcast.detector import Detection
from epochcast.regressor.profile_json import read_profile

PER_NODE, EPOCHS, VIEWS = 8, 50, 20


def reports(gpus: int, largest: int, now: float) -> Iterator[Report]:
    """Yield what the nodes say of their GPUs: jobs one after another, their epochs of 30 s and more."""
    example = read_profile(example_profile())
    sizes = itertools.cycle(2**power for power in range(largest.bit_length()))
    gpu, job = 0, 0
    while gpu < gpus:
        period, since = 30.0 + 0.1 * job, now - (EPOCHS + 0.5) * (30.0 + 0.1 * job)
        epochs = tuple(EpochRecord(since + n * period, since + (n + 1) * period, 0.97, since) for n in range(EPOCHS))
        profile = replace(example, epoch_s=period, epoch_s_low=0.99 * period, epoch_s_high=1.01 * period)
        for _ in range(min(next(sizes), gpus - gpu)):
            uuid = f"GPU-8f2c1f0a-95d3-4b1e-a4c5-{gpu:012d}"
            device = GpuDevice(uuid, str(gpu % PER_NODE), "Tesla T4", f"node-{gpu // PER_NODE:04d}", "dcgm")
            yield Report(
                device,
                "answered",
                Detection("epochs", period, None, (), 0.97, "track", "wall"),
                since,
                EPOCHS,
                epochs,
                profile=profile,
                owners=(Owner(4000 + gpu, "python", "ada", slurm_job=str(400_000 + job)),),
                last_sample=now,
            )
            gpu += 1
        job += 1


def sources(gpus: int, now: float) -> list[SourceStatus]:
    """Return how the nodes' analyzers are: one in a hundred does not answer."""
    nodes = [f"http://node-{node:04d}:9912" for node in range(-(-gpus // PER_NODE))]
    lost = "node analyzer {} does not answer: connection refused"
    return [
        SourceStatus("node", name, number % 100 != 99, lost.format(name) if number % 100 == 99 else "", 900, 0, now, 0.4, 0.1)
        for number, name in enumerate(nodes)
    ]


def fleet(state: Path, gpus: int, largest: int) -> Parts:
    """Return what a service of so many GPUs answers from, after a round of the analysis."""
    parts = build(Settings(state=state, hosts=["testserver"]))
    now = time.time()
    parts.store.write_gpus([GpuChange(report) for report in reports(gpus, largest, now)], by_node=True)
    polled = sources(gpus, now)
    parts.analysis.watcher = lambda: WatcherReport(WatcherHealth(), polled)
    parts.analysis.round()
    assert not parts.analysis.errors and len(parts.analysis.snapshot.gpus) == gpus
    return parts


def now_reported(parts: Parts) -> None:
    """Make every newest sample one of now: a large fleet would have fallen silent while it was made and analysed."""
    snapshot, now = parts.analysis.snapshot, time.time()
    gpus = {uuid: replace(gpu, last_sample=now) for uuid, gpu in snapshot.gpus.items()}
    parts.analysis._snapshot = replace(snapshot, gpus=gpus)


def measure(parts: Parts, client: TestClient) -> None:
    """Print bytes and CPU of each page, and what a scrape leaves out."""
    job = max(parts.analysis.snapshot.jobs.values(), key=lambda each: len(each.gpus))
    api = (
        "/api/v1/gpus",
        "/api/v1/gpus?limit=1000",
        "/api/v1/jobs",
        "/api/v1/jobs?q=4000",
        "/api/v1/sources",
        "/api/v1/health",
    )
    for path in ("/metrics", "/", "/?q=node-0007", f"/jobs/{job.id}", *api):
        now_reported(parts)
        size, costs = len(client.get(path).raise_for_status().content), []
        for _ in range(VIEWS):
            began = time.process_time()
            client.get(path)
            costs.append(1e3 * (time.process_time() - began))
        low, median, high = np.percentile(costs, (5, 50, 95))
        print(f"{path:45} {size / 1e3:7.1f} kB, CPU {median:6.1f} ms ({low:.1f} to {high:.1f}, 5 to 95 %), n = {VIEWS}")
    lines = client.get("/metrics").text.splitlines()
    print("\n".join(line for line in lines if "_left_out_" in line and not line.startswith("#")))


def main() -> None:
    """Print the figures of each fleet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, nargs="+", default=[64, 512, 10_000])
    parser.add_argument("--largest", type=int, default=64, help="GPUs of the largest jobs, a power of two")
    options = parser.parse_args()
    for gpus in options.gpus:
        with tempfile.TemporaryDirectory() as folder:
            parts = fleet(Path(folder) / "state.db", gpus, options.largest)
            print(f"{gpus} GPUs, {len(parts.analysis.snapshot.jobs)} jobs, {len(parts.analysis.watcher().sources)} sources")
            measure(parts, TestClient(create_app(parts)))
            parts.store.close()


if __name__ == "__main__":
    main()
