from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .sample import Sample


@dataclass(frozen=True)
class FittedRange:
    words: tuple[str, ...]
    ranges: Mapping[str, tuple[float, float]]

    @classmethod
    def of(cls, samples: Sequence[Sample]) -> FittedRange:
        return cls(tuple(sorted({w for s in samples for w in s.graph.words})), {})

    def unknown_operators(self, sample: Sample) -> tuple[str, ...]:
        return tuple(sorted(set(sample.graph.words) - set(self.words)))

    def beyond(self, sample: Sample) -> tuple[str, ...]:
        return ()
