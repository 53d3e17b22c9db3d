"""Whether a better GPU is ever predicted slower, and what preventing that costs, as tables.

    EPOCHCAST_SHARED=../shared python -m lab.speed.regressor.order [--write]

A GPU is better where its arithmetic rate in every likely precision and its memory bandwidth are 10 % higher; it must not be
predicted more than 3 % slower. Asked are five GPUs in every precision: with the telemetry of an image network, of one whose GPU
waits for its host, and with none. The second table scores answers in order next to those that the recipe gives. Five minutes.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations, product

import numpy as np

from epochcast.analyzer.jobs.questions import example_profile
from epochcast.regressor import Catalog, Gpu, LatencyPredictor, Profile, load_catalog
from epochcast.regressor.order import in_order
from epochcast.regressor.pairs import Pair, actual_ratio, make_pairs
from epochcast.regressor.precision import PRECISIONS, Precision, arithmetic_rate, likely_precisions
from epochcast.regressor.profile import RATIOS
from epochcast.regressor.profile_json import read_profile
from epochcast.regressor.protocols import splits
from epochcast.regressor.recipes import DefaultRecipe
from epochcast.regressor.scoring import score
from lab.corpora import load_corpus
from lab.speed.page import REGRESSOR, markdown_table, options, publish
from lab.speed.regressor.public_pairs import DATA, RATES

SOURCES = ("T4", "V100 SXM2 16GB", "A100 SXM4 80GB", "H100 SXM5", "RTX 4090")
KINDS = {"an image network": 1.0, "one that waits for its host": 0.25, "no telemetry": None}
BETTER, SLOWER = 1.1, 1.03


def lines() -> Iterator[str]:
    """Both tables."""
    predictor, catalog = LatencyPredictor.load(), load_catalog()
    example, rows = read_profile(example_profile()), []
    for kind, busy in KINDS.items():
        by_recipe: list[float] = []
        ordered: list[float] = []
        for source, precision in product(SOURCES, PRECISIONS):
            profile = on(catalog[source], example, catalog["T4"], precision, busy)
            others = [Pair(profile, catalog[source], gpu) for gpu in catalog.values() if gpu.name != source]
            ratios = np.exp(predictor.answer(others).log_ratio).tolist()
            raw = {source: 1.0} | {pair.target_gpu.name: ratio for pair, ratio in zip(others, ratios, strict=True)}
            by_recipe += violations(raw, catalog, precision)
            ordered += violations({answer.gpu: answer.ratio for answer in predictor.predict(profile)}, catalog, precision)
        worst = f"{max(by_recipe):.2f}x" if by_recipe else ""
        rows.append((kind, f"{len(by_recipe)}", worst, f"{len(ordered)}"))
    header = ("predicted from", "pairs in which the better one is predicted slower, by the recipe", "worst", "in order")
    yield from markdown_table(header, rows)
    yield ""
    pairs = make_pairs([*load_corpus(DATA), *load_corpus(RATES)], catalog)
    columns = ("left out", "pairs of", "n", "MAPE % by the recipe", "in order", "moved by over 1 %")
    yield from markdown_table(columns, [row for protocol in ("P2", "P4") for row in cost(pairs, catalog, protocol)])


def on(gpu: Gpu, example: Profile, of: Gpu, precision: Precision, busy: float | None) -> Profile:
    """The example as another GPU would show it: power by TDP, the clock by boost clock, and activities times ``busy``."""
    if busy is None:
        return replace(example, gpu=gpu.name, precision=precision, metrics={}, feature_set="none")
    factors = dict.fromkeys(RATIOS, busy) | {"power": gpu.tdp / of.tdp, "sm_clock": gpu.boost_clock / of.boost_clock}
    metrics = {name: {k: v * factors.get(name, 1) for k, v in held.items()} for name, held in example.metrics.items()}
    return replace(example, gpu=gpu.name, precision=precision, metrics=metrics)


def violations(ratios: dict[str, float], catalog: Catalog, precision: Precision) -> list[float]:
    """By which factor a better GPU is predicted slower, where it is."""
    factors = []
    for one, other in permutations(ratios, 2):
        rates = [(arithmetic_rate(catalog[name], precision), catalog[name].memory_bandwidth) for name in (one, other)]
        better = all(mine >= BETTER * theirs for mine, theirs in zip(*rates, strict=True))
        if better and ratios[one] > (SLOWER + 1e-9) * ratios[other]:
            factors.append(ratios[one] / ratios[other])
    return factors


def cost(pairs: Sequence[Pair], catalog: Catalog, protocol: str) -> Iterator[tuple[str, ...]]:
    """Both scored on pairs that the recipe was fitted without, as a job that nobody measured."""
    gpus = list(catalog.values())
    names = [gpu.name for gpu in gpus]
    by_origin: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for train, test in splits(pairs, protocol):
        recipe = DefaultRecipe().fit([pairs[row] for row in train.tolist()])
        by_source: dict[int, list[Pair]] = defaultdict(list)
        for row in test.tolist():
            by_source[id(pairs[row].source)].append(pairs[row])
        for of_source in by_source.values():
            source, profile = of_source[0].source_gpu, of_source[0].source
            answers = recipe.answer([Pair(profile, source, gpu) for gpu in gpus if gpu != source])
            raw = np.insert(answers.log_ratio, names.index(source.name), 0.0)
            kept = np.insert(answers.routes == "telemetry", names.index(source.name), True)
            ordered = in_order(raw, gpus, likely_precisions(profile, source)[0], kept)
            origin = "CNNs with telemetry" if profile.origin == "cloud_hw_trainpred" else "rates of equal work"
            targets = [names.index(pair.target_gpu.name) for pair in of_source]
            by_origin[origin] += zip(actual_ratio(of_source), np.exp(raw[targets]), np.exp(ordered[targets]), strict=True)
    for origin, ratios in sorted(by_origin.items()):
        actual, before, after = np.array(ratios).T
        mape = (f"{score(actual, predicted).mape:.2f}" for predicted in (before, after))
        moved = np.abs(np.log(after / before)) > 0.01
        yield protocol, origin, f"{len(ratios)}", *mape, f"{100 * moved.mean():.0f} %"


if __name__ == "__main__":
    publish(REGRESSOR, "order", lines(), write=options(__doc__).parse_args().write)
