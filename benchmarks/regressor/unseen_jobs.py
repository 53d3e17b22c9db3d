"""A model fitted on some jobs, asked about others, as a user's is: architectures and workloads that it has never seen, mixed.

    EPOCHCAST_SHARED=../shared python -m benchmarks.regressor.unseen_jobs [--write]

Each split leaves two architectures and a quarter of the other workloads out; intervals are those that the predictor gives,
measured on the training side alone. Two minutes in all.
"""

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from epochcast.regressor import evaluate_split, load_catalog, load_corpus

from .public_pairs import DATA, header, line, options, report

_SPLITS = 10
_SEED = 0


def lines() -> Iterator[str]:
    """The table, a line per split and their mean."""
    profiles, catalog, rng = load_corpus(DATA), load_catalog(), np.random.default_rng(_SEED)
    pairs_of_models = list(combinations(sorted({profile.group or "" for profile in profiles}), 2))
    yield from header(
        "left out, and a quarter of the rest", "n", "MAPE %", "median %", "in 90 % interval", "least by source", "half-width %"
    )
    figures = []
    for number in rng.permutation(len(pairs_of_models))[:_SPLITS].tolist():
        models = pairs_of_models[number]
        others = sorted({profile.workload or "" for profile in profiles if profile.group not in models})
        out = set(rng.choice(others, len(others) // 4, replace=False).tolist())
        left_out = [profile.group in models or profile.workload in out for profile in profiles]
        train, test = (
            [one for one, leaves in zip(profiles, left_out, strict=True) if leaves == side] for side in (False, True)
        )
        result = evaluate_split(train, test, catalog)
        assert result.inside is not None and result.interval_half_width is not None
        least = min(by["inside"] for by in result.by["source_gpu"].values())
        figures.append((result.n, result.mape, result.median_ape, result.inside, least, result.interval_half_width))
        yield _row(" and ".join(models), figures[-1])
    yield _row("mean", tuple(np.mean(figures, axis=0).tolist()))


def _row(name: str, figures: tuple[float, ...]) -> str:
    n, mape, median, inside, least, width = figures
    return line(name, f"{n:.0f}", f"{mape:.2f}", f"{median:.2f}", f"{inside:.1%}", f"{least:.1%}", f"{width:.1f}")


if __name__ == "__main__":
    assert __doc__ is not None
    report("unseen_jobs", lines(), options(__doc__))
