"""Why random rows (P1) say nothing: a look-up that has no model at all answers them without error.

Run: EPOCHCAST_SHARED=../shared python -m benchmarks.regressor.leak [--write]

A workload that ran on four GPUs makes twelve pairs. With random rows most of its other pairs stand in training, and they name
the answer: the latency on the source GPU, which is a feature, occurs there beside the latency on the target. The look-up joins
training pairs that share a latency, to the last digit, on the same GPU, and reads the answer off; it uses no telemetry.
"""

from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin

from epochcast.regressor.pairs import Pair
from epochcast.regressor.protocols import splits
from epochcast.regressor.scoring import score

from .public_pairs import PROTOCOLS, SEED, PublicPairs, header, line, options, report

Measurement = tuple[str, float]


class LookUp(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Joins measurements (GPU, seconds) that training pairs connect; answers what a connected one of the target says."""

    def fit(self, pairs: Sequence[Pair], y: None = None) -> Self:
        """Connect both ends of every training pair."""
        self.group_: dict[Measurement, set[Measurement]] = {}
        for pair in pairs:
            joined = self._group(_source(pair)) | self._group((pair.target_gpu.name, float(pair.target_s or np.nan)))
            self.group_.update(dict.fromkeys(joined, joined))
        return self

    def predict(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """Return seconds on the target, shape (n,), NaN where nothing connected is known of the target."""
        return np.array([self._answer(pair) for pair in pairs], dtype=np.float64)

    def _group(self, measurement: Measurement) -> set[Measurement]:
        return self.group_.get(measurement, {measurement})

    def _answer(self, pair: Pair) -> float:
        found = [seconds for gpu, seconds in self._group(_source(pair)) if gpu == pair.target_gpu.name]
        return found[0] if found else float("nan")


def _source(pair: Pair) -> Measurement:
    return pair.source_gpu.name, float(pair.source.epoch_s or np.nan)


def seen_before(data: PublicPairs, protocol: str) -> tuple[float, float]:
    """Shares of test pairs whose workload, and whose own two measurements the other way round, stand in training."""
    workload = reverse = 0
    for train, test in splits(data.pairs, protocol, SEED):
        trained = {(data.workloads[row], data.sources[row], data.targets[row]) for row in train}
        workload += np.isin(data.workloads[test], data.workloads[train]).sum()
        reverse += sum((data.workloads[row], data.targets[row], data.sources[row]) in trained for row in test)
    return workload / len(data.pairs), reverse / len(data.pairs)


def table(data: PublicPairs) -> Iterator[str]:
    """What training has seen of each test pair, and what the look-up makes of it."""
    yield from header("protocol", "workload in training", "its two runs swapped in training", "look-up answers", "its MAPE %")
    for protocol in PROTOCOLS:
        workload, reverse = seen_before(data, protocol)
        found = score(data.actual, data.predicted(LookUp(), protocol))
        error = f"{found.mape:.3f}" if found.n else "–"
        yield line(protocol, f"{workload:.1%}", f"{reverse:.1%}", f"{found.coverage:.1%}", error)


if __name__ == "__main__":
    chosen = options(__doc__ or "")
    report("leak", table(PublicPairs.load(chosen.keep)), chosen)
