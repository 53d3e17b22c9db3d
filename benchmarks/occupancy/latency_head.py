"""The encoder of occupancies on step times of ConvNets, as DIPPM and DNNPerf use graph networks and as ConvMeter's Fig. 6
compares itself with one; part `latency` of docs/occupancy.md.

Whole families are left out, in five groups; all models see the same rows. The graph networks train once per group, which takes
about twenty minutes on one core: that is why of timm's networks every twelfth is taken.

Run: python -m benchmarks.occupancy.latency_head [--model NAME]… [--write]
"""

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
from epochcast.regressor.scoring import score

from ..convmeter.public_tables import points_of
from ..page import OCCUPANCY, markdown_table, options, publish

GROUPS = 5
EVERY = 12
CONVMETER = ("paper", "default")
GRAPHS = ("dnn-occu", "dnnperf", "brp-nas", "operator-mean", "boosting", "nearest", "mean")


def lines(models: Sequence[str]) -> Iterator[str]:
    """Both tables."""
    points = points_of("torchvision_step_times.csv.gz")
    points = points[(points["devices"] == 1) & points["device"].str.startswith("A100") & (points["precision"] != "fp64")]
    yield from table("torchvision, inference, A100, fp32 and fp16", points, "A100 SXM4 40GB", models)
    yield ""
    points = points_of("benchmark-infer-amp-nchw-pt240-cu124-rtx3090.csv").sort_values("network").iloc[::EVERY]
    yield from table("timm, inference, RTX 3090, AMP", points, "RTX 3090", models)


def table(title: str, points: pd.DataFrame, gpu: str, models: Sequence[str]) -> Iterator[str]:
    """Graph models and ConvMeter's forms, which are fitted on each precision apart."""
    points = with_samples(points, gpu)
    measured, groups = points["inference_seconds"].to_numpy(float), groups_of(points["family"])

    def graph_model(name: str, train: pd.DataFrame, test: pd.DataFrame) -> NDArray[np.float64]:
        model = make(name, target="seconds").fit(list(train["sample"]), train["inference_seconds"].to_numpy(float))
        return model.predict(list(test["sample"]))

    def convmeter(form: str, train: pd.DataFrame, test: pd.DataFrame) -> NDArray[np.float64]:
        predicted = pd.Series(np.nan, test.index)
        for precision, own in test.groupby("precision"):
            predicted[own.index] = fit_predict(train[train["precision"] == precision], own, "inference", form)
        return predicted.to_numpy()

    asked: list[tuple[str, str, Callable[[str, pd.DataFrame, pd.DataFrame], NDArray[np.float64]]]]
    asked = [*((name, name, graph_model) for name in models), *((f"ConvMeter `{form}`", form, convmeter) for form in CONVMETER)]
    rows = []
    for called, name, answer in asked:
        began, predicted = time.process_time(), np.full(len(points), np.nan)
        for group in range(GROUPS):
            predicted[groups == group] = answer(name, points[groups != group], points[groups == group])
        seconds = (time.process_time() - began) / GROUPS
        scores = score(measured, predicted)
        spread = np.std([score(measured[groups == one], predicted[groups == one]).mape for one in range(GROUPS)], ddof=1)
        figures = (f"{scores.mape:.1f}", f"{scores.median_ape:.1f}", f"{scores.r2:.3f}", f"{spread:.1f}", f"{seconds:.0f}")
        rows.append((called, *figures))
    title = f"{title} (n = {len(points)}, {points['family'].nunique()} families)"
    yield from markdown_table((title, "MAPE %", "median %", "R2", "sd of groups", "CPU s per fit"), rows)


def with_samples(points: pd.DataFrame, gpu: str) -> pd.DataFrame:
    """Rows of networks that can be exported, with their ``sample``."""
    on, samples = load_catalog().resolve(gpu), []
    for row in points.itertuples():
        precision = "fp32" if row.precision == "fp32" else "fp16"
        asked = Configuration(str(row.network), int(row.batch), 3, int(row.image_size), precision=precision)
        try:
            samples.append(Sample(asked, graph_of(asked), on))
        except InputError as error:
            print(f"{row.network} is left out: {error}", file=sys.stderr)
            samples.append(None)
    return points.assign(sample=samples).dropna(subset="sample").reset_index(drop=True)


def groups_of(families: pd.Series) -> NDArray[np.int64]:
    """Families dealt to groups, the largest first to the group with the fewest rows."""
    sizes, group = [0] * GROUPS, {}
    for family, count in families.value_counts(sort=True).items():
        group[family] = int(np.argmin(sizes))
        sizes[group[family]] += count
    return families.map(group).to_numpy(np.int64)


if __name__ == "__main__":
    parser = options(__doc__)
    parser.add_argument("--model", action="append", choices=GRAPHS, help="only these graph models (repeatable)")
    chosen = parser.parse_args()
    publish(OCCUPANCY, "latency", lines(chosen.model or GRAPHS), write=chosen.write)
