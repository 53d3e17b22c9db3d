"""Which runs of several corpora count: each recording once, and for the regressor those on GPUs that the catalogue knows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ...regressor import Catalog
from ..errors import InputError
from .run import Run

_NAMED = 3


def union(runs: Iterable[Run]) -> list[Run]:
    """Every recording once, by its identity, in the order of time; whatever the order in which they are given.

    One that is there with and without its trace is kept with it. Raises InputError, naming them, for recordings of which two
    different rows are there.
    """
    kept: dict[tuple[str, str, str, float], Run] = {}
    conflicts = set()
    for run in runs:
        other = kept.setdefault(run.identity, run)
        if replace(other, trace=run.trace) != run:
            conflicts.add(run.identity)
        elif other.trace is None or (run.trace is not None and run.trace < other.trace):
            kept[run.identity] = run
    if conflicts:
        named = ", ".join(f"{run!r} ({workload}) on {gpu}" for gpu, workload, run, _ in sorted(conflicts)[:_NAMED])
        more = f" and {len(conflicts) - _NAMED} more" if len(conflicts) > _NAMED else ""
        raise InputError(
            f"the corpora hold different results of the same recording: {named}{more}; leave the wrong corpus out, "
            "or the row out of its table"
        )
    return sorted(kept.values(), key=lambda run: (run.recorded_at, run.identity))


def on_known_gpus(runs: Sequence[Run], catalog: Catalog) -> tuple[list[Run], list[str]]:
    """The runs on GPUs of the catalogue, and for each other device a sentence: how many runs it has, why they do not count."""
    reasons: dict[str, str] = {}
    for run in runs:
        if run.device == "cpu":
            reasons[run.profile.gpu] = "a CPU has no telemetry of a GPU to learn from"
            continue
        try:
            catalog.resolve(run.profile.gpu)
        except ValueError as error:  # the regressor's InputError: unknown or ambiguous
            reasons[run.profile.gpu] = str(error)
    counts = Counter(run.profile.gpu for run in runs)
    return [run for run in runs if run.profile.gpu not in reasons], [
        f"{counts[device]} {'run' if counts[device] == 1 else 'runs'} on {device} left out: {reason}"
        for device, reason in reasons.items()
    ]
