"""Gradient reduction over the data ranks, as far as the backward pass does not hide it.

torch's DistributedDataParallel (Li et al. 2020, section 3.2) reduces buckets of gradients as soon as all of a bucket are
there, one bucket after the other, while the backward pass goes on. With several micro-batches only the last one's backward
pass has something to reduce (``no_sync``), so only that one hides anything. What computation loses to the communication
next to it is not modelled.
"""

from __future__ import annotations

from collections.abc import Callable

BUCKET_BYTES = 25 * 2**20
"""``bucket_cap_mb`` of torch.nn.parallel.DistributedDataParallel."""


def exposed_data_parallel(
    backward_seconds: float, gradient_bytes: float, reduce: Callable[[float], float], overlap: bool
) -> float:
    """Seconds of gradient reduction after the backward pass.

    Args:
        backward_seconds: of the last micro-batch on the rank; gradients become ready evenly over it.
        gradient_bytes: all gradients of the rank, in the dtype that is reduced.
        reduce: seconds of the collective for so many bytes, an all-reduce, or a reduce-scatter with ZeRO.
        overlap: False: one reduction of everything after the backward pass, as Megatron-LM does it by default.
    """
    if gradient_bytes <= 0:
        return 0.0
    if not overlap:
        return reduce(gradient_bytes)
    full_buckets, rest = divmod(gradient_bytes, BUCKET_BYTES)
    rest_seconds = reduce(rest) if rest else 0.0
    if not full_buckets:
        return rest_seconds
    bucket_seconds = reduce(BUCKET_BYTES)
    first_ready = backward_seconds * BUCKET_BYTES / gradient_bytes
    last_ready = first_ready * full_buckets
    # Buckets are equal and become ready at an even pace, so the last is delayed by the first of them or by none.
    done = max(first_ready + full_buckets * bucket_seconds, last_ready + bucket_seconds)
    return max(done, backward_seconds if rest else 0.0) + rest_seconds - backward_seconds
