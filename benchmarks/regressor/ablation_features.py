"""The paper's Table V: dynamic features (the source's metrics), static ones (source/target ratios of attributes), or all.

Run: EPOCHCAST_SHARED=../shared python benchmarks/regressor/ablation_features.py [--keep DIR] [--write]

The paper does not say whether the source latency, its third kind of input, stands beside each set; shown is both.
"""

from collections.abc import Iterator
from typing import get_args

from public_pairs import FIGURES, PROTOCOLS, PublicPairs, header, line, options, report

from epochcast.regressor.recipes import DefaultRecipe, PaperRecipe, RandomForestRecipe
from epochcast.regressor.recipes.raw_seconds import Features

# Table V; the text of section IV-C has 20.01 for static features, and Fig. 12 says 11.17 for all.
CLAIMED = {"dynamic": "71.61", "static": "20.1", "all": "11.7"}


def table(data: PublicPairs) -> Iterator[str]:
    """One line per set of features, model and protocol; without latency the random forest alone, which takes seconds."""
    yield from header("protocol", "model", "features", *FIGURES, "the paper's MAPE %")
    for protocol in PROTOCOLS:
        for model, recipe in {"paper": PaperRecipe, "random-forest": RandomForestRecipe}.items():
            for features in reversed(get_args(Features)):
                predicted = data.predicted(recipe(features), protocol)
                yield line(
                    protocol, f"`{model}`", f"{features}, latency", *data.figures(predicted, protocol), CLAIMED[features]
                )
        for features in reversed(get_args(Features)):
            predicted = data.predicted(RandomForestRecipe(features, latency=False), protocol)
            yield line(protocol, "`random-forest`", features, *data.figures(predicted, protocol), CLAIMED[features])
        predicted = data.predicted(DefaultRecipe(), protocol)
        yield line(protocol, "`default`", "its own", *data.figures(predicted, protocol), "–")


if __name__ == "__main__":
    chosen = options(__doc__ or "")
    report("ablation_features", table(PublicPairs.load(chosen.keep)), chosen)
