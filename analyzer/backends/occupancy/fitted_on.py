"""What a predictor was fitted on, and how far a question lies outside of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .labelled_samples import LabelledSamples
from .sample import Sample

_APPLYING = ("batch", "image_size", "channels", "sequence", "hidden", "layers")
_BEYOND = 1.05  # a range ends where rounding does not matter


@dataclass(frozen=True)
class FittedOn:
    """The rows that a predictor was fitted on.

    Attributes:
        rows: how many.
        networks: rows by network.
        gpus, precisions: of the rows.
        words: operator types of the graphs (``graph/vocabulary.py``).
        ranges: least and largest of the sizes of a configuration, where they apply, of ``nodes`` and ``edges`` of its
            graph, and of ``flops`` of a step.
    """

    rows: int
    networks: Mapping[str, int]
    gpus: tuple[str, ...]
    precisions: tuple[str, ...]
    words: tuple[str, ...]
    ranges: Mapping[str, tuple[float, float]]

    @classmethod
    def of(cls, data: LabelledSamples) -> FittedOn:
        """Look through all rows."""
        told = [_sizes(sample) for sample in data.samples]
        ranges = {}
        for name in dict.fromkeys(key for one in told for key in one):
            values = [one[name] for one in told if name in one]
            ranges[name] = (float(min(values)), float(max(values)))
        return cls(
            rows=len(data.samples),
            networks={str(name): int(count) for name, count in data.points["network"].value_counts(sort=False).items()},
            gpus=tuple(sorted(data.points["gpu"].unique().tolist())),
            precisions=tuple(sorted(data.points["precision"].unique().tolist())),
            words=tuple(sorted({word for sample in data.samples for word in set(sample.graph.words)})),
            ranges=ranges,
        )

    def notes(self, samples: Sequence[Sample]) -> list[str]:
        """What of some samples no fitted row was like, a sentence each."""
        return [*self._kinds(samples), *self._beyond(samples)]

    def _kinds(self, samples: Sequence[Sample]) -> list[str]:
        notes = []
        if others := sorted({one.gpu.name for one in samples} - set(self.gpus)):
            taught = "one GPU does not teach" if len(self.gpus) == 1 else "so few GPUs hardly teach"
            notes.append(
                f"no row of {' or '.join(others)} was fitted on, only of {', '.join(self.gpus)}: {taught} how GPUs differ"
            )
        if others := sorted({one.configuration.precision for one in samples} - set(self.precisions)):
            notes.append(f"no row at {' or '.join(others)} was fitted on, only at {', '.join(self.precisions)}")
        if unknown := operators(samples):
            notes.append(f"operators without a word of their own count as one unknown kind: {', '.join(unknown)}")
        known = set(self.words)
        unseen = sorted({word for one in samples for word in one.graph.words if word not in known})
        if unseen:
            share = max(float(np.mean([word not in known for word in one.graph.words])) for one in samples)
            notes.append(f"no network that it was fitted on has {', '.join(unseen)} ({100 * share:.0f} % of the operators)")
        return notes

    def _beyond(self, samples: Sequence[Sample]) -> list[str]:
        notes = []
        told = [_sizes(sample) for sample in samples]
        for name, (low, high) in self.ranges.items():
            asked = [one[name] for one in told if name in one]
            out = [value for value in asked if not low / _BEYOND <= value <= high * _BEYOND]
            if out:
                ends = " to ".join(dict.fromkeys(f"{end:.4g}" for end in (min(asked), max(asked))))
                lies = "lies outside" if len(out) == len(asked) else "reaches out"
                notes.append(f"{name.replace('_', ' ')} {ends} {lies} of what was fitted on, {low:.4g} to {high:.4g}")
        return notes


def operators(samples: Sequence[Sample]) -> list[str]:
    """Operators of the samples' graphs that no word stands for, in their order."""
    return sorted({name for one in samples for name in one.graph.unknown})


def _sizes(sample: Sample) -> dict[str, float]:
    graph, configuration = sample.graph, sample.configuration
    applying = {name: float(getattr(configuration, name)) for name in _APPLYING}
    sizes = {"nodes": len(graph), "edges": graph.edges.shape[1], "flops": float(graph.column("flops").sum())}
    return {name: value for name, value in applying.items() if value} | sizes
