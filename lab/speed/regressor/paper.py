"""The paper's Tables IV and V, its Figs. 11 and 12, and why random rows (P1) say nothing, on the public pairs.

    EPOCHCAST_SHARED=../shared python -m lab.speed.regressor.paper [PART]... [--write]

Half an hour where the predictions are not kept yet: the paper's stack takes minutes for each set of features and protocol.
Table VI is `paleo.py`.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin

from epochcast.regressor.features import UNAVAILABLE, exclude, paper_features
from epochcast.regressor.pairs import Pair
from epochcast.regressor.protocols import splits
from epochcast.regressor.recipes import DefaultRecipe, PaperRecipe
from epochcast.regressor.scoring import score
from lab.evaluate.latency.out_of_fold import out_of_fold
from lab.figures.scatter import scatter_figure
from lab.rivals.latency import RECIPES
from lab.rivals.latency.single_models import RandomForestRecipe, SomeFeatures
from lab.speed.page import REGRESSOR, markdown_table, part_options, publish_parts
from lab.speed.regressor.public_pairs import FIGURES, PROTOCOLS, SEED, PublicPairs

MODELS = ("paper", "default")
SINGLE_MODELS = ("random-forest", "catboost", "hist-gradient-boosting", "forest-catboost-mean", "default")
FEATURES = ("dynamic", "static", "all")
LONG_S = 30.0
RESAMPLES = 4000

# Table IV, MAPE and R². Not in the public data: A100 10.50 (0.85) and A10 12.89 (0.84); not in the paper: P100.
BY_SOURCE = {"T4": "11.67 (0.83)", "A10G": "15.82 (0.83)", "V100 SXM2 16GB": "13.77 (0.84)"}
# Table V; the text of section IV-C has 20.01 for static features, and Fig. 12 says 11.17 for all.
BY_FEATURES = {"dynamic": "71.61", "static": "20.1", "all": "11.7"}
# Section IV-C, on Fig. 12: 11.17, "16.7% over CatBoost, 20.2% over random forest, and 32% over HistGradientBoosting".
BY_STACKING = {"random-forest": "−20.2 %", "catboost": "−16.7 %", "hist-gradient-boosting": "−32 %"}

Measurement = tuple[str, float]


class LookUp(RegressorMixin, BaseEstimator):
    """Joins measurements (GPU, seconds) that training pairs connect; answers what a connected one of the target says.

    A workload that ran on four GPUs makes twelve pairs. With random rows most of its other pairs stand in training, and they
    name the answer: the latency on the source GPU, which is a feature, occurs there next to the latency on the target.
    """

    def fit(self, pairs: Sequence[Pair], y: None = None) -> Self:
        """Connect both ends of every training pair."""
        self.group_: dict[Measurement, set[Measurement]] = {}
        for pair in pairs:
            joined = self._group(_source(pair)) | self._group((pair.target_gpu.name, float(pair.target_s or np.nan)))
            self.group_.update(dict.fromkeys(joined, joined))
        return self

    def predict(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """Return seconds on the target, shape (n,), NaN where nothing connected is known of the target."""
        return np.array([self._answer(pair) for pair in pairs], dtype=np.float64)

    def _group(self, measurement: Measurement) -> set[Measurement]:
        return self.group_.get(measurement, {measurement})

    def _answer(self, pair: Pair) -> float:
        return next((seconds for gpu, seconds in self._group(_source(pair)) if gpu == pair.target_gpu.name), float("nan"))


def _source(pair: Pair) -> Measurement:
    return pair.source_gpu.name, float(pair.source.epoch_s or np.nan)


@dataclass(eq=False, repr=False)
class StackOfSome(SomeFeatures, PaperRecipe):
    """The stack on a part of the features."""


class InOrder(PaperRecipe):
    """The stack with scikit-learn's default inner folds: in the order of the pairs, so that each leaves whole models out."""

    def _regressor(self) -> Any:
        return super()._regressor().set_params(cv=self.cv)


def leak(data: PublicPairs) -> Iterator[str]:
    """What training has seen of each test pair, and what the look-up, which has no model at all, makes of it."""
    header = ("protocol", "workload in training", "its two runs swapped in training", "look-up answers", "its MAPE %")
    rows = []
    for protocol in PROTOCOLS:
        workload = swapped = 0
        for train, test in splits(data.pairs, protocol, SEED):
            trained = {(data.workloads[row], data.sources[row], data.targets[row]) for row in train}
            workload += np.isin(data.workloads[test], data.workloads[train]).sum()
            swapped += sum((data.workloads[row], data.targets[row], data.sources[row]) in trained for row in test)
        scores = score(data.actual, out_of_fold(data.pairs, protocol, LookUp(), SEED)[0])
        shares = (workload / len(data.pairs), swapped / len(data.pairs), scores.coverage)
        rows.append((protocol, *(f"{share:.1%}" for share in shares), f"{scores.mape:.3f}" if scores.n else "–"))
    yield from markdown_table(header, rows)


def ablation_features(data: PublicPairs) -> Iterator[str]:
    """Table V: dynamic features (the source's metrics), static ones (source/target ratios of attributes), or all.

    The paper does not say whether the source latency, its third kind of input, belongs to each set; both are shown.
    """
    used, excluded = exclude(paper_features(data.pairs))
    reasons = Counter(reason.split()[0] for reason in excluded.values())
    yield (
        f"The exclusion rule (section III-A) keeps {len(used)} of {len(used) + len(excluded)} features: "
        + ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())
        + ". Unavailable is what nvidia-smi does not read or a GPU does not have (NVLink). The others:"
    )
    yield ""
    yield from (f"- `{name}`: {reason}" for name, reason in excluded.items() if reason != UNAVAILABLE)
    yield ""
    rows = []
    for protocol in PROTOCOLS:
        kinds: list[type[StackOfSome | RandomForestRecipe]] = [StackOfSome] if protocol in ("P1", "P2") else []
        kinds.append(RandomForestRecipe)
        recipes = [kind(features=features) for kind in kinds for features in FEATURES]
        recipes += [RandomForestRecipe(features=features, latency=False) for features in FEATURES]
        for recipe in recipes:
            model = "`paper`" if isinstance(recipe, PaperRecipe) else "`random-forest`"
            features = f"{recipe.features}, latency" if recipe.latency else recipe.features
            figures = data.figures(data.predicted(recipe, protocol), protocol)
            rows.append((protocol, model, features, *figures, BY_FEATURES[recipe.features]))
        figures = data.figures(data.predicted(DefaultRecipe(), protocol), protocol)
        rows.append((protocol, "`default`", "its own", *figures, "–"))
    yield from markdown_table(("protocol", "model", "features", *FIGURES, "the paper's MAPE %"), rows)


def ablation_stacking(data: PublicPairs) -> Iterator[str]:
    """Fig. 12: the stack against its models alone, the mean of its two members, and the default recipe."""
    rows = []
    for protocol in PROTOCOLS:
        stack = data.predicted(PaperRecipe(), protocol)
        rows.append((protocol, "`paper`", *data.figures(stack, protocol), "–", "–"))
        for model in SINGLE_MODELS:
            predicted = data.predicted(RECIPES[model](), protocol)
            figures = data.figures(predicted, protocol)
            rows.append((protocol, f"`{model}`", *figures, _change(data, stack, predicted), BY_STACKING.get(model, "–")))
        if protocol == "P2":
            figures = data.figures(data.predicted(InOrder(), protocol), protocol)
            rows.append((protocol, "`paper`, inner folds in order", *figures, "–", "–"))
    yield from markdown_table(("protocol", "model", *FIGURES, "the stack's MAPE against it", "the paper's claim"), rows)


def _change(data: PublicPairs, stack: NDArray[np.float64], other: NDArray[np.float64]) -> str:
    """The change of MAPE from ``other`` to ``stack``, with a 90 % interval by bootstrap over workloads.

    Pairs of one workload are not independent, so that workloads are drawn, and not pairs.
    """
    errors = np.abs(np.column_stack([stack, other]) / data.actual[:, None] - 1)
    _, workload = np.unique(data.workloads, return_inverse=True)
    per_workload = np.zeros((workload.max() + 1, 2))
    np.add.at(per_workload, workload, errors)
    drawn = np.random.default_rng(0).multinomial(len(per_workload), [1 / len(per_workload)] * len(per_workload), RESAMPLES)
    sums = drawn @ per_workload
    low, high = np.quantile(100 * (sums[:, 0] / sums[:, 1] - 1), [0.05, 0.95])
    of_stack, of_other = errors.sum(axis=0)
    return f"{100 * (of_stack / of_other - 1):+.1f} % ({low:+.1f} to {high:+.1f})".replace("-", "−")


def source_gpus(data: PublicPairs) -> Iterator[str]:
    """Table IV: MAPE in percent and, in brackets, R² of the pairs out of each GPU."""
    gpus = sorted(set(data.sources))
    groups = [*(data.sources == gpu for gpu in gpus), np.full(len(data.pairs), True)]
    rows = [("the paper", "its stack", *(BY_SOURCE.get(gpu, "–") for gpu in gpus), "11.7")]
    for protocol in PROTOCOLS:
        for model in MODELS:
            predicted = data.predicted(RECIPES[model](), protocol)
            scores = [score(data.actual[here], predicted[here]) for here in groups]
            rows.append((protocol, f"`{model}`", *(f"{of_gpu.mape:.2f} ({of_gpu.r2:.2f})" for of_gpu in scores)))
    rows.append(("n", "", *(f"{here.sum()}" for here in groups)))
    yield from markdown_table(("protocol", "model", *gpus, "all"), rows)


def scatter(data: PublicPairs, draw: bool) -> Iterator[str]:
    """Fig. 11: how many pairs are near the measured seconds, how far long epochs are off, and the pictures on request."""
    long = data.actual > LONG_S
    rows, pictures = [], []
    for protocol, meaning in {"P2": "new workload", "P3": "new architecture", "P4": "new GPU"}.items():
        predicted = {model: data.predicted(RECIPES[model](), protocol) for model in MODELS}
        for model, seconds in predicted.items():
            error = np.abs(seconds / data.actual - 1)
            shares = (f"{np.mean(error <= bound):.1%}" for bound in (0.1, 0.2))
            ratio = np.median(seconds[long] / data.actual[long])
            rows.append((protocol, f"`{model}`", *shares, f"{error.size}", f"{ratio:.2f} (median)", f"{long.sum()}"))
        if draw:
            figure = scatter_figure(data.actual, predicted, data.sources, data.targets)
            path = REGRESSOR.save_picture(figure, f"scatter_{protocol.lower()}")
            pictures += ["", f"![{protocol}, {meaning}: predicted against measured seconds]({path})"]
    above = f"predicted/measured above {LONG_S:.0f} s"
    yield from markdown_table(("protocol", "model", "within 10 %", "within 20 %", "n", above, "n"), rows)
    yield from pictures


if __name__ == "__main__":
    chosen, public = part_options(__doc__), PublicPairs.load()
    parts = {
        "leak": leak(public),
        "ablation_features": ablation_features(public),
        "ablation_stacking": ablation_stacking(public),
        "source_gpus": source_gpus(public),
        "scatter": scatter(public, chosen.write),
    }
    publish_parts(REGRESSOR, parts, chosen)
