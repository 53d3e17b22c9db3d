"""Peak memory of this process."""

import mmap

import numpy as np
import pytest

from epochcast.analyzer.backends.occupancy.measurement import modelled_bench
from epochcast.analyzer.backends.occupancy.measurement.modelled_bench import forget_peak, held_bytes, peak_bytes

LARGE = 80_000_000


def test_the_peak_is_of_what_came_after_it_was_forgotten():
    if not forget_peak():
        pytest.skip("this system keeps no peak that can be forgotten")
    before = held_bytes()
    # Neither an array nor one large write: the allocator may keep what it held.
    with mmap.mmap(-1, LARGE) as held:
        for _ in range(LARGE // 1000):
            held.write(bytes(1000))
    assert peak_bytes() - before > 0.9 * LARGE
    assert forget_peak()
    assert peak_bytes() - before < 0.5 * LARGE


def test_a_system_that_does_not_tell(tmp_path, monkeypatch):
    monkeypatch.setattr(modelled_bench, "_STATUS", tmp_path / "nothing")
    monkeypatch.setattr(modelled_bench, "_CLEAR", tmp_path / "nowhere" / "clear_refs")
    assert np.isnan(peak_bytes())
    assert not forget_peak()
