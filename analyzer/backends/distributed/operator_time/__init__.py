"""How long an operator takes: one file per source, all answering the same question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..graph import Operator


class OperatorTimes(Protocol):
    """A source of operator times."""

    def seconds(self, operators: Sequence[Operator]) -> NDArray[np.float64]:
        """Seconds of each operator on the device of this source, shape (n,); communication counts as 0.

        Raises:
            InputError: the source has no answer for one of them.
        """
        ...
