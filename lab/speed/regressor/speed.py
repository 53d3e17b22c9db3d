"""How long training, loading and predicting take, and how large the shipped model is.

    EPOCHCAST_SHARED=../shared python -m lab.speed.regressor.speed [--calls 400] [--write]

Times are of one process, wall clock with CPU time next to it: on a busy machine they part, and the second is ours. A prediction
is one profile for all GPUs of the catalogue; every call has another profile of cloud-hw-trainpred. With nothing given it has
no telemetry either, and is answered for each type and precision that is likely.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from epochcast.regressor import LatencyPredictor, load_catalog
from epochcast.regressor.predictor import SHIPPED
from lab.corpora import load_corpus
from lab.speed.page import REGRESSOR, markdown_table, options, publish
from lab.speed.processes import machine
from lab.speed.regressor.public_pairs import DATA, RATES

MORE_RATES = RATES.with_name("rates_2.csv.gz")

WARM_UP = 5
LOADS = 10
COLUMNS = ("what", "wall, median", "wall, p99", "CPU, median", "CPU, p99", "target")


def lines(calls: int) -> Iterator[str]:
    """The times of everything."""
    profiles, rates, catalog = load_corpus(DATA), load_corpus(RATES) + load_corpus(MORE_RATES), load_catalog()
    nothing: dict[str, Any] = {"precision": None, "type": None, "group": None, "workload": None, "batch": None}
    nothing |= {"metrics": {}, "feature_set": "none"}
    bare = [replace(profile, **nothing) for profile in profiles]
    yield (
        f"{machine()}; {len(profiles)} training profiles of cloud-hw-trainpred and {len(rates)} rates, {len(catalog)} GPUs, "
        f"{calls} predictions."
    )
    yield ""
    predictor = LatencyPredictor.load()
    for profile in profiles[:WARM_UP]:
        predictor.predict(profile)
    training = "training on {}, with its accuracy and intervals measured"
    rows = [
        timed(training.format("cloud-hw-trainpred alone"), lambda call: LatencyPredictor.fit(profiles, catalog), 1, "60 s"),
        timed(
            training.format("the shipped model's data"),
            lambda call: LatencyPredictor.fit(profiles + rates, catalog),
            1,
            "180 s",
        ),
        timed("loading the shipped model", lambda call: LatencyPredictor.load(), LOADS),
        timed("one prediction", lambda call: predictor.predict(profiles[call % len(profiles)]), calls, "15 ms (wall, p99)"),
        timed(
            "one with nothing given",
            lambda call: predictor.predict(bare[call % len(bare)]),
            calls,
            "10 ms (wall, median)",
        ),
    ]
    yield from markdown_table(COLUMNS, rows)
    sizes = [file.stat().st_size for file in SHIPPED.iterdir()]
    yield ""
    yield f"The shipped model is {sum(sizes) / 1e6:.2f} MB in {len(sizes)} files (target: 5 MB)."


def timed(what: str, call: Callable[[int], object], repeats: int, target: str = "") -> tuple[str, ...]:
    """Median and 99th percentile of the repeats, as a line of a table."""
    wall, cpu = [], []
    for repeat in range(repeats):
        began, began_cpu = time.perf_counter(), time.process_time()
        call(repeat)
        wall.append(time.perf_counter() - began)
        cpu.append(time.process_time() - began_cpu)
    cells = [text(float(np.percentile(times, share))) for times in (wall, cpu) for share in (50, 99)]
    return what, *(cells if repeats > 1 else [cells[0], "–", cells[2], "–"]), target


def text(seconds: float) -> str:
    """Seconds, or milliseconds below one."""
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1e3 * seconds:.2f} ms"


if __name__ == "__main__":
    parser = options(__doc__)
    parser.add_argument("--calls", type=int, default=400, help="predictions timed")
    chosen = parser.parse_args()
    publish(REGRESSOR, "speed", lines(chosen.calls), write=chosen.write)
