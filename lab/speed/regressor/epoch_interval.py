"""How often the true epoch lies in a profile's 90 % interval, on simulated traces, as a Markdown table; minutes.

    python -m lab.speed.regressor.epoch_interval [--seeds 10] [--first-seed 2000]

Every class of training traces counts, the ones that a detector need not solve too; the seeds are none that the tracker's
confidence was fitted on. True epoch: median difference of the true starts. Traces without an answer have no interval.
"""

from itertools import pairwise, product

import numpy as np
import pandas as pd

from epochcast.analyzer.jobs.sources import profile_of
from epochcast.analyzer.traces.trace import Trace
from epochcast.regressor import load_catalog
from lab.simulator import CLASSES, simulate_class
from lab.speed.page import markdown_table, options

BINS = (0.6, 0.8, 0.9, 0.95, 0.98, 1.0)
RIGHT = 0.05
COLUMNS = ("confidence of the tracker", "n", "within 5 %", "true epoch inside", "median half-width")


def cells(name: str, rows: pd.DataFrame) -> tuple[str, ...]:
    """One line of the table."""
    right = (rows["error"].abs() < np.log(1 + RIGHT)).mean()
    half = f"±{rows['half'].median():.1f} %"
    return name, f"{len(rows)}", f"{100 * right:.1f} %", f"{100 * rows['inside'].mean():.1f} %", half


def main() -> None:
    """Print the table."""
    parser = options(__doc__, page=False)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=2000)
    chosen = parser.parse_args()
    catalog = load_catalog()
    training = [name for name, spec in CLASSES.items() if spec.training]
    traces, answered = list(product(training, range(chosen.first_seed, chosen.first_seed + chosen.seeds))), []
    for cls, seed in traces:
        made = simulate_class(cls, seed)
        trace = Trace(pd.DataFrame({"time": made.time, **made.metrics}), gpu=made.gpu, simulated=True)
        profile, detection = profile_of(trace, catalog)
        if profile.epoch_s is None or profile.epoch_s_low is None or profile.epoch_s_high is None:
            continue
        true = float(np.median(np.diff(made.epoch_starts)))
        answered.append(
            {
                "confidence": detection.confidence,
                "error": np.log(profile.epoch_s / true),
                "inside": profile.epoch_s_low <= true <= profile.epoch_s_high,
                "half": 100 * (profile.epoch_s_high / profile.epoch_s - 1),
            }
        )
    rows = pd.DataFrame(answered)
    bins = {f"{low:g} to {high:g}": rows[rows["confidence"].between(low, high, "right")] for low, high in pairwise(BINS)}
    table = [cells(name, some) for name, some in {**bins, "all": rows}.items() if len(some)]
    print("\n".join(markdown_table(COLUMNS, table)))
    wrong = rows.loc[rows["error"].abs() >= np.log(1 + RIGHT), "error"]
    print(f"\n{len(traces)} traces; {len(wrong)} wrong periods, |log(found / true)| in the median {wrong.abs().median():.2f}")


if __name__ == "__main__":
    main()
