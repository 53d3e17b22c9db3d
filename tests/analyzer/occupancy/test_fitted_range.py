"""What a fit has seen, and what it has not."""

from typing import Any

import pytest
from made_graph import made_graph

from epochcast.analyzer.backends.occupancy.configuration import NetworkConfiguration, Sample
from epochcast.regressor import load_catalog
from lab.occupancy.fitting import range_of

A100 = load_catalog().resolve("A100 SXM4 40GB")


def sample(*operators: dict[str, Any], batch: int = 8, unknown: dict[str, int] | None = None) -> Sample:
    return Sample(NetworkConfiguration("made", batch), made_graph(*operators, batch=batch, unknown=unknown), A100)


def convolution(inputs: int, outputs: int, groups: int = 1, flops: float = 1e9) -> dict[str, Any]:
    return {"word": "convolution", "input_features": inputs, "output_features": outputs, "groups": groups, "flops": flops}


RELU = {"word": "relu", "flops": 5}
NORM = {"word": "batch_norm", "input_features": 4096, "output_features": 4096}
LINEAR = {"word": "linear", "input_features": 5, "output_features": 7}
SEEN = range_of(
    [
        sample(convolution(3, 64), RELU, NORM, convolution(64, 2, flops=2e9)),
        sample(RELU, convolution(3, 100), batch=2),
        sample(LINEAR, batch=99),
    ]
)


@pytest.mark.parametrize(
    ("operators", "unknown", "words"),
    [
        ((convolution(3, 8), RELU), {}, ()),
        (
            (convolution(8, 8, 8), {"word": "attention"}, {"word": "unknown"}, {"word": "attention"}),
            {"mine::op": 1},
            ("grouped_convolution", "attention", "mine::op"),
        ),
    ],
)
def test_operators_that_no_fitted_network_has(
    operators: tuple[dict[str, Any], ...], unknown: dict[str, int], words: tuple[str, ...]
) -> None:
    assert SEEN.unknown_operators(sample(*operators, unknown=unknown)) == words


def test_sizes_that_no_fitted_network_has() -> None:
    inside = sample(convolution(100, 70, flops=1.5e9), convolution(70, 64, flops=1e9))
    assert SEEN.beyond([inside]) == []
    deep = sample(*[convolution(101, 101)] * 3, batch=16)
    assert SEEN.beyond([inside, deep]) == [
        "batch 16: measured networks with convolutions have 2 to 8",
        "depth 3: measured networks with convolutions have 1 to 2",
        "width 101: measured networks with convolutions have 64 to 100",
    ]
    assert SEEN.beyond([sample(convolution(3, 64, flops=9.0), batch=batch) for batch in (1, 9, 4)]) == [
        "batch 1 to 9: measured networks with convolutions have 2 to 8",
        "flops 9: measured networks with convolutions have 1e+09 to 3e+09",
    ]
