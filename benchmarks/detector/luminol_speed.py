"""How long the detector takes: Luminol scores against the package, and the tracker on an hour of telemetry.

Run: python benchmarks/detector/luminol_speed.py [--repeats 5]

CPU seconds of this process, the best of the repeats; the simulated hour is one job of four metrics at 10 Hz.
"""

import argparse
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from epochcast.detector import detect, luminol, luminol_package
from epochcast.detector.simulate import simulate

LENGTHS = (600, 1999, 2000, 6000, 60000)
METRICS = ("dram_active", "sm_active", "pcie_rx", "power")


def cpu_seconds(call: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Best and worst of the repeats."""
    spent = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        spent.append(time.process_time() - start)
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
    repeats = parser.parse_args().repeats
    print(machine(), f"best of {repeats}, worst in brackets", sep="; ")

    print(f"\n{'samples':>8} {'package [ms]':>22} {'ours [ms]':>22} {'ratio':>7}  same")
    for n in LENGTHS:
        rng = np.random.default_rng(n)
        values = (np.arange(n) % 137 < 110) + rng.normal(scale=0.05, size=n)
        package, package_worst = cpu_seconds(lambda values=values: luminol_package.scores(values), repeats)
        loops = max(1, 20000 // n)

        def ours(values: np.ndarray = values, loops: int = loops) -> None:
            for _ in range(loops):
                luminol.scores(values)

        best, worst = (seconds / loops for seconds in cpu_seconds(ours, repeats))
        same = np.allclose(luminol.scores(values), luminol_package.scores(values))
        theirs = f"{package * 1e3:.2f} ({package_worst * 1e3:.2f})"
        mine = f"{best * 1e3:.3f} ({worst * 1e3:.3f})"
        print(f"{n:>8} {theirs:>22} {mine:>22} {package / best:>6.0f}x  {same}")

    print(f"\n{'epoch [s]':>9} {'samples':>8} {'track [s]':>16} {'error [%]':>9}")
    for epoch_s in (10, 60, 300):
        trace = simulate(0, epochs=3600 // epoch_s, epoch_s=epoch_s, validation_s=0.1 * epoch_s)
        metrics = {name: trace.metrics[name] for name in METRICS}
        best, worst = cpu_seconds(lambda trace=trace, metrics=metrics: detect(trace.time, metrics), repeats)
        found = detect(trace.time, metrics).period_s
        true = float(np.median(np.diff(trace.epoch_starts)))
        error = "none" if found is None else f"{abs(found / true - 1) * 100:.2f}"
        print(f"{epoch_s:>9} {trace.time.size:>8} {f'{best:.2f} ({worst:.2f})':>16} {error:>9}")


if __name__ == "__main__":
    main()
