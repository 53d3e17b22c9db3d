"""Accuracy by the protocols P2 to P4 next to the trivial baselines.

    EPOCHCAST_SHARED=../shared python -m lab.speed.regressor.accuracy [--write]

What `python -m lab.evaluate regressor` measures, for the default and recipes without telemetry. The paper's models take
minutes for one shuffle (`paper.py`). P1 leaks (`paper.py` shows it). Some minutes, most of them for the default.
"""

from collections.abc import Iterator

from epochcast.regressor import load_catalog
from epochcast.regressor.pairs import make_pairs
from lab.corpora import load_corpus
from lab.evaluate.latency import Evaluation, evaluate
from lab.speed.page import REGRESSOR, markdown_table, options, publish
from lab.speed.regressor.public_pairs import DATA

PROTOCOLS = ("P2", "P3", "P4")
FITTED = ("default", "data-sheet-ridge", "pair-median")
# They learn nothing from training, so every protocol gives the same answers.
FIXED = ("prior", "same-latency", "flops-ratio", "bandwidth-ratio", "geometric-mean")
COLUMNS = ("MAPE %", "median %", "P90 %", "fastest GPU right", "regret %", "inside 90 % interval", "median half-width %")


def lines() -> Iterator[str]:
    """The fitted recipes by every protocol, the others once."""
    profiles, catalog = load_corpus(DATA), load_catalog()
    pairs = make_pairs(profiles, catalog)
    workloads = {pair.source.workload for pair in pairs}
    yield f"{len(profiles)} profiles, {len(pairs)} pairs of {len(workloads)} workloads, true epoch latency on the source."
    yield ""
    asked = [(protocol, recipe) for recipe in FITTED for protocol in PROTOCOLS] + [(PROTOCOLS[0], recipe) for recipe in FIXED]
    results = (evaluate(profiles, catalog, protocol=protocol, recipe=recipe) for protocol, recipe in asked)
    rows = (
        [recipe, protocol if recipe in FITTED else "any", *figures(result)]
        for (protocol, recipe), result in zip(asked, results, strict=True)
        if result.n
    )
    yield from markdown_table(("recipe", "protocol", *COLUMNS), rows)


def figures(result: Evaluation) -> list[str]:
    """The cells of :data:`COLUMNS`."""
    interval = [f"{100 * result.inside:.1f} %", f"{result.half_width:.1f}"] if result.recipe == "default" else ["", ""]
    return [
        f"{result.mape:.2f}",
        f"{result.median_ape:.2f}",
        f"{result.p90_ape:.1f}",
        f"{100 * result.fastest_right:.1f} % of {result.fastest_n}",
        f"{result.fastest_regret:.1f}",
        *interval,
    ]


if __name__ == "__main__":
    publish(REGRESSOR, "accuracy", lines(), write=options(__doc__).parse_args().write)
