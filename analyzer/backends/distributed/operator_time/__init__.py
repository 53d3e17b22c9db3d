"""How long an operator takes: one file per source, all answering the same question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from epochcast.analyzer.backends.distributed.models.graph import Operator


class OperatorTimes(Protocol):
    """A source of operator times."""

    def seconds(self, operators: Sequence[Operator]) -> NDArray[np.float64]:
        """Seconds of each operator on the device of this source, shape (n,); communication counts as 0.

        Raises:
            InputError: the source has no answer for one of them.
        """
        ...


@dataclass(frozen=True)
class RememberedTimes:
    """The times of ``source``; jobs that share a block, such as those of one search, share its answer."""

    source: OperatorTimes
    _known: dict[int, tuple[Sequence[Operator], NDArray[np.float64]]] = field(default_factory=dict, repr=False)

    def seconds(self, operators: Sequence[Operator]) -> NDArray[np.float64]:
        """Seconds of each operator, shape (n,), as the source says; by the identity of the sequence, which is kept alive."""
        if id(operators) not in self._known:
            self._known[id(operators)] = operators, self.source.seconds(operators)
        return self._known[id(operators)][1]
