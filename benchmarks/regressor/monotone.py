"""Whether a GPU that is better on its data sheet is ever told slower, pair by pair.

    python benchmarks/regressor/monotone.py [--model FOLDER]

A GPU is better where its arithmetic rate in the precision asked about, its FP32 rate without credit for dual issue and its
memory bandwidth are all 10 % higher; it should not be told more than 3 % slower. Asked are five GPUs in every precision: with
the telemetry of an image network, of one whose GPU waits for its host, and with none. Half a minute.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations, product
from pathlib import Path
from typing import NamedTuple

from epochcast.regressor import Gpu, Predictor, Profile
from epochcast.regressor.precision import PRECISIONS, Precision, arithmetic_rate
from epochcast.regressor.profile import RATIOS

SOURCES = ("T4", "V100 SXM2 16GB", "A100 SXM4 80GB", "H100 SXM5", "RTX 4090")
EXAMPLE = Path(__file__).parents[2] / "analyzer" / "service" / "example_profile.json"
BUSY = {"busy": 1.0, "waits": 0.25}  # what activities are multiplied by
BETTER, SLOWER = 1.10, 1.03  # what counts as better, and as told slower


class Violation(NamedTuple):
    """A better GPU that is told slower than a worse one, by a factor; how both were answered, and whether rates are known."""

    source: str
    precision: Precision
    better: str
    worse: str
    factor: float
    routes: str
    known: str


def on(gpu: Gpu, example: Profile, of: Gpu, precision: Precision, busy: float) -> Profile:
    """The example as another GPU would show it: power by TDP, the clock by boost clock, and activities times ``busy``."""
    factors = dict.fromkeys(RATIOS, busy) | {"power": gpu.tdp / of.tdp, "sm_clock": gpu.boost_clock / of.boost_clock}
    metrics = {name: {k: v * factors.get(name, 1) for k, v in held.items()} for name, held in example.metrics.items()}
    return replace(example, gpu=gpu.name, precision=precision, metrics=metrics)


def is_better(one: Gpu, other: Gpu, precision: Precision) -> bool:
    """All three rates are higher by the factor."""
    rates = [(arithmetic_rate(gpu, precision), gpu.effective_flops, gpu.memory_bandwidth) for gpu in (one, other)]
    return all(mine >= BETTER * theirs for mine, theirs in zip(*rates, strict=True))


def violations(predictor: Predictor, profile: Profile, precision: Precision) -> Iterator[Violation]:
    """Those among the answers for one profile of this precision."""
    gpus, knows = predictor.catalog, predictor.recipe.speeds_.speeds_.knows
    for one, other in permutations(predictor.predict(profile), 2):
        factor, pair = one.ratio / other.ratio, (gpus[one.gpu], gpus[other.gpu])
        if factor > SLOWER and is_better(*pair, precision):
            known = "/".join("measured" if knows(gpu) else "new" for gpu in pair)
            yield Violation(profile.gpu, precision, one.gpu, other.gpu, factor, f"{one.route}/{other.route}", known)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", type=Path, help="a trained model in place of the shipped one")
    predictor = Predictor.load(parser.parse_args().model)
    example, found = Profile.from_json(json.loads(EXAMPLE.read_text("utf-8"))), list[Violation]()
    for source, precision in product(SOURCES, PRECISIONS):
        asked = {k: on(predictor.catalog[source], example, predictor.catalog["T4"], precision, f) for k, f in BUSY.items()}
        asked["none"] = replace(asked["busy"], metrics={}, feature_set="none")
        for kind, profile in asked.items():
            found += (here := list(violations(predictor, profile, precision)))
            print(f"{source:15} {precision:6} {kind:6} {len(here):4}")
    for column in ("routes", "known", "better", "worse"):
        print(f"by {column}: {dict(Counter(getattr(one, column) for one in found).most_common())}")
    for one in sorted(found, key=lambda one: -one.factor):
        print(*one, sep=" | ")
