"""Names of kernels that fit on a line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochcast.analyzer.backends.occupancy.launch.kernel_table import short_name


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("volta_sgemm_128x32_nt", "volta_sgemm_128x32_nt"),
        ("void at::native::(anonymous namespace)::softmax<4, at::native::Add>(int)", "softmax<4, Add>(int)"),
        ("void cutlass::Kernel<a_very_long_name_of_a_tile_128x128_32x3_nn_align4>", "cutlass::Kernel…32x3_nn_align4>"),
    ],
)
def test_both_ends_of_a_name_stay(name: str, short: str) -> None:
    assert short_name(name, 31) == short


@given(st.text(max_size=200), st.integers(5, 80))
def test_no_name_is_longer_than_asked_for(name: str, length: int) -> None:
    assert len(short_name(name, length)) <= length
