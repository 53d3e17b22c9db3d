"""Modelled launches of inference, held against what ``occupancy_bench.py`` measured on one GPU; nothing was fitted to it.

Of each configuration `predict-model occupancy` gives the mean launch-config occupancy, the mean weighted by time, the launches
and the time on the GPU; measured are the same of the kernels that PyTorch's profiler recorded, and GPM's SM occupancy, what the
hardware counted over whole steps. "One value" is the mean of the other networks' measured values, which needs measurements.

Run: python -m lab.speed.occupancy.inference_configurations [--data FILE.csv]
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from epochcast.analyzer.backends.occupancy.configuration import NetworkConfiguration
from epochcast.analyzer.backends.occupancy.graph_of import graph_of
from epochcast.analyzer.backends.occupancy.modelled_kernels.kernels_of import occupancy_of
from epochcast.regressor import load_catalog
from lab.kernels.occupancy_bench import devices
from lab.speed.page import ROOT, markdown_table, options

DATA = ROOT / "data" / "h200" / "occupancy_bench" / "occupancy.csv"
MEASURED = {"mean": "mean_grid", "by time": "timemean_grid", "launches": "kernels", "GPU ms": "gpu_time_us"}
"""What is modelled -> its column."""


def lines(data: Path) -> Iterator[str]:
    """Each configuration measured / modelled, then the errors."""
    gpu = load_catalog().resolve(devices(data)[0]["device"])
    table = pd.read_csv(data).query("status == 'ok'").reset_index(drop=True)
    sizes = ["model", "batch", "channels", "image", "seq", "hidden", "layers"]
    steps = [
        occupancy_of(graph_of(NetworkConfiguration(*row)), gpu, "fp32") for row in table[sizes].to_numpy(dtype=object).tolist()
    ]
    measured = table[list(MEASURED.values())].set_axis(list(MEASURED), axis=1).assign(**{"GPU ms": table["gpu_time_us"] / 1e3})
    modelled = pd.DataFrame(
        [(100 * step.mean, 100 * step.time_mean, step.kernels, 1e3 * step.step_s * step.nvml_utilisation) for step in steps],
        columns=list(MEASURED),
    )
    digits = {"mean": 1, "by time": 1, "launches": 0, "GPU ms": 2}
    cells = [
        (
            key,
            *(f"{measured[what][at]:.{digits[what]}f} / {modelled[what][at]:.{digits[what]}f}" for what in MEASURED),
            f"{table['gpm_sm_occupancy'][at]:.1f}",
        )
        for at, key in enumerate(table["key"])
    ]
    yield f"{gpu.name}, measured / modelled"
    yield ""
    yield from markdown_table(("configuration", "mean %", "by time %", "launches", "GPU ms", "counted by GPM %"), cells)
    yield ""
    figures = []
    pairs = {what: (measured[what], modelled[what]) for what in MEASURED}
    pairs["by time, for GPM's"] = (table["gpm_sm_occupancy"], modelled["by time"])
    for what, (truth, guess) in pairs.items():
        one = np.array([truth[table["model"] != model].mean() for model in table["model"]])
        off, off_one = (100 * (value / truth - 1).abs() for value in (guess, one))
        rank = spearmanr(truth, guess).statistic
        errors = (f"{error.mean():.1f} / {error.median():.1f} / {error.max():.1f}" for error in (off, off_one))
        figures.append((what, str(len(truth)), *errors, f"{rank:.2f}"))
    yield from markdown_table(("what", "n", "modelled: MAPE / median / worst %", "one value", "rank correlation"), figures)


if __name__ == "__main__":
    parser = options(__doc__, page=False)
    parser.add_argument("--data", type=Path, metavar="FILE.csv", default=DATA)
    print(*lines(parser.parse_args().data), sep="\n")
