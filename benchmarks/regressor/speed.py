"""How long training, loading and predicting take, how large the shipped model is, and the forest beside scikit-learn's own.

    EPOCHCAST_SHARED=../shared python -m benchmarks.regressor.speed [--calls 400] [--write]

Times are of one process, wall clock with CPU time beside it: on a busy machine they part, and the second is ours. A prediction
is one profile for all GPUs of the catalogue, without --explain; every call has another profile of cloud-hw-trainpred. Without
its precision each is answered three times: on the whole, as FP32 code, and in mixed precision.
"""

import argparse
import os
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import sklearn
from sklearn.ensemble import ExtraTreesRegressor

from epochcast.regressor import Predictor, load_catalog, load_corpus
from epochcast.regressor.derived import static_features
from epochcast.regressor.pairs import actual_ratio, make_pairs
from epochcast.regressor.predictor import SHIPPED
from epochcast.regressor.trees import Trees

from .public_pairs import DATA, RATES, header, line, report

WARM_UP = 5
LOADS = 10


def main() -> None:
    """Print the tables, and put them into docs/regressor.md if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=400, help="predictions timed")
    parser.add_argument("--write", action="store_true", help="put the part into docs/regressor.md")
    chosen = parser.parse_args()
    report("speed", lines(chosen.calls), chosen)


def lines(calls: int) -> Iterator[str]:
    """Both tables."""
    profiles, rates, catalog = load_corpus(DATA), load_corpus(RATES), load_catalog()
    yield (
        f"{machine()}; {len(profiles)} training profiles of cloud-hw-trainpred and {len(rates)} rates, {len(catalog)} GPUs, "
        f"{calls} predictions."
    )
    yield ""
    yield from header("what", "wall, median", "wall, p99", "CPU, median", "CPU, p99", "target")
    for what, data, target in (
        ("cloud-hw-trainpred alone", profiles, "60 s"),
        ("the shipped model's data", profiles + rates, "180 s"),
    ):
        measured = f"training on {what}, with its accuracy and intervals measured"
        yield row(measured, lambda call, data=data: Predictor.fit(data, catalog), 1, target)
    yield row("loading the shipped model", lambda call: Predictor.load(), LOADS, "")
    predictor = Predictor.load()
    for profile in profiles[:WARM_UP]:
        predictor.predict(profile)
    for what, asked in (
        ("one prediction", profiles),
        ("the same, precision not known", [replace(profile, precision=None) for profile in profiles]),
    ):
        yield row(what, lambda call, asked=asked: predictor.predict(asked[call % len(asked)]), calls, "15 ms (wall, p99)")
    size = sum(file.stat().st_size for file in SHIPPED.iterdir())
    yield ""
    yield f"The shipped model is {size / 1e6:.2f} MB in {len(list(SHIPPED.iterdir()))} files (target: 5 MB)."
    yield ""
    yield from peer(predictor, len(catalog), calls)


def peer(predictor: Predictor, rows: int, calls: int) -> Iterator[str]:
    """Time trees as arrays beside the same trees in scikit-learn, for as many rows as a prediction has."""
    recipe = predictor.recipe
    assert recipe.correction_ is not None
    pairs = make_pairs(load_corpus(DATA), load_catalog())
    X = np.c_[recipe.correction_.features_.matrix(pairs), static_features(pairs)]
    model = ExtraTreesRegressor(recipe.trees, min_samples_leaf=recipe.min_samples_leaf, random_state=recipe.random_state)
    model.fit(X, np.log(actual_ratio(pairs)))
    forest, asked = Trees.of_forest(model), X[:: len(X) // rows][:rows]
    apart = np.abs(forest.predict(asked) - model.predict(asked)).max()
    yield f"The trees alone, {recipe.trees} of them and {rows} rows a call; log ratios at most {apart:.0e} apart:"
    yield ""
    yield from header("what", "wall, median", "wall, p99", "CPU, median", "CPU, p99", "target")
    yield row("arrays (`regressor/trees.py`)", lambda call: forest.predict(asked), calls, "")
    yield row(f"scikit-learn {sklearn.__version__} `ExtraTreesRegressor.predict`", lambda call: model.predict(asked), calls, "")


def row(what: str, call: Callable[[int], object], repeats: int, target: str) -> str:
    """Median and 99th percentile of the repeats, as one line of a table."""
    wall, cpu = [], []
    for repeat in range(repeats):
        began, began_cpu = time.perf_counter(), time.process_time()
        call(repeat)
        wall.append(time.perf_counter() - began)
        cpu.append(time.process_time() - began_cpu)
    cells = [text(float(np.percentile(times, share))) for times in (wall, cpu) for share in (50, 99)]
    return line(what, *(cells if repeats > 1 else [cells[0], "–", cells[2], "–"]), target)


def text(seconds: float) -> str:
    """Seconds, or milliseconds below one."""
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1e3 * seconds:.2f} ms"


def machine() -> str:
    """CPU model, cores and load: what an absolute time is worth nothing without."""
    cpuinfo = Path("/proc/cpuinfo")
    found = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    model = next((one.split(":", 1)[1].strip() for one in found if one.startswith("model name")), platform.processor())
    return f"{model}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"


if __name__ == "__main__":
    main()
