"""What predictors fitted on modelled launches say of six networks whose kernels public traces hold; part `recorded` of
docs/occupancy.md.

The labels here are real: launch-config occupancies of recorded kernels. The predictors saw none of these networks, and nothing
but modelled rows on the same GPUs at the same precisions.

Run: EPOCHCAST_SHARED=../shared python -m benchmarks.occupancy.recorded_predictions [--model NAME]… [--write]
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from epochcast.analyzer.backends.occupancy.configuration import Configuration
from epochcast.analyzer.backends.occupancy.labelled_samples import labelled_samples
from epochcast.analyzer.backends.occupancy.modelled_kernels import occupancy_of
from epochcast.analyzer.backends.occupancy.models import MODELS, make
from epochcast.analyzer.backends.occupancy.networks import NETWORKS
from epochcast.analyzer.backends.occupancy.points import COLUMNS, check_points
from epochcast.analyzer.backends.occupancy.sample import Sample
from epochcast.regressor import Gpu, load_catalog

from ..page import OCCUPANCY, markdown_table
from .modelled_table import configurations, modelled_rows
from .recorded_workloads import recorded

PER_NETWORK = 6


def main() -> None:
    """Print the table; --write puts it into docs/occupancy.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", choices=list(MODELS), help="only these (repeatable)")
    parser.add_argument("--write", action="store_true", help="fill docs/occupancy.md")
    options = parser.parse_args()
    lines = list(_lines(options.model or list(MODELS)))
    print("\n".join(lines))
    if options.write:
        OCCUPANCY.fill("recorded", lines)


def _lines(models: Sequence[str]) -> Iterator[str]:
    workloads = recorded()
    samples = [
        Sample(Configuration(one.workload.name, one.graph.batch, precision=one.workload.precision), one.graph, one.gpu)
        for one in workloads
    ]
    measured = np.array([one.mean for one in workloads])
    data = labelled_samples(_modelled({(one.gpu, one.workload.precision) for one in workloads}), load_catalog())
    answers = {"modelled launches": np.array([_modelled_mean(sample) for sample in samples])}
    for name in models:
        answers[f"`{name}`"] = make(name).fit(data.samples, data.occupancies("mean")).predict(samples)
    header = ("mean occupancy %", *(one.workload.name for one in workloads), "MRE %")
    rows = [("**recorded**", *(f"{100 * value:.1f}" for value in measured), "")]
    for name, predicted in answers.items():
        error = 100 * np.abs(predicted / measured - 1).mean()
        rows.append((name, *(f"{100 * value:.1f}" for value in predicted), f"{error:.1f}"))
    yield f"Fitted on {len(data.samples)} modelled rows of {data.points['network'].nunique()} networks."
    yield ""
    yield from markdown_table(header, rows)


def _modelled(places: set[tuple[Gpu, str]]) -> pd.DataFrame:
    """Configurations of Table II on the same GPUs at the same precisions."""
    rows = [
        row
        for gpu, precision in sorted(places, key=lambda place: (place[0].name, place[1]))
        for network in NETWORKS
        for one in configurations(network, PER_NETWORK, seed=0)
        for row in modelled_rows(replace(one, precision=precision), [gpu])
    ]
    return check_points(pd.DataFrame(rows, columns=list(COLUMNS)), "the modelled table")


def _modelled_mean(sample: Sample) -> float:
    return occupancy_of(sample.graph, sample.gpu, sample.configuration.precision).mean


if __name__ == "__main__":
    main()
