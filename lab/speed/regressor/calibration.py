"""What k anchor workloads measured on a new GPU bring: protocol P4 on the public pairs, each GPU left out in turn.

    EPOCHCAST_SHARED=../shared python -m lab.speed.regressor.calibration [--write]

Errors are over the pairs into the new GPU whose workload is no anchor. The process's hyper-parameters were fixed before any of
these figures were seen (regressor/calibration.py).
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from epochcast.regressor.answers import Answers
from epochcast.regressor.pairs import actual_ratio
from epochcast.regressor.recipes import DefaultRecipe
from epochcast.regressor.scoring import score
from lab.evaluate.latency.anchored import chosen_anchors, with_anchors
from lab.evaluate.latency.out_of_fold import out_of_fold
from lab.rivals.latency.prior import prior_log_ratio
from lab.speed.page import REGRESSOR, markdown_table, options, publish
from lab.speed.regressor.public_pairs import PublicPairs

COUNTS = (3, 5, 10, 20, 40)
DRAWS = 12
SHORT_S = 8.0

Orders = Mapping[str, Sequence[str]]
"""Of each GPU the workloads, in the order in which they become anchors."""


def lines() -> Iterator[str]:
    """MAPE by k, for several ways to choose the anchors."""
    public = PublicPairs.load()
    pairs, ratio = public.pairs, actual_ratio(public.pairs)
    groups = np.array([pair.source.group for pair in pairs])
    group_of = dict(zip(public.workloads.tolist(), groups.tolist(), strict=True))
    seconds = dict(zip(zip(public.workloads.tolist(), public.targets.tolist(), strict=True), public.actual, strict=True))
    into = out_of_fold(pairs, "P4", DefaultRecipe())[2]
    assert into is not None
    one, route = np.ones(len(pairs)), np.full(len(pairs), "specifications")
    prior = Answers(prior_log_ratio(pairs), one, one, route, route, np.full(len(pairs), ""), np.full((len(pairs), 4), np.nan))

    def mape(base: Answers, count: int, orders: Orders, of: np.ndarray | None = None) -> float:
        """Percent over the tested pairs; with ``of`` over those of these rows alone."""
        rows, answers = with_anchors(pairs, base, count, orders)
        tested = np.full(len(rows), True) if of is None else of[rows]
        return score(ratio[rows][tested], np.exp(answers.log_ratio)[tested]).mape

    def new_architecture(count: int) -> float:
        """Test each architecture with anchors of the others; the recipe saw it on other GPUs, as in P4."""
        mapes, weights = [], []
        for group in np.unique(groups).tolist():
            foreign = {gpu: [name for name in order if group_of[name] != group] for gpu, order in orders.items()}
            mapes.append(mape(into, count, foreign, of=groups == group))
            weights.append(np.sum(groups == group))
        return float(np.average(mapes, weights=weights))

    def of_draws(count: int) -> str:
        mapes = [mape(into, count, draw) for draw in draws]
        return f"{np.mean(mapes):.1f} ({min(mapes):.1f}–{max(mapes):.1f})"

    orders = {gpu: chosen_anchors(pairs, gpu) for gpu in np.unique(public.targets).tolist()}
    short = {gpu: [name for name in order if seconds[name, gpu] < SHORT_S] for gpu, order in orders.items()}
    draws = [
        {gpu: np.random.default_rng(draw).permutation(sorted(order)).tolist() for gpu, order in orders.items()}
        for draw in range(DRAWS)
    ]
    none = f"{mape(into, 0, orders):.1f}"
    rows = {
        "chosen": [none, *(f"{mape(into, count, orders):.1f}" for count in COUNTS)],
        f"chosen, epochs below {SHORT_S:.0f} s only": [none, *(f"{mape(into, count, short):.1f}" for count in COUNTS)],
        f"random, mean of {DRAWS} draws (range)": [none, *map(of_draws, COUNTS)],
        "chosen, on the prior alone (no library)": [f"{mape(prior, count, orders):.1f}" for count in (0, *COUNTS)],
        "chosen, its architecture not among the anchors": [none, *(f"{new_architecture(count):.1f}" for count in COUNTS)],
    }
    yield from markdown_table(("MAPE %, anchors", "0", *map(str, COUNTS)), [(name, *cells) for name, cells in rows.items()])


if __name__ == "__main__":
    publish(REGRESSOR, "calibration", lines(), write=options(__doc__).parse_args().write)
