"""What k anchor workloads measured on a new GPU bring: protocol P4 on the public pairs, each GPU left out in turn.

    EPOCHCAST_SHARED=../shared python -m lab.speed.regressor.calibration [--write]

Errors are over the pairs into the new GPU whose workload is no anchor. The process's hyper-parameters were fixed before any of
these figures were seen (regressor/calibration.py).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from epochcast.regressor.answers import Answers
from epochcast.regressor.calibration import FEWEST, Calibration
from epochcast.regressor.errors import InputError
from epochcast.regressor.pairs import Pair, actual_ratio, at
from epochcast.regressor.recipes import DefaultRecipe
from epochcast.regressor.scoring import score
from lab.evaluate.latency.out_of_fold import out_of_fold
from lab.rivals.latency.prior import prior_log_ratio
from lab.speed.page import REGRESSOR, markdown_table, options, publish
from lab.speed.regressor.public_pairs import PublicPairs

COUNTS = (3, 5, 10, 20, 40)
DRAWS = 12


def lines() -> Iterator[str]:
    """MAPE by k for anchors drawn at random, as users take what runs there: mean over the draws, and their range."""
    public = PublicPairs.load()
    pairs, ratio = public.pairs, actual_ratio(public.pairs)
    groups = np.array([pair.source.group for pair in pairs])
    group_of = dict(zip(public.workloads.tolist(), groups.tolist(), strict=True))
    into = out_of_fold(pairs, "P4", DefaultRecipe())[2]
    assert into is not None
    one, route = np.ones(len(pairs)), np.full(len(pairs), "specifications")
    prior = Answers(prior_log_ratio(pairs), one, one, route, route, np.full(len(pairs), ""), np.full((len(pairs), 4), np.nan))

    draws = [
        {
            gpu: np.random.default_rng(draw).permutation(sorted(set(public.workloads[public.targets == gpu]))).tolist()
            for gpu in np.unique(public.targets).tolist()
        }
        for draw in range(DRAWS)
    ]

    def mape(base: Answers, count: int, orders: Mapping[str, Sequence[str]], of: np.ndarray | None = None) -> float:
        """Percent over the tested pairs; with ``of`` over those of these rows alone."""
        rows, answers = with_anchors(pairs, base, count, orders)
        tested = np.full(len(rows), True) if of is None else of[rows]
        return score(ratio[rows][tested], np.exp(answers.log_ratio)[tested]).mape

    def new_architecture(base: Answers, count: int, orders: Mapping[str, Sequence[str]]) -> float:
        """Test each architecture with anchors of the others; the recipe saw it on other GPUs, as in P4."""
        mapes, weights = [], []
        for group in np.unique(groups).tolist():
            foreign = {gpu: [name for name in order if group_of[name] != group] for gpu, order in orders.items()}
            mapes.append(mape(base, count, foreign, of=groups == group))
            weights.append(np.sum(groups == group))
        return float(np.average(mapes, weights=weights))

    def of_draws(by: Callable[[Answers, int, Mapping[str, Sequence[str]]], float], base: Answers) -> Iterator[str]:
        for count in COUNTS:
            mapes = [by(base, count, draw) for draw in draws]
            yield f"{np.mean(mapes):.1f} ({min(mapes):.1f}–{max(mapes):.1f})"

    rows = {
        "default": (mape, into),
        "default, its architecture not among the anchors": (new_architecture, into),
        "prior alone (no library)": (mape, prior),
    }
    cells = [(name, f"{mape(base, 0, draws[0]):.1f}", *of_draws(by, base)) for name, (by, base) in rows.items()]
    yield from markdown_table(("MAPE %, anchors", "0", *map(str, COUNTS)), cells)


def with_anchors(
    pairs: Sequence[Pair],
    base: Answers,
    count: int,
    orders: Mapping[str, Sequence[str]],
) -> tuple[NDArray[np.intp], Answers]:
    """Calibrate each left-out GPU on its first ``count`` anchors, and answer the other workloads' pairs into it.

    Args:
        pairs: measured pairs.
        base: answers for them by recipes fitted without their target GPU (protocol P4).
        count: anchor workloads per GPU; 0 leaves the answers as they are.
        orders: workloads per GPU in the order in which they become anchors.

    Returns:
        The rows tested, shape (m,), and their answers.

    Raises:
        InputError: ``count`` is neither 0 nor enough for a calibration, or leaves nothing to test.
    """
    if count and count < FEWEST:
        raise InputError(f"calibration with {count} anchors is not possible; give {FEWEST} or more, or 0 for none")
    left_out = np.array([pair.target_gpu.name for pair in pairs])
    workloads = np.array([str(pair.source.workload) for pair in pairs])
    tested: list[NDArray[np.intp]] = []
    answers: list[Answers] = []
    for gpu in np.unique(left_out).tolist():
        is_anchor = np.isin(workloads, list(orders[gpu][:count]))
        measured, test = (np.flatnonzero((left_out == gpu) & which) for which in (is_anchor, ~is_anchor))
        if not test.size:
            continue
        corrected = base[test]
        if count:
            calibration = Calibration.fit(gpu, at(pairs, measured), base[measured])
            corrected = calibration.correct(at(pairs, test), corrected)
        tested.append(test)
        answers.append(corrected)
    if not tested:
        raise InputError(f"{count} anchors leave no workload to test on any GPU; use fewer")
    return np.concatenate(tested), Answers.concatenate(answers)


if __name__ == "__main__":
    publish(REGRESSOR, "calibration", lines(), write=options(__doc__).parse_args().write)
