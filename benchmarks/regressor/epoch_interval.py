"""How often the true epoch lies in a profile's 90 % interval, on simulated traces, as a Markdown table; minutes.

    python -m benchmarks.regressor.epoch_interval [--seeds 10] [--first-seed 2000]

Every class of training traces counts, the ones that a detector need not solve too; the seeds are none that the tracker's
confidence was fitted on. True epoch: median difference of the true starts. Traces without an answer have no interval.
"""

import argparse
from itertools import pairwise

import numpy as np
import pandas as pd

from epochcast.analyzer.answers.sources import profile_of
from epochcast.analyzer.traces.trace import Trace
from epochcast.detector.simulator import CLASSES, simulate_class
from epochcast.regressor import Catalog, load_catalog

BINS = (0.6, 0.8, 0.9, 0.95, 0.98, 1.0)
RIGHT = 0.05


def measured(cls: str, seed: int, catalog: Catalog) -> dict[str, float] | None:
    """One trace: its true epoch beside what the profile says; None without an answer."""
    made = simulate_class(cls, seed)
    trace = Trace(pd.DataFrame({"time": made.time, **made.metrics}), gpu=made.gpu, simulated=True)
    profile, found = profile_of(trace, catalog)
    if profile.epoch_s is None or profile.epoch_s_low is None or profile.epoch_s_high is None:
        return None
    true = float(np.median(np.diff(made.epoch_starts)))
    return {
        "confidence": found.confidence,
        "error": float(np.log(profile.epoch_s / true)),
        "inside": profile.epoch_s_low <= true <= profile.epoch_s_high,
        "half": 100 * (profile.epoch_s_high / profile.epoch_s - 1),
    }


def line(name: str, rows: pd.DataFrame) -> str:
    """One line of the table."""
    right = (rows["error"].abs() < np.log(1 + RIGHT)).mean()
    return (
        f"| {name} | {len(rows)} | {100 * right:.1f} % | {100 * rows['inside'].mean():.1f} % | ±{rows['half'].median():.1f} % |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=2000)
    options = parser.parse_args()
    catalog = load_catalog()
    classes = [name for name, spec in CLASSES.items() if spec.training]
    asked = [(cls, seed) for cls in classes for seed in range(options.first_seed, options.first_seed + options.seeds)]
    rows = pd.DataFrame([row for cls, seed in asked if (row := measured(cls, seed, catalog)) is not None])
    print("| confidence of the tracker | n | within 5 % | true epoch inside | median half-width |")
    print("|---|---|---|---|---|")
    for low, high in pairwise(BINS):
        some = rows[(rows["confidence"] > low) & (rows["confidence"] <= high)]
        if len(some):
            print(line(f"{low:g} to {high:g}", some))
    print(line("all", rows))
    wrong = rows.loc[rows["error"].abs() >= np.log(1 + RIGHT), "error"]
    print(f"\n{len(asked)} traces; {len(wrong)} wrong periods, |log(found / true)| in the median {wrong.abs().median():.2f}")


if __name__ == "__main__":
    main()
