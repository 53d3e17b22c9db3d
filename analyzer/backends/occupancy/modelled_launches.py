"""Occupancy without any fit: of the kernels that a model of the launches expects of each graph."""

from __future__ import annotations

from collections.abc import Sequence

from epochcast.analyzer.backends.occupancy.modelled_kernels import ModelledStep, kernels_of, occupancy_of
from epochcast.analyzer.backends.occupancy.sample import Sample

_MANY = 0.05
"""Share of launches with an assumed configuration from which on it is said."""


def modelled_step(sample: Sample) -> ModelledStep:
    """The launches of one step of a sample, summed up.

    Raises:
        InputError: the compute capability of the GPU is not known, or its precision.
    """
    return occupancy_of(sample.graph, sample.gpu, sample.configuration.precision)


def modelled_notes(samples: Sequence[Sample]) -> list[str]:
    """What makes the modelled launches of these samples less sure, a sentence each."""
    notes, assumed = [], 0.0
    for gpu, largest in {sample.gpu: sample for sample in samples}.items():
        launches = kernels_of(largest.graph, gpu, largest.configuration.precision).groupby("measured_on")["count"].sum()
        assumed = max(assumed, launches.get(0.0, 0.0) / launches.sum())
        if others := [str(near) for near in launches.index if near not in (0.0, gpu.compute_capability)]:
            known = gpu.compute_capability in launches
            lack, which = ("show some kernels only", "the others") if known else ("are not known", "kernels")
            notes.append(
                f"public traces of compute capability {gpu.compute_capability} {lack}: on {gpu.name} {which} are taken to be "
                f"launched as on {' and '.join(others)}"
            )
    if unknown := sorted({name for sample in samples for name in sample.graph.unknown}):
        notes.append(f"operators without a word of their own count as plain elementwise ones: {', '.join(unknown)}")
    if assumed > _MANY:
        notes.append(
            f"{100 * assumed:.0f} % of the launches have a configuration that no public trace shows, and that is assumed"
        )
    return notes
