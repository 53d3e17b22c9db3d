"""Whether the jobs of ten thousand GPUs are told apart: by the ends of their epochs alone, in ten minutes of them.

Run: OMP_NUM_THREADS=1 python -m lab.speed.fleet.grouping_at_scale [--gpus 10000] [--minutes 10]

The jobs are those of `lab.simulated_fleet`; no telemetry is written. In its place each GPU tells the true ends of its
epochs with an error of 0.03 s (standard deviation), with which two GPUs of one job differ about as much as what the detector
finds in simulated traces does: 80 % of the differences lie within 0.09 s of their middle. Many of the jobs began before the ten
minutes, so that their beginnings do not tell them apart.
"""

import argparse
import time
from collections import Counter, defaultdict

import numpy as np

from epochcast.analyzer.jobs.grouping import grouped
from epochcast.analyzer.jobs.phase import LEAST_EPOCHS
from epochcast.analyzer.telemetry.gpu_report import MOST_EPOCHS, EpochRecord, GpuDevice, Report
from epochcast.detector import Detection
from lab.simulated_fleet.layout import blocks
from lab.simulated_fleet.write_fleet import jobs_of

_ERROR_S = 0.03


def reports_of(gpus: int, minutes: float, seed: int) -> dict[str, list[tuple[Report, int]]]:
    """GPU model -> what each GPU tells of each training, with the number of its job; only trainings with two epochs or more."""
    found: dict[str, list[tuple[Report, int]]] = defaultdict(list)
    number = 0
    for block in blocks(gpus, seed, sequences=True):
        rng = np.random.default_rng([seed, 1, block.number])
        late = rng.uniform(0, 0.1, len(block.nodes))
        for slot in block.slots:
            for job, since, _ in jobs_of(slot, block.nodes[0], 60 * minutes, rng):
                number += 1
                ends = job.timeline.marks()[1]
                if job.work != "training" or len(ends) < 2:
                    continue
                for place, index in slot.gpus:
                    node = block.nodes[place]
                    seen = np.sort(ends + late[place] + rng.normal(0, _ERROR_S, len(ends)))
                    device = GpuDevice(f"{node.name}-{index}-{number}", str(index), node.device.name, node.name, simulated=True)
                    epochs = tuple(EpochRecord(end - 1.0, end, 0.95, since) for end in seen.tolist())
                    period = float(np.median(np.diff(ends)))
                    seen_in = Detection("epochs", period, None, (), 0.95, "track", "wall")
                    report = Report(device, "idle", seen_in, since, len(epochs), epochs[-MOST_EPOCHS:])
                    found[node.device.name].append((report, number))
    return found


def main() -> None:
    """Print how many GPUs are put together rightly."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=10_000)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=5)
    options = parser.parse_args()
    fleet = reports_of(options.gpus, options.minutes, options.seed)
    counted: Counter[str] = Counter()
    began = time.process_time()
    for told in fleet.values():
        job_of = {report.device.uuid: job for report, job in told}
        size = Counter(job_of.values())
        few = {report.device.uuid for report, _ in told if len(report.epochs) < LEAST_EPOCHS}
        for group, _ in grouped(report for report, _ in told):
            jobs = {job_of[uuid] for uuid in group.gpus}
            if len(jobs) > 1:
                kind = "put together with another job"
            elif len(group.gpus) == size[next(iter(jobs))]:
                kind = "in the right job"
            elif few.issuperset(group.gpus):
                kind = f"in parts of their job, with fewer than {LEAST_EPOCHS} epochs"
            else:
                kind = "in parts of their job"
            counted[kind] += len(group.gpus)
    total = sum(counted.values())
    took = time.process_time() - began
    print(f"{options.gpus} GPUs, {options.minutes:g} minutes: {total} stretches of training, {took:.1f} s of processor time")
    for kind, count in sorted(counted.items(), key=lambda item: -item[1]):
        print(f"{kind:50} {count:6} {count / total:7.2%}")


if __name__ == "__main__":
    main()
