"""The order of the answers: a GPU that is better by every count is not predicted slower.

Answers of several kinds are listed together (measured with telemetry, by other jobs, by data sheets), and a correction that
telemetry gives one GPU does not reach its neighbours; much of it is the hosts that the GPUs were measured in.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from epochcast.regressor.gpus import Gpu
from epochcast.regressor.precision import Precision, arithmetic_rate

Vector = NDArray[np.float64]

# Rate and bandwidth of a GPU that counts as better: closer, two GPUs are as good as equal. By choice (decision 0043).
_BETTER = 1.1
# How much slower it may still be predicted, log: measured rates of one release differ by as much (../shared/data/cross_gpu).
_SLACK = math.log(1.03)


def in_order(log_ratio: Vector, gpus: Sequence[Gpu], precisions: Iterable[Precision], kept: NDArray[np.bool_]) -> Vector:
    """Move the log ratios, shape (n,), as little as brings them into order.

    Each becomes the middle of the least and the greatest order-preserving ones around them, so that both of two contradicting
    answers give way; those that are kept do not, and the others go to their side.

    Args:
        log_ratio: of each GPU, 0 for the source.
        gpus: n of them, the source among them.
        precisions: that the job may compute in; a better GPU is better in each.
        kept: which were measured with jobs like this one, the source among them, shape (n,).
    """
    better = _is_better(gpus, list(precisions))
    of_better = np.where(better, log_ratio[:, None] - _SLACK, -np.inf).max(axis=0)
    of_worse = np.where(better, log_ratio[None] + _SLACK, np.inf).min(axis=1)
    ordered: Vector = (np.maximum(log_ratio, of_better) + np.minimum(log_ratio, of_worse)) / 2
    below = np.where(better & kept[:, None], log_ratio[:, None] - _SLACK, -np.inf).max(axis=0)
    above = np.where(better & kept[None], log_ratio[None] + _SLACK, np.inf).min(axis=1)
    return np.where(kept, log_ratio, np.clip(ordered, below, np.maximum(above, below)))


def _is_better(gpus: Sequence[Gpu], precisions: Sequence[Precision]) -> NDArray[np.bool_]:
    """Whether the GPU of a row is better than that of a column, shape (n, n)."""
    counts = [
        [gpu.memory_bandwidth for gpu in gpus],
        *([arithmetic_rate(gpu, precision) for gpu in gpus] for precision in precisions),
    ]
    each = [np.array(count) for count in counts]
    better: NDArray[np.bool_] = np.all([count[:, None] >= _BETTER * count[None] for count in each], axis=0)
    return better
