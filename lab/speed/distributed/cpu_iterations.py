"""Real training iterations on this CPU against the sum of their profiled operators; part `CPU` of docs/distributed.md.

    python -m lab.speed.distributed.cpu_iterations [--clock cpu] [--write]

Reports the rows of `data/distributed_cpu/iterations.csv` (its README): every cell (model x batch size x precision) was trained
by a plain loop in another process; in turn with it, every unique operator of its traced graph was profiled. Nothing is fitted.
One thread each.

Next to it, what a predictor that is blind to precision gives on the same rows: the FP32 operators of the same model and batch
(as vTrain profiles), and these divided by one speed-up, the median of the other models' measured ones.
"""

from collections.abc import Iterator

import pandas as pd

from lab.speed.page import DISTRIBUTED, ROOT, markdown_table, options, publish

PRECISIONS = ("fp32", "bf16", "amp-bf16")
ROWS = ROOT / "data" / "distributed_cpu" / "iterations.csv"


def with_errors(rows: pd.DataFrame) -> pd.DataFrame:
    """Errors in % of the prediction, of FP32 operators of the same model and batch (blind), and of these over one factor."""
    fp32 = rows[rows.precision == "fp32"].set_index(["model", "batch"])
    keys = pd.MultiIndex.from_frame(rows[["model", "batch"]])
    blind = fp32.predicted_s.reindex(keys).to_numpy()
    ratio = fp32.measured_s.reindex(keys).to_numpy() / rows.measured_s
    others = [ratio[(rows.model != row.model) & (rows.precision == row.precision)].median() for row in rows.itertuples()]
    seconds = {"predicted": rows.predicted_s, "blind": blind, "speed_up": blind / others}
    return rows.assign(**{name: 100 * (one / rows.measured_s - 1) for name, one in seconds.items()})


def lines(rows: pd.DataFrame) -> Iterator[str]:
    """Errors over all rows and by precision, model and batch size."""
    rows = with_errors(rows)
    yield f"{rows.cpu[0]}, {rows.threads[0]} thread(s), torch {rows.torch[0]}, {', '.join(sorted(set(rows.date)))}"
    yield f"{rows.clock[0]} clock, load average {rows.load.min():.1f} to {rows.load.max():.1f} while measuring"
    yield ""
    small = rows.batch == rows.groupby("model").batch.transform("min")
    groups = {"all": rows, "reduced precision": rows[rows.precision != "fp32"]}
    groups |= {name: rows[rows.precision == name] for name in PRECISIONS}
    groups |= {str(name): own for name, own in rows.groupby("model", sort=False)}
    groups |= {"large batch": rows[~small], "small batch": rows[small]}
    table = []
    for name, own in groups.items():
        error, bias = own.predicted.abs(), own.predicted.median()
        figures = f"{error.mean():.1f} / {error.median():.1f} / {error.max():.1f} %, {bias:+.1f} %"
        table.append((name, str(len(own)), figures, f"{own.blind.abs().mean():.1f} %", f"{own.speed_up.abs().mean():.1f} %"))
    header = ("rows", "n", "profile: MAPE / median / worst, bias", "FP32 operators: MAPE", "one speed-up: MAPE")
    yield from markdown_table(header, table)
    spread = 100 * rows.measured_iqr_s / rows.measured_s
    estimated = sorted(set(" ".join(rows.estimated.dropna().astype(str)).split()))
    yield ""
    yield f"spread of measured iterations (IQR): median {spread.median():.1f} %, worst {spread.max():.1f} %"
    yield f"not run but estimated by bytes: {estimated or 'none'}"


if __name__ == "__main__":
    parser = options(__doc__)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="of both sides [default: %(default)s]")
    chosen = parser.parse_args()
    rows = pd.read_csv(ROWS).query("clock == @chosen.clock").reset_index(drop=True)
    publish(DISTRIBUTED, "CPU", lines(rows), write=chosen.write)
