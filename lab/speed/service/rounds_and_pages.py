"""CPU of a round of the analysis and of a view of each page: 64 GPUs in jobs of four, each with 500 epochs.

    python -m lab.speed.service.rounds_and_pages [--gpus 64] [--rounds 10]

Each later round finds one more epoch, with its profile, in every eighth job: as many as end an epoch of 30 s between two rounds
4 s apart. The pages are answered by the real application in this process, without a socket; an open
page asks for itself every 5 s.
"""

import argparse
import resource
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from starlette.testclient import TestClient

from epochcast.analyzer.jobs.questions import example_profile
from epochcast.analyzer.live.state_store import GpuChange
from epochcast.analyzer.service import job_answers
from epochcast.analyzer.service.app import create_app
from epochcast.analyzer.service.config import Settings
from epochcast.analyzer.service.process import build
from epochcast.analyzer.telemetry.gpu_report import MOST_EPOCHS, EpochRecord, GpuDevice, Report
from epochcast.detector import Detection
from epochcast.regressor import Profile
from epochcast.regressor.profile_json import read_profile

PER_JOB, EPOCHS, VIEWS = 4, 500, 50
BEGAN = 1_700_000_000.0


def report(gpu: int, number: int, profile: Profile) -> Report:
    """What is known of a GPU in round ``number``; GPUs of a job end their epochs together."""
    job = gpu // PER_JOB
    period, since = 30.0 + job, BEGAN + 1000.0 * job
    renewed = (number + 7 - job % 8) // 8  # each job's turn comes with every eighth round
    count = EPOCHS + renewed
    epochs = tuple(EpochRecord(since + n * period, since + (n + 1) * period, 0.97, since) for n in range(count))
    profile = replace(profile, epoch_s=period * (1 + 1e-4 * renewed), epoch_s_low=0.99 * period, epoch_s_high=1.01 * period)
    device = GpuDevice(f"GPU-{gpu:03d}", str(gpu % 8), "Tesla T4", f"node-{gpu // 8}", "replay", simulated=True)
    found = Detection("epochs", period, None, (), 0.97, "track", "wall")
    return Report(device, "answered", found, since, count, epochs, profile=profile, last_sample=time.time())


def main() -> None:
    """Print the CPU of the first round, of the later ones, and of the pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    job_answers._RENEW_S = 0.0  # rounds follow each other at once here
    example = read_profile(example_profile())
    with tempfile.TemporaryDirectory() as folder:
        parts = build(Settings(state=Path(folder) / "state.db", hosts=["testserver"]))
        took = []
        for number in range(options.rounds + 1):
            reports = [report(gpu, number, example) for gpu in range(options.gpus)]
            changes = []
            for one in reports:
                new = one.epochs if number == 0 else one.epochs[-1:]
                told = replace(one, epochs=one.epochs[-MOST_EPOCHS:])
                changes.append(GpuChange(told, [replace(epoch, profile=one.profile) for epoch in new]))
            parts.store.write_gpus(changes)
            began = time.process_time()
            parts.analysis.round()
            took.append(time.process_time() - began)
        jobs = parts.analysis.snapshot.jobs
        assert not parts.analysis.errors and len(jobs) == -(-options.gpus // PER_JOB), (parts.analysis.errors, len(jobs))
        later = np.array(took[1:])
        print(f"{options.gpus} GPUs, {len(jobs)} jobs: first round {took[0]:.2f} s of CPU")
        print(f"later rounds: median {np.median(later):.3f} s, {later.min():.3f} to {later.max():.3f} s (n={later.size})")
        print(f"memory (maximum resident): {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")
        client = TestClient(create_app(parts))
        for path in ("/", f"/jobs/{next(iter(jobs))}", "/try"):
            size, costs = len(client.get(path).raise_for_status().content), []
            for _ in range(VIEWS):
                began = time.process_time()
                client.get(path)
                costs.append(1e3 * (time.process_time() - began))
            low, median, high = np.percentile(costs, (5, 50, 95))
            print(f"{path:40} {size / 1e3:6.0f} kB, CPU {median:5.1f} ms ({low:.1f} to {high:.1f}, 5 to 95 %), n = {VIEWS}")
        parts.store.close()


if __name__ == "__main__":
    main()
