"""How long the detector takes: Luminol's scores against the package, score only, and the tracker on an hour of telemetry.

Run: python -m benchmarks.detector.luminol_speed [--repeats 5] [--longest 600000]

CPU seconds of this process, the best of the repeats, the worst in brackets. The package needs 9 s and 1 GB at 600000 samples:
lengths from 60000 on are repeated twice only. The simulated hour is one job of four metrics at 10 Hz.
"""

import argparse
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from epochcast.detector import detect, luminol, luminol_package
from epochcast.detector.simulator import simulate

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


def machine() -> str:
    """CPU model, cores and load: what an absolute time is worth nothing without."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.processor())
    return f"{model}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, NumPy {np.__version__}"


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--longest", type=int, default=LENGTHS[-1], help="samples")
    options = parser.parse_args()
    print(machine())
    print(f"\n{'samples':>8} {'package [ms]':>22} {'ours [ms]':>22} {'ratio':>7}  same")
    for n in (length for length in LENGTHS if length <= options.longest):
        rng = np.random.default_rng(n)
        values = (np.arange(n) % 137 < 110) + rng.normal(scale=0.05, size=n)
        repeats = options.repeats if n < 60_000 else 2
        package, package_worst = cpu_seconds(lambda values=values: luminol_package.scores(values), repeats)
        best, worst = cpu_seconds(lambda values=values: luminol.scores(values), options.repeats, max(1, 20_000 // n))
        same = np.array_equal(luminol.scores(values), luminol_package.scores(values))
        theirs = f"{package * 1e3:.2f} ({package_worst * 1e3:.2f})"
        ours = f"{best * 1e3:.3f} ({worst * 1e3:.3f})"
        print(f"{n:>8} {theirs:>22} {ours:>22} {package / best:>6.0f}x  {same}", flush=True)

    print(f"\n{'epoch [s]':>9} {'samples':>8} {'track [s]':>16} {'error [%]':>9}")
    for epoch_s in (10, 60, 300):
        trace = simulate(0, epochs=3600 // epoch_s, epoch_s=epoch_s, validation_s=0.1 * epoch_s)
        metrics = {name: trace.metrics[name] for name in METRICS}
        best, worst = cpu_seconds(lambda trace=trace, metrics=metrics: detect(trace.time, metrics), options.repeats)
        found = detect(trace.time, metrics).period_s
        true = float(np.median(np.diff(trace.epoch_starts)))
        error = "none" if found is None else f"{abs(found / true - 1) * 100:.2f}"
        print(f"{epoch_s:>9} {trace.time.size:>8} {f'{best:.2f} ({worst:.2f})':>16} {error:>9}", flush=True)


if __name__ == "__main__":
    main()
