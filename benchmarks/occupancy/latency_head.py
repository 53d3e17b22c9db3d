"""The encoder of occupancies on step times of ConvNets, as DIPPM and DNNPerf use graph networks and as ConvMeter's Fig. 6
compares itself with one; part `latency` of docs/occupancy.md.

Whole families are left out, in five groups; all models see the same rows. The graph networks train once per group, which takes
about twenty minutes on one core: that is why of timm's networks every twelfth is taken.

Run: EPOCHCAST_SHARED=../shared python -m benchmarks.occupancy.latency_head [--write]
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.backends.convmeter.predictor import fit_predict
from epochcast.analyzer.backends.occupancy.configuration import Configuration
from epochcast.analyzer.backends.occupancy.graph_of import graph_of
from epochcast.analyzer.backends.occupancy.models import make
from epochcast.analyzer.backends.occupancy.sample import Sample
from epochcast.analyzer.errors import InputError
from epochcast.regressor import load_catalog

from ..convmeter.public_tables import points_of
from ..page import OCCUPANCY, markdown_table

GROUPS = 5
EVERY = 12
CONVMETER = ("paper", "default")
GRAPHS = ("dnn-occu", "dnnperf", "brp-nas", "operator-mean", "boosting", "nearest", "mean")
Floats = NDArray[np.float64]


def main() -> None:
    """Print the tables; --write puts them into docs/occupancy.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="fill docs/occupancy.md")
    parser.add_argument("--model", action="append", choices=GRAPHS, help="only these graph models (repeatable)")
    parser.add_argument("--table", action="append", choices=list(TABLES), help="only this table (repeatable)")
    options = parser.parse_args()
    lines: list[str] = []
    for name in options.table or TABLES:
        lines += [*_table(*TABLES[name](), options.model or GRAPHS), ""]
    print("\n".join(lines))
    if options.write:
        OCCUPANCY.fill("latency", lines)


def _torchvision() -> tuple[str, pd.DataFrame, str]:
    """Title, rows, GPU."""
    points = points_of("torchvision_step_times.csv.gz")
    chosen = (points["devices"] == 1) & points["device"].str.startswith("A100") & (points["precision"] != "fp64")
    return "torchvision, inference, A100, fp32 and fp16", points[chosen].reset_index(drop=True), "A100 SXM4 40GB"


def _timm() -> tuple[str, pd.DataFrame, str]:
    """Title, rows, GPU."""
    points = points_of("benchmark-infer-amp-nchw-pt240-cu124-rtx3090.csv").sort_values("network")
    return "timm, inference, RTX 3090, AMP", points.iloc[::EVERY].reset_index(drop=True), "RTX 3090"


TABLES = {"torchvision": _torchvision, "timm": _timm}


def _table(title: str, points: pd.DataFrame, gpu: str, models: Sequence[str]) -> Iterator[str]:
    samples, kept = _samples(points, gpu)
    points = points[kept].reset_index(drop=True)
    measured = points["inference_seconds"].to_numpy(float)
    groups = _groups(points["family"])
    rows = []
    for name in models:
        began = time.process_time()
        predicted = _left_out(groups, lambda train, test, name=name: _graph_model(name, samples, measured, train, test))
        rows.append((name, *_figures(predicted, measured, groups), f"{(time.process_time() - began) / GROUPS:.0f}"))
    for name in CONVMETER:
        began = time.process_time()
        predicted = _left_out(groups, lambda train, test, name=name: _convmeter(name, points, train, test))
        rows.append(
            (f"ConvMeter `{name}`", *_figures(predicted, measured, groups), f"{(time.process_time() - began) / GROUPS:.0f}")
        )
    lacking = int((~kept).sum())
    families = points["family"].nunique()
    yield from markdown_table(
        (f"{title} (n = {len(points)}, {families} families)", "MAPE %", "median %", "R2", "sd of groups", "CPU s per fit"), rows
    )
    if lacking:
        yield f"\n{lacking} networks more could not be exported."


def _samples(points: pd.DataFrame, gpu: str) -> tuple[list[Sample], NDArray[np.bool_]]:
    """A sample per row that has a graph, and which rows have one."""
    on = load_catalog().resolve(gpu)
    samples, kept = [], np.zeros(len(points), dtype=bool)
    for place, row in enumerate(points.itertuples()):
        asked = Configuration(
            str(row.network), int(row.batch), 3, int(row.image_size), precision="fp32" if row.precision == "fp32" else "fp16"
        )
        try:
            samples.append(Sample(asked, graph_of(asked), on))
            kept[place] = True
        except InputError as error:
            print(f"{row.network}: {error}", file=sys.stderr)
    return samples, kept


def _groups(families: pd.Series) -> NDArray[np.int64]:
    """Families dealt to groups, the largest first to the group with the fewest rows."""
    sizes = [0] * GROUPS
    group = {}
    for family, count in families.value_counts(sort=True).items():
        group[family] = int(np.argmin(sizes))
        sizes[group[family]] += count
    return families.map(group).to_numpy(np.int64)


def _left_out(groups: NDArray[np.int64], answer: Callable[[NDArray[np.int64], NDArray[np.int64]], Floats]) -> Floats:
    predicted = np.full(len(groups), np.nan)
    for group in range(GROUPS):
        test = np.flatnonzero(groups == group)
        predicted[test] = answer(np.flatnonzero(groups != group), test)
    return predicted


def _graph_model(
    name: str, samples: list[Sample], seconds: Floats, train: NDArray[np.int64], test: NDArray[np.int64]
) -> Floats:
    model = make(name, target="seconds").fit([samples[one] for one in train], seconds[train])
    return model.predict([samples[one] for one in test])


def _convmeter(form: str, points: pd.DataFrame, train: NDArray[np.int64], test: NDArray[np.int64]) -> Floats:
    """It is fitted on each precision apart."""
    predicted = np.full(len(points), np.nan)
    for precision in points["precision"].unique():
        own = (points["precision"] == precision).to_numpy()
        seen, left = train[own[train]], test[own[test]]
        predicted[left] = fit_predict(points.iloc[seen], points.iloc[left], "inference", form)
    return predicted[test]


def _figures(predicted: Floats, measured: Floats, groups: NDArray[np.int64]) -> tuple[str, ...]:
    error = 100 * np.abs(predicted / measured - 1)
    r2 = 1 - ((predicted - measured) ** 2).sum() / ((measured - measured.mean()) ** 2).sum()
    spread = np.std([error[groups == group].mean() for group in range(GROUPS)], ddof=1)
    return f"{error.mean():.1f}", f"{np.median(error):.1f}", f"{r2:.3f}", f"{spread:.1f}"


if __name__ == "__main__":
    main()
