"""One Gaussian process per pair of GPUs, and how far a profile lies from the profiles that they were fitted on."""

import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .arrays import Arrays, under
from .inducing_gp import InducingGaussianProcess

Names = NDArray[np.str_]

# A process of fewer rows would be a guess: such a pair of GPUs is answered like one never seen. By choice
# (docs/decisions/0013).
FEWEST_ROWS = 5

# A process's time grows with the cube of its rows and its file with their square. Some hundred profiles fill the space between
# them; of more a random choice is taken, and of fewer where many pairs of GPUs share the file: this many numbers in all.
# By choice (docs/decisions/0013).
_MOST_ROWS = 500
_MOST_NUMBERS = 3_000_000


class PairProcesses:
    """Processes by (source GPU, target GPU), all over the same columns of unit scale."""

    def __init__(self, processes: Mapping[tuple[str, str], InducingGaussianProcess]) -> None:
        self._processes = dict(processes)

    @classmethod
    def fit(
        cls, X: NDArray[np.float64], y: NDArray[np.float64], sources: Names, targets: Names
    ) -> tuple[Self, NDArray[np.float64]]:
        """Fit on rows of shape (n, features), targets y of shape (n,), and names of shape (n,).

        Returns:
            The processes, and the weight of each row: 1 for one that its neighbours explain, less for an outlier.
        """
        processes, weights, rng = {}, np.ones(len(X)), np.random.default_rng(0)
        pairs = sorted(set(zip(sources.tolist(), targets.tolist(), strict=True)))
        most = min(_MOST_ROWS, math.isqrt(_MOST_NUMBERS // len(pairs)))
        for names in pairs:
            rows = np.flatnonzero((sources == names[0]) & (targets == names[1]))
            if len(rows) > most:
                rows = rng.choice(rows, most, replace=False)
            if len(rows) >= FEWEST_ROWS:
                processes[names] = InducingGaussianProcess().fit(X[rows], y[rows])
                weights[rows] = processes[names].weights_
        return cls(processes), weights

    def __contains__(self, names: object) -> bool:
        return names in self._processes

    def predict(
        self, X: NDArray[np.float64], sources: Names, targets: Names
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the mean of each row's own process, NaN without one, and how unknown the row is, shape (n,).

        The second is the share of prior variance left: 0 beside a training profile, 1 far from all. For a pair of GPUs without
        a process it is the smallest over the processes of the same source, and of all where the source was never seen.
        """
        mean, unknown = np.full(len(X), np.nan), np.ones(len(X))
        for source in sorted(set(sources.tolist())):
            rows = np.flatnonzero(sources == source)
            # One profile asked for thirty GPUs is thirty equal rows.
            distinct, row_of = np.unique(X[rows], axis=0, return_inverse=True)
            known = [names for names in self._processes if names[0] == source]
            smallest = np.ones(len(distinct))
            for names in known or self._processes:
                here, left = self._processes[names].predict_with_variance(distinct)
                smallest = np.minimum(smallest, left)
                own = targets[rows] == names[1] if known else np.zeros(len(rows), dtype=bool)
                mean[rows[own]], unknown[rows[own]] = here[row_of[own]], left[row_of[own]]
            foreign = np.isnan(mean[rows])
            unknown[rows[foreign]] = smallest[row_of[foreign]]
        return mean, unknown

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return every process's arrays, numbered; :meth:`restored` needs the names in their order."""
        numbered = [under(str(number), process.arrays()) for number, process in enumerate(self._processes.values())]
        return {name: array for arrays in numbered for name, array in arrays.items()}

    @property
    def names(self) -> list[tuple[str, str]]:
        """(source, target) of each process, in the order of the arrays."""
        return list(self._processes)

    @classmethod
    def restored(cls, names: list[tuple[str, str]], arrays: Arrays, features: int) -> Self:
        """Processes of the part ``processes`` of a model's arrays.

        Raises:
            InputError: an array is missing, or not of these processes.
        """
        processes = {
            pair: InducingGaussianProcess.of_arrays(arrays, f"processes.{number}", features)
            for number, pair in enumerate(names)
        }
        return cls(processes)
