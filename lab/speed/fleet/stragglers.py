"""Whether the GPU that its job's others wait for is told: simulated jobs with and without one, their epochs taken as known.

Run: OMP_NUM_THREADS=1 python -m lab.speed.fleet.stragglers [--jobs 30] [--seed 0] [--minutes 10]

Jobs of three GPUs to a node's eight, trainings alone. Only the profile of each GPU is looked at, as the fleet's analysis does;
that their epochs were found and put together is not what is measured here.
"""

import argparse

import numpy as np

from epochcast.analyzer.fleet.stragglers import straggler_of
from epochcast.analyzer.jobs.detected_profile import profile_of_detection
from epochcast.analyzer.telemetry.gpu_report import GpuDevice, Report
from epochcast.detector import Detection
from epochcast.regressor import load_catalog
from lab.simulated_fleet.gpu_trace import draw_recording, readings
from lab.simulated_fleet.job_timelines import draw_job, on_gpu
from lab.simulator.devices import DEVICES


def told(seed: int, seconds: float, *, straggles: bool) -> tuple[int | None, int | None, float]:
    """The place of a job's straggler, the place that is named, and the straggler's clock next to the others'."""
    rng = np.random.default_rng([seed, int(straggles)])
    device, many = DEVICES[rng.integers(len(DEVICES))], int(rng.integers(3, 9))
    job = draw_job("training", device, 0.0, seconds, rng, straggles=straggles, running=True)
    slow = int(rng.integers(many)) if straggles else None
    reports = []
    for place in range(many):
        timeline = on_gpu(job, straggler=place == slow, alone=False, rng=rng)
        time, metrics = readings(
            device, [(job, timeline)], seconds, rng, exchanges=True, silent=False, recording=draw_recording(rng)
        )
        plain = {name: values.astype(np.float64) for name, values in metrics.items()}
        model = load_catalog().resolve(device.name).name
        profile = profile_of_detection(model, time, plain, None, simulated=True)
        own = GpuDevice(f"GPU-{place}", str(place), device.name, "node", simulated=True)
        detection = Detection("epochs", 30.0, None, (), 0.95, "track", "wall")
        reports.append(Report(own, "answered", detection, 0.0, 0, profile=profile))
    found = straggler_of(reports, None)
    return slow, None if found is None else found[0], job.slow_clock


def main() -> None:
    """Print how many are told."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=30, help="with a straggler, and as many without")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=10)
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + options.jobs)
    slow = [told(seed, 60 * options.minutes, straggles=True) for seed in seeds]
    even = [told(seed, 60 * options.minutes, straggles=False) for seed in seeds]
    named = sum(true == found for true, found, _ in slow)
    other = sum(found is not None and true != found for true, found, _ in slow)
    print(
        f"{options.jobs} jobs with a straggler: {named} named, {other} times another GPU, {options.jobs - named - other} none"
    )
    for true, found, clock in slow:
        if true != found:
            print(f"not named: one whose clock is {clock:.2f} of the others'")
    print(f"{options.jobs} jobs without: {sum(found is not None for _, found, _ in even)} false")


if __name__ == "__main__":
    main()
