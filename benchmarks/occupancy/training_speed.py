"""How long training on 600 graphs and predicting one takes, on the graphs of our networks; part `speed` of docs/occupancy.md.

The graphs are those of all networks that ``networks/`` knows, each at as many batch sizes as make 600. Labels are random: only
time is looked at. It is the processor time of one thread, so that nothing else that runs counts; on a GPU it is the clock's.

Run: python -m benchmarks.occupancy.training_speed [--write] [--model NAME]...      (needs torch, torch-geometric, the networks)
"""

import argparse
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random

import numpy as np
import torch

from epochcast.analyzer.backends.occupancy.configuration import Configuration
from epochcast.analyzer.backends.occupancy.graph_of import graph_of
from epochcast.analyzer.backends.occupancy.models import EPOCHS, MODELS, make
from epochcast.analyzer.backends.occupancy.networks import NETWORKS, complete
from epochcast.analyzer.backends.occupancy.sample import Sample
from epochcast.regressor import load_catalog

from ..page import OCCUPANCY, markdown_table

GRAPHS = 600
TIMED_EPOCHS = 1
DEVICE = "seconds of the clock on a GPU" if torch.cuda.is_available() else "processor time of one CPU thread"
_now = time.perf_counter if torch.cuda.is_available() else time.process_time
NETWORKS_OF_EPOCHS = ("dnn-occu", "mlp", "lstm", "transformer", "dnnperf", "brp-nas")
"""Models whose time is proportional to the epochs; the others are fitted once, whole."""


def main() -> None:
    """Print the table; --write puts it into docs/occupancy.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="fill docs/occupancy.md")
    parser.add_argument("--model", action="append", choices=MODELS, help="only these models (repeatable)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    lines = list(tables(options.model or list(MODELS)))
    print("\n".join(lines))
    if options.write:
        OCCUPANCY.fill("speed", lines)


def tables(models: Sequence[str]) -> Iterator[str]:
    """Markdown of the part."""
    samples = samples_of_all_networks()
    labels = np.random.default_rng(0).uniform(0.05, 0.95, len(samples))
    sizes = [len(sample.graph) for sample in samples]
    rows = []
    for name in models:
        trained, share = training(name, samples, labels)
        median, longest, largest = predicting(name, samples, labels)
        said = f"{trained / share / 60:.1f} min" if trained / share > 90 else f"{trained / share:.1f} s"
        rows.append(
            (f"`{name}`", said, f"{share * EPOCHS:.0f}" if share < 1 else "all", f"{median:.1f}", f"{longest:.1f}", largest)
        )
        print(*rows[-1], file=sys.stderr)
    header = (
        f"{len(samples)} graphs, {EPOCHS} epochs",
        "training",
        "epochs timed",
        "ms a graph",
        "the slowest",
        "its operators",
    )
    yield from markdown_table(header, rows)
    yield ""
    yield (
        f"Graphs have {min(sizes)} to {max(sizes)} operators, {statistics.median(sizes):.0f} in the median. Where one epoch "
        f"was timed, {EPOCHS} are extrapolated; one passes untimed before it. Predicting is the median over one "
        f"graph of each network, features included, the export not; {DEVICE}, PyTorch {torch.__version__}."
    )


def samples_of_all_networks() -> list[Sample]:
    """Each network at batch sizes of Table II, the same number of each."""
    gpu = load_catalog().resolve("H200")
    rng = Random(0)
    samples = []
    for name in NETWORKS:
        configuration = complete(Configuration(name, batch=1))
        graph = graph_of(configuration)
        for batch in rng.sample(range(16, 129, 4), GRAPHS // len(NETWORKS)):
            samples.append(Sample(replace(configuration, batch=batch), graph.at_batch(batch), gpu))
    return samples


def training(name: str, samples: Sequence[Sample], labels: np.ndarray) -> tuple[float, float]:
    """Seconds, and the share of the whole training that they are of."""
    ends: list[float] = []
    timed = name in NETWORKS_OF_EPOCHS
    settings = {"epochs": TIMED_EPOCHS + 1, "progress": lambda *_: ends.append(_now())} if timed else {}
    began = _now()
    make(name, **settings).fit(samples, labels)
    if timed:
        return ends[-1] - ends[0], TIMED_EPOCHS / EPOCHS
    return _now() - began, 1.0


def predicting(name: str, samples: Sequence[Sample], labels: np.ndarray) -> tuple[float, float, str]:
    """Milliseconds of one graph: the median over one graph of each network, and the slowest with its operators."""
    one_of_each = samples[:: GRAPHS // len(NETWORKS)]
    model = make(name, epochs=1).fit(one_of_each, labels[: len(one_of_each)])
    times = []
    for sample in one_of_each:
        model.predict([sample])
        took = []
        for _ in range(5):
            began = _now()
            model.predict([sample])
            took.append(1e3 * (_now() - began))
        times.append((statistics.median(took), len(sample.graph)))
    longest, operators = max(times)
    return statistics.median(took for took, _ in times), longest, str(operators)


if __name__ == "__main__":
    main()
