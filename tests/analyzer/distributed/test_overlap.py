"""Gradient reduction next to the backward pass: against buckets run one by one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochcast.analyzer.backends.distributed.iteration import BUCKET_BYTES, exposed_data_parallel


def one_by_one(backward: float, nbytes: float, latency: float, bandwidth: float, bucket: float) -> float:
    """Each bucket starts when it is full and the one before is done."""
    done, ready = 0.0, 0.0
    while ready < nbytes:
        size = min(bucket, nbytes - ready)
        ready += size
        done = max(done, backward * ready / nbytes) + latency + size / bandwidth
    return done - backward


@given(backward=st.floats(0, 2), buckets=st.floats(0.01, 60), latency=st.floats(0, 0.05), bandwidth=st.floats(1e7, 1e12))
def test_it_agrees_with_buckets_one_by_one(backward: float, buckets: float, latency: float, bandwidth: float) -> None:
    nbytes = buckets * BUCKET_BYTES
    exposed = exposed_data_parallel(backward, nbytes, lambda size: latency + size / bandwidth, overlap=True)
    assert exposed == pytest.approx(one_by_one(backward, nbytes, latency, bandwidth, BUCKET_BYTES), rel=1e-6, abs=1e-9)
