"""The paper's Table V: dynamic features (the source's metrics), static ones (source/target ratios of attributes), or all.

Run: EPOCHCAST_SHARED=../shared python -m benchmarks.regressor.ablation_features [--keep DIR] [--write]

The paper does not say whether the source latency, its third kind of input, stands beside each set; shown is both. The stack
takes minutes for each set and protocol, the random forest seconds.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import chain

from epochcast.regressor.exclusion import UNAVAILABLE, exclude
from epochcast.regressor.features import paper_features
from epochcast.regressor.recipes import DefaultRecipe, PaperRecipe, RandomForestRecipe
from epochcast.regressor.recipes.raw_seconds import Features

from .public_pairs import FIGURES, PROTOCOLS, PublicPairs, header, line, options, report

FEATURES: tuple[Features, ...] = ("dynamic", "static", "all")

# Table V; the text of section IV-C has 20.01 for static features, and Fig. 12 says 11.17 for all.
CLAIMED = {"dynamic": "71.61", "static": "20.1", "all": "11.7"}

STACKED = ("P1", "P2")
"""Where the stack is fitted too."""


def exclusion(data: PublicPairs) -> Iterator[str]:
    """What the paper's rule leaves of its features on all pairs; a recipe applies it to its training pairs alone."""
    kept, dropped = exclude(paper_features(data.pairs))
    reasons = Counter(reason.split()[0] for reason in dropped.values())
    yield (
        f"The exclusion rule (section III-A) keeps {len(kept)} of {len(kept) + len(dropped)} features: "
        + ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())
        + ". Unavailable is what nvidia-smi does not read or a GPU does not have (NVLink). The others:"
    )
    yield ""
    for name, reason in dropped.items():
        if reason != UNAVAILABLE:
            yield f"- `{name}`: {reason}"
    yield ""


def table(data: PublicPairs) -> Iterator[str]:
    """One line per set of features, model and protocol."""
    yield from header("protocol", "model", "features", *FIGURES, "the paper's MAPE %")
    for protocol in PROTOCOLS:
        models: dict[str, type[PaperRecipe | RandomForestRecipe]] = {"random-forest": RandomForestRecipe}
        if protocol in STACKED:
            models = {"paper": PaperRecipe, **models}
        for model, recipe in models.items():
            for features in FEATURES:
                predicted = data.predicted(recipe(features), protocol)
                cells = data.figures(predicted, protocol)
                yield line(protocol, f"`{model}`", f"{features}, latency", *cells, CLAIMED[features])
        for features in FEATURES:
            predicted = data.predicted(RandomForestRecipe(features, latency=False), protocol)
            yield line(protocol, "`random-forest`", features, *data.figures(predicted, protocol), CLAIMED[features])
        predicted = data.predicted(DefaultRecipe(), protocol)
        yield line(protocol, "`default`", "its own", *data.figures(predicted, protocol), "–")


if __name__ == "__main__":
    chosen = options(__doc__ or "")
    public = PublicPairs.load(chosen.keep)
    report("ablation_features", chain(exclusion(public), table(public)), chosen)
