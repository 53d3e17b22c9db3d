"""How long the detector takes: Luminol's scores against the package, score only, and the tracker on an hour of telemetry.

    python -m lab.speed.detector.luminol_speed [--repeats 5] [--longest 600000]

CPU seconds of this process, the best of the repeats, the worst in brackets. The package needs 9 s and 1 GB at 600000 samples:
lengths from 60000 on are repeated twice only. The simulated hour is one job of four metrics at 10 Hz.
"""

import time
from collections.abc import Callable
from functools import partial

import numpy as np

from epochcast.detector import detect, luminol
from lab.evaluate.detection import period_error
from lab.simulator import simulate
from lab.speed.page import options
from lab.speed.processes import machine

LENGTHS = (600, 1999, 2000, 6000, 60_000, 600_000)
METRICS = ("dram_active", "sm_active", "pcie_rx", "power")


def cpu_seconds(call: Callable[[], object], repeats: int, loops: int = 1) -> tuple[float, float]:
    """Best and worst of the repeats, per call."""
    spent = []
    for _ in range(repeats):
        start = time.process_time()
        for _ in range(loops):
            call()
        spent.append((time.process_time() - start) / loops)
    return min(spent), max(spent)


def show_luminol(repeats: int, longest: int) -> None:
    """The package's scores next to ours, by length."""
    print(f"\n{'samples':>8} {'package [ms]':>22} {'ours [ms]':>22} {'ratio':>7}  same")
    for n in (length for length in LENGTHS if length <= longest):
        rng = np.random.default_rng(n)
        values = (np.arange(n) % 137 < 110) + rng.normal(scale=0.05, size=n)
        package, package_worst = cpu_seconds(partial(luminol.package_scores, values), repeats if n < 60_000 else 2)
        best, worst = cpu_seconds(partial(luminol.scores, values), repeats, max(1, 20_000 // n))
        same = np.array_equal(luminol.scores(values), luminol.package_scores(values))
        theirs = f"{package * 1e3:.2f} ({package_worst * 1e3:.2f})"
        ours = f"{best * 1e3:.3f} ({worst * 1e3:.3f})"
        print(f"{n:>8} {theirs:>22} {ours:>22} {package / best:>6.0f}x  {same}", flush=True)


def show_tracker(repeats: int) -> None:
    """The tracker on an hour, by the length of its epochs."""
    print(f"\n{'epoch [s]':>9} {'samples':>8} {'track [s]':>16} {'error [%]':>9}")
    for epoch_s in (10, 60, 300):
        trace = simulate(0, epochs=3600 // epoch_s, epoch_s=epoch_s, validation_s=0.1 * epoch_s)
        searched = partial(detect, trace.time, {name: trace.metrics[name] for name in METRICS})
        best, worst = cpu_seconds(searched, repeats)
        found, true = searched().period_s, float(np.median(np.diff(trace.epoch_starts)))
        error = "none" if found is None else f"{period_error(found, true):.2f}"
        print(f"{epoch_s:>9} {trace.time.size:>8} {f'{best:.2f} ({worst:.2f})':>16} {error:>9}", flush=True)


if __name__ == "__main__":
    parser = options(__doc__, page=False)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--longest", type=int, default=LENGTHS[-1], help="samples")
    chosen = parser.parse_args()
    print(f"{machine()}, NumPy {np.__version__}")
    show_luminol(chosen.repeats, chosen.longest)
    show_tracker(chosen.repeats)
