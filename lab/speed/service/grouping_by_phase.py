"""How well epochs alone tell which GPUs train together: ranks of one job against equal jobs that one script started together.

    python -m lab.speed.service.grouping_by_phase [--pairs 20] [--first-seed 100] [--write]

Simulated telemetry. One job: two GPUs show one timeline, each with devices and noise of its own. Two jobs: the same training is
drawn twice, from the same first epoch on, the second on a device whose steps take longer by a normally distributed share (half
a percent). What is counted is how many pairs `in_step` puts together after so many epochs of the first GPU.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from epochcast.analyzer.jobs.phase import in_step
from epochcast.analyzer.telemetry.gpu_report import EpochRecord, GpuDevice, Report, reported
from epochcast.detector import detect
from lab.simulator.draws import draw_training, log_uniform, uncropped
from lab.simulator.scenario import Scenario, SimulatedProcess, observe
from lab.simulator.trace import SimulatedTrace
from lab.simulator.training import SimulatedTraining, train
from lab.speed.page import ANALYZER, markdown_table, options, publish

EPOCHS = 21
AFTER = (6, 8, 12, 20)
SLOWER = 0.005  # standard deviation of the share by which one device of a model is slower than another


def plan_of(rng: np.random.Generator) -> SimulatedTraining:
    """Epochs of 10 to 60 s with a validation and a gap, as most training loops have."""
    epoch_s = log_uniform(rng, 10, 60)
    return draw_training(rng, epochs=EPOCHS, epoch_s=epoch_s, validation=rng.uniform(0.05, 0.22), gap_s=rng.uniform(0.3, 1.0))


def observed(timeline: Any, plan: SimulatedTraining, contrast: float, seed: int) -> SimulatedTrace:
    """The timeline as one GPU shows it."""
    return observe("validation", seed, Scenario((SimulatedProcess(timeline, plan, contrast),)), np.random.default_rng(seed))


def report_of(trace: SimulatedTrace, began: float, until: float) -> Report:
    """What a detector tells that heard the trace until then [s after its first epoch began], on a clock common to both GPUs."""
    shift = began - float(trace.epoch_starts[0])
    time = trace.time + shift
    heard = time <= began + until
    found = detect(time[heard], {name: values[heard] for name, values in trace.metrics.items()})
    epochs = tuple(EpochRecord(epoch.start, epoch.end, found.confidence, began) for epoch in found.epochs)
    device = GpuDevice(trace.gpu, "0", trace.gpu, "node")
    return Report(device, "answered", reported(found), began, len(epochs), epochs)


def pair(seed: int) -> dict[str, dict[int, bool | None]]:
    """Whether two GPUs of one job, and of two, are put together after so many epochs; None where one shows no epochs yet."""
    rng = np.random.default_rng(seed)
    plan, contrast = plan_of(rng), log_uniform(rng, 0.14, 0.6)
    slower = replace(plan, step_s=plan.step_s * (1 + SLOWER * rng.standard_normal()))
    timeline, other = uncropped(rng, train(plan, rng)), uncropped(rng, train(slower, rng))
    first = observed(timeline, plan, contrast, 3 * seed + 1)
    seconds = {
        "one job": observed(timeline, plan, contrast, 3 * seed + 2),
        "two jobs": observed(other, slower, contrast, 3 * seed),
    }
    answers: dict[str, dict[int, bool | None]] = {name: {} for name in seconds}
    for count in AFTER:
        until = float(first.epoch_ends[count - 1] - first.epoch_starts[0]) + 1.0
        one = report_of(first, 1e9, until)
        for name, trace in seconds.items():
            two = report_of(trace, 1e9, until)
            known = one.detection.verdict == two.detection.verdict == "epochs"
            answers[name][count] = in_step(one, two) if known else None
    return answers


def table(pairs: int, first_seed: int) -> Iterator[str]:
    """Yield how many pairs are put together, and how many are not yet looked at."""
    answers = [pair(seed) for seed in range(first_seed, first_seed + pairs)]
    rows = []
    for name, kind in (("one job", "one job"), ("two equal jobs", "two jobs")):
        given = {count: [answer[kind][count] for answer in answers] for count in AFTER}
        rows.append((name, *(f"{values.count(True)}" for values in given.values())))
        silent = max(values.count(None) for values in given.values())
        if silent:
            rows[-1] = (f"{name} (up to {silent} show no epochs yet)", *rows[-1][1:])
    first, *others = AFTER
    yield from markdown_table((f"pairs grouped, of {pairs}", f"after {first} epochs", *map(str, others)), rows)
    yield ""
    yield f"(Seeds {first_seed} to {first_seed + pairs - 1}; the thresholds were chosen on other seeds.)"


def main() -> None:
    """Measure; print or write the table."""
    parser = options(__doc__)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=100, help="the limits in phase.py were chosen on seeds 0 to 7")
    arguments = parser.parse_args()
    publish(ANALYZER, "grouping_by_phase", table(arguments.pairs, arguments.first_seed), write=arguments.write)


if __name__ == "__main__":
    main()
