"""What one round of the analysis takes: many GPUs in jobs of four, each with a hundred epochs; the first round, and later ones.

    python -m benchmarks.service.analysis_round [--gpus 64] [--rounds 10]

Every later round finds one more epoch on every GPU, and new profiles in every eighth job: as many as end an epoch of 30 s
between two rounds 4 s apart. CPU seconds of this process, which is the service without HTTP; its memory is told at the end.
"""

from __future__ import annotations

import argparse
import logging
import resource
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from epochcast.analyzer.answers.advisor import Advisor
from epochcast.analyzer.answers.question_schema import example_profile
from epochcast.analyzer.live.state_store import StateStore
from epochcast.analyzer.service import analysis as analysis_module
from epochcast.analyzer.service.analysis import Analysis
from epochcast.analyzer.service.config import Settings
from epochcast.analyzer.telemetry.gpu_report import Device, EpochRecord, Report
from epochcast.regressor import Profile

PER_JOB = 4
BEGAN = 1_700_000_000.0


def report(number: int, epochs: int, profile: Profile) -> Report:
    """What is told of GPU ``number``; GPUs of a job end their epochs together."""
    job = number // PER_JOB
    period = 30.0 + job
    since = BEGAN + 1000.0 * job
    spans = [(since + n * period, since + (n + 1) * period) for n in range(epochs)][-100:]
    return Report(
        Device(f"GPU-{number:04d}", str(number % 8), "Tesla T4", f"node-{number // 8}", "replay", simulated=True),
        "answered",
        "epochs",
        period,
        0.97,
        since,
        epochs,
        tuple(EpochRecord(start, end, 0.97, since) for start, end in spans),
        replace(profile, epoch_s=period, epoch_s_low=0.99 * period, epoch_s_high=1.01 * period),
        last_sample=time.time(),
    )


def main() -> None:
    """Print the seconds of the first round and of the later ones."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--gpus", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    analysis_module._RENEW_S = 0.0  # rounds follow each other at once here
    example = Profile.from_json(example_profile())
    with tempfile.TemporaryDirectory() as folder:
        store = StateStore(Path(folder) / "state.db")
        analysis = Analysis(store, Advisor.load(), Settings())
        took = []
        for number in range(options.rounds + 1):
            reports = [report(gpu, 100 + number, example) for gpu in range(options.gpus)]
            for gpu, one in enumerate(reports):
                renewed = (number + 7 - gpu // PER_JOB % 8) // 8  # each job's turn comes with every eighth round
                assert one.profile is not None and one.profile.epoch_s is not None
                profile = replace(one.profile, epoch_s=one.profile.epoch_s * (1 + 1e-4 * renewed))
                reports[gpu] = replace(one, profile=profile)
            store.write_reports(reports)
            began = time.process_time()
            analysis.round()
            took.append(time.process_time() - began)
        jobs = analysis.snapshot.jobs.values()
        assert not analysis.errors and len(jobs) == -(-options.gpus // PER_JOB), (analysis.errors, len(jobs))
        store.close()
    later = np.array(took[1:])
    print(f"{options.gpus} GPUs, {len(jobs)} jobs: first round {took[0]:.2f} s of CPU")
    print(f"later rounds: median {np.median(later):.3f} s, {later.min():.3f} to {later.max():.3f} s (n={later.size})")
    print(f"memory (maximum resident): {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
