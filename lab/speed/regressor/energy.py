"""How wrong predicted power and energy are on the public pairs, next to simpler rules, as a Markdown table.

    EPOCHCAST_SHARED=../shared python -m lab.speed.regressor.energy

``true ratio`` isolates the rule for power: both latencies measured. P2, P3 and P4 take the ratio that ``default`` predicts for
a workload, model or GPU left out of its training. Measured energy is mean power times epoch seconds.
"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from epochcast.regressor import load_catalog
from epochcast.regressor.energy import mean_power, predict_energy, predict_power
from epochcast.regressor.pairs import Pair, actual_ratio
from epochcast.regressor.prediction import Prediction
from epochcast.regressor.recipes import DefaultRecipe
from epochcast.regressor.scoring import conformal_quantile, score
from lab.corpora import load_corpus
from lab.evaluate.latency.interval_scores import fold_wise
from lab.evaluate.latency.out_of_fold import out_of_fold
from lab.speed.page import markdown_table, options
from lab.speed.regressor.public_pairs import DATA, PublicPairs

RULES: dict[str, Callable[[float, Pair, float], float]] = {
    "ours": lambda watts, pair, ratio: predict_power(watts, pair.source_gpu, pair.target_gpu, ratio),
    "same energy": lambda watts, pair, ratio: watts / ratio,
    "root of TDP ratio": lambda watts, pair, ratio: watts * (pair.target_gpu.tdp / pair.source_gpu.tdp) ** 0.5,
    "same power": lambda watts, pair, ratio: watts,
    "TDP ratio": lambda watts, pair, ratio: watts * pair.target_gpu.tdp / pair.source_gpu.tdp,
}
COLUMNS = ("ratio", "rule", "power, MAPE / median %", "energy, MAPE / median %", "energy in its 90 % interval", "n")


def errors(predicted: NDArray[np.float64], actual: NDArray[np.float64]) -> str:
    """MAPE and median, percent."""
    scores = score(actual, predicted)
    return f"{scores.mape:.1f} / {scores.median_ape:.1f}"


def inside(pairs: list[Pair], ratios: NDArray[np.float64], half: NDArray[np.float64], joules: NDArray[np.float64]) -> float:
    """Share of measured energies inside the predicted interval."""
    hits = 0
    for pair, ratio, width, actual in zip(pairs, ratios.tolist(), half.tolist(), joules.tolist(), strict=True):
        seconds = (pair.source.epoch_s or 0.0) * ratio
        low, high = ratio * np.exp(-width), ratio * np.exp(width)
        asked = Prediction(pair.target_gpu.name, ratio, seconds, None, None, "", low, high, "ensemble", 1.0, ())
        energy = predict_energy(pair.source, asked, pair.source_gpu, pair.target_gpu)
        assert energy is not None and energy.joules is not None
        hits += energy.joules.low <= actual <= energy.joules.high
    return hits / len(pairs)


def lines() -> Iterator[str]:
    """The table, and the quantile that ``regressor/energy.py`` holds."""
    catalog, public = load_catalog(), PublicPairs.load()
    pairs, truth = public.pairs, actual_ratio(public.pairs)
    power = {(run.workload, catalog.resolve(run.gpu).name): mean_power(run) or np.nan for run in load_corpus(DATA)}
    source = [power[pair.source.workload, pair.source_gpu.name] for pair in pairs]
    actual = np.array([power[pair.source.workload, pair.target_gpu.name] for pair in pairs])
    rows, quantile = [], 0.0
    for protocol in ("true ratio", "P2", "P3", "P4"):
        ratios, half = truth, np.zeros(len(pairs))
        if protocol != "true ratio":
            predicted, folds, answers = out_of_fold(pairs, protocol, DefaultRecipe())
            assert answers is not None
            ratios = predicted / public.actual * truth
            half = fold_wise(np.log(predicted / public.actual), folds, answers)
        for name, rule in RULES.items():
            watts = np.array([rule(*row) for row in zip(source, pairs, ratios.tolist(), strict=True)])
            covered = f"{100 * inside(pairs, ratios, half, actual * public.actual):.1f} %" if name == "ours" else "–"
            energy = errors(watts * ratios / truth, actual)
            rows.append((protocol, name, errors(watts, actual), energy, covered, f"{len(pairs)}"))
            if (protocol, name) == ("true ratio", "ours"):
                quantile = conformal_quantile(np.log(watts / actual))
    yield from markdown_table(COLUMNS, rows)
    yield ""
    yield f"90 % quantile of |log error| of our rule with the true ratio: {quantile:.3f}"


if __name__ == "__main__":
    options(__doc__, page=False).parse_args()
    print("\n".join(lines()))
