"""What a view of the page costs: CPU seconds and bytes per page, with 64 GPUs in 16 jobs of 500 epochs each.

    python -m benchmarks.service.page_rendering

The answers come from the real application in this process, without a socket. An open page asks for itself every 5 s.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from starlette.testclient import TestClient

from epochcast.analyzer.answers.question_schema import example_profile
from epochcast.analyzer.service.app import create_app
from epochcast.analyzer.service.config import LimitSettings, Settings
from epochcast.analyzer.service.process import build
from epochcast.analyzer.telemetry.gpu_report import Device, EpochRecord, Owner, Report
from epochcast.regressor import Profile

GPUS, GPUS_PER_JOB, EPOCHS, EPOCH_S, VIEWS = 64, 4, 500, 60.0, 50


def report_of(number: int, profile: Profile, now: float) -> Report:
    """A GPU whose job has run `EPOCHS` epochs."""
    since = now - (EPOCHS + 0.5) * EPOCH_S
    starts = [since + EPOCH_S * count for count in range(EPOCHS)]
    return Report(
        Device(f"GPU-{number:03}", str(number % 8), "Tesla T4", f"node-{number // 8}", "replay", simulated=True),
        state="answered",
        verdict="epochs",
        period_s=EPOCH_S,
        confidence=0.9,
        job_since=since,
        epochs_seen=EPOCHS,
        epochs=tuple(EpochRecord(start, start + EPOCH_S, 0.9, since) for start in starts),
        profile=profile,
        owners=(Owner(100 + number, "python", slurm_job=str(number // GPUS_PER_JOB)),),
        last_sample=now,
        samples=int(10 * EPOCHS * EPOCH_S),
    )


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        parts = build(Settings(state=Path(folder) / "state.db", limits=LimitSettings(requests_per_minute=0)))
        profile = replace(Profile.from_json(example_profile()), epoch_s=EPOCH_S, epoch_s_low=59.0, epoch_s_high=61.0)
        reports = [report_of(number, profile, time.time()) for number in range(GPUS)]
        for one in reports:
            parts.store.write_epochs(one.device.uuid, [replace(epoch, profile=profile) for epoch in one.epochs])
        parts.store.write_reports([replace(one, epochs=one.epochs[-100:]) for one in reports])
        parts.analysis.round()
        assert len(parts.analysis.snapshot.jobs) == GPUS // GPUS_PER_JOB
        client = TestClient(create_app(parts))
        for path in ("/", "/jobs/slurm-0", "/gpus/GPU-000", "/try", "/reference"):
            size, costs = len(client.get(path).raise_for_status().content), []
            for _ in range(VIEWS):
                began = time.process_time()
                client.get(path)
                costs.append(1e3 * (time.process_time() - began))
            low, *_, high = statistics.quantiles(costs, n=20)
            print(
                f"{path:16} {size / 1e3:6.0f} kB, CPU {statistics.median(costs):5.1f} ms ({low:.1f} to {high:.1f}, 5 to 95 %), "
                f"n = {VIEWS}"
            )
        parts.store.close()


if __name__ == "__main__":
    main()
