"""Ordered (source, target) pairs: what a recipe learns from and answers for."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epochcast.regressor.errors import InputError
from epochcast.regressor.gpus import Catalog, Gpu
from epochcast.regressor.profile import Profile


@dataclass(frozen=True)
class Pair:
    """A job seen on a source GPU, and a target GPU for which its latency is wanted or known.

    Attributes:
        source: the profile on the source GPU.
        source_gpu: the catalogue entry of ``source.gpu``.
        target_gpu: the GPU to predict for.
        target_s: measured seconds per epoch on the target, ``None`` where it is the question.
    """

    source: Profile
    source_gpu: Gpu
    target_gpu: Gpu
    target_s: float | None = None

    @property
    def gpus(self) -> tuple[str, str]:
        """Catalogue names of source and target."""
        return self.source_gpu.name, self.target_gpu.name


def make_pairs(profiles: Sequence[Profile], catalog: Catalog) -> list[Pair]:
    """Pair every profile with every other GPU that as many of had the same workload, in the order of the profiles.

    Raises:
        InputError: a profile lacks its workload or its epoch seconds, its GPU is unknown, no workload ran on two GPUs, or it
            has seconds per step next to seconds per epoch.
    """
    by_work: dict[tuple[str, int], list[tuple[Profile, Gpu]]] = defaultdict(list)
    for number, profile in enumerate(profiles, start=1):
        if profile.workload is None or profile.epoch_s is None:
            lacks = "workload" if profile.workload is None else "epoch_s"
            raise InputError(f"profile {number} of {len(profiles)} ({profile.gpu}) has no {lacks}; training data needs it")
        by_work[profile.workload, profile.gpus].append((profile, catalog.resolve(profile.gpu)))
    for (workload, _), runs in by_work.items():
        if len(units := {str(profile.unit) for profile, _ in runs}) > 1:
            raise InputError(f"workload {workload!r} has seconds per {' and per '.join(sorted(units))}; give all per epoch")
    pairs = [
        Pair(source, source_gpu, target_gpu, target.epoch_s)
        for runs in by_work.values()
        for source, source_gpu in runs
        for target, target_gpu in runs
        if source_gpu != target_gpu
    ]
    if not pairs:
        gpus = ", ".join(sorted({gpu.name for runs in by_work.values() for _, gpu in runs}))
        raise InputError(
            f"no workload of the {len(profiles)} profiles ran on two GPUs (they are of {gpus or 'none'}); no ratio can be "
            "learnt from them: measure the same workloads on a second GPU, e.g. with the same campaign plan, and give both"
        )
    return pairs


def at(pairs: Sequence[Pair], rows: NDArray[np.intp]) -> list[Pair]:
    """The pairs in some rows, shape (m,)."""
    return [pairs[row] for row in rows.tolist()]


def gpu_names(pairs: Sequence[Pair]) -> tuple[NDArray[np.str_], NDArray[np.str_]]:
    """Catalogue names of each pair's source and target, shape (n,) each."""
    names = np.array([pair.gpus for pair in pairs], dtype=np.str_).reshape(-1, 2)
    return names[:, 0], names[:, 1]


def source_seconds(pairs: Sequence[Pair]) -> NDArray[np.float64]:
    """Epoch or step seconds on the source GPU, shape (n,).

    Raises:
        InputError: a profile has none.
    """
    if any(pair.source.epoch_s is None for pair in pairs):
        raise InputError("a profile without epoch seconds has a ratio but no latency on the target; use the ratio")
    return np.array([pair.source.epoch_s for pair in pairs], dtype=np.float64)


def target_seconds(pairs: Sequence[Pair]) -> NDArray[np.float64]:
    """Measured epoch seconds on the target GPU, shape (n,).

    Raises:
        InputError: a pair is a question, not a measurement.
    """
    if any(pair.target_s is None for pair in pairs):
        raise InputError("a pair has no measured seconds on the target; fit and evaluate on measured pairs only")
    return np.array([pair.target_s for pair in pairs], dtype=np.float64)


def actual_ratio(pairs: Sequence[Pair]) -> NDArray[np.float64]:
    """Measured target/source ratio, shape (n,)."""
    return target_seconds(pairs) / source_seconds(pairs)
