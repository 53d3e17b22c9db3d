"""How hard the simulated traces are: what plain methods find of them, by class, on `dram_active` alone and uncropped.

Classes without that metric (`logged`, `sparse`) are left out.

Run: python -m benchmarks.detector.simulated_hardness [--traces 10] [--seed 0]

A class on which an autocorrelation is right shows little about a tracker. Wanted over all classes whose epochs can be seen: at
most 65 % of the traces within 5 % for the autocorrelation, 80 % for the harmonic product spectrum. An abstention is a miss.
The last columns say, for the median and for the least conspicuous trace, by how much an epoch's end stands out in the best of
four metrics (`signature`): hard must not mean invisible.
"""

import argparse
from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from epochcast.detector import detect
from epochcast.detector.simulator import CLASSES, SimulatedTrace, simulate_class

METHODS = ("autocorrelation", "harmonic")
METRIC = "dram_active"
METRICS = ("dram_active", "sm_active", "pcie_rx", "power")


def within_5(trace: SimulatedTrace, method: str) -> bool:
    """Whether the method's period is within 5 % of the true one."""
    found = detect(trace.time, {METRIC: trace.metrics[METRIC]}, method=method, clock="wall").period_s
    return found is not None and bool(abs(found / np.median(np.diff(trace.epoch_starts)) - 1) < 0.05)


def signature(trace: SimulatedTrace) -> float:
    """How far validation or gap stands out in the metric where it does most, in standard deviations of training.

    Its mean before each epoch's start is compared with the means of stretches of the same length elsewhere in the epochs, their
    standard deviation being that of a normal distribution with the same median absolute deviation. Beyond 4 somebody sees it in
    a plot; what others disturb (holes, other tenants) may be seen with less.
    """
    plan = trace.settings["jobs"][0]
    gap_s = plan["gap_s"] * (1 - plan["gap_before"])
    starts = trace.epoch_starts[2:] if trace.epoch_starts.size > 3 else trace.epoch_starts[1:]
    period = np.median(np.diff(trace.epoch_starts))
    elsewhere = np.concatenate([starts - share * period for share in np.linspace(0.3, 0.85, 12)])
    best = 0.0
    for name in METRICS:
        for ends, length_s in ((starts - gap_s, plan["validation_s"]), (starts, 0.8 * gap_s)):
            if length_s > 0.1:
                event, rest = (means(trace, name, at, length_s) for at in (ends, elsewhere))
                spread = 1.4826 * np.median(np.abs(rest - np.median(rest)))
                best = max(best, float(abs(np.median(event) - np.median(rest)) / max(spread, 1e-9)))
    return best


def means(trace: SimulatedTrace, name: str, ends: NDArray[np.float64], length_s: float) -> NDArray[np.float64]:
    """Mean of a metric over the stretches of a length [s] that end at each of some times, (k,)."""
    total = np.concatenate([[0.0], np.cumsum(trace.metrics[name])])
    last, first = (np.searchsorted(trace.time, edge) for edge in (ends, ends - length_s))
    return np.asarray((total[last] - total[first]) / np.maximum(last - first, 1))


def main() -> None:
    """Print one line per class, then all visible ones together."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=int, default=10, help="per class")
    parser.add_argument("--seed", type=int, default=0, help="of the first trace")
    options = parser.parse_args()
    pooled = defaultdict(list)
    print(
        f"{'within 5 %, n=' + str(options.traces) + ' each':24}"
        + "".join(f"{method:>17}" for method in METHODS)
        + "   signature, least"
    )
    for cls, spec in CLASSES.items():
        if not spec.training:
            continue
        traces = [simulate_class(cls, options.seed + number) for number in range(options.traces)]
        if METRIC not in traces[0].metrics:
            continue
        hits = {method: [within_5(trace, method) for trace in traces] for method in METHODS}
        if spec.visible:
            for method in METHODS:
                pooled[method] += hits[method]
        name = cls if spec.visible else f"{cls} (not visible)"
        signatures = [signature(trace) for trace in traces]
        shares = "".join(f"{np.mean(hits[method]):17.0%}" for method in METHODS)
        print(f"{name:24}{shares}{np.median(signatures):12.1f}{min(signatures):7.1f}")
    shares = "".join(f"{np.mean(pooled[method]):17.1%}" for method in METHODS)
    print(f"{'visible, n=' + str(len(pooled[METHODS[0]])):24}{shares}")


if __name__ == "__main__":
    main()
