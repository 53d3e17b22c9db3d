"""What the calibrated model learns from measured runs: nine efficiencies, each with what is believed before any run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Coefficients:
    """Efficiencies of hardware and software, dimensionless unless said. The defaults are the belief without any measured run.

    Attributes:
        gemm: share of the data sheet's FLOP/s that a large matrix product reaches.
        gemm_depth: inner dimension K at which a matrix product reaches half of that (elements).
        gemm_tail: waves of tiles that a product loses at its end.
        gemm_bandwidth: share of the memory bandwidth in products that memory bounds.
        bandwidth: share of the memory bandwidth in one-pass operators.
        launch: seconds that the host takes to launch one kernel; the device waits where it runs dry.
        node_link: share of the modelled speed that communication within a node reaches amid computation.
        network: share of the line rate that communication between nodes reaches, many groups at once.
        optimizer: share of the memory bandwidth in the weight update.
    """

    gemm: float = 0.80
    gemm_depth: float = 128.0
    gemm_tail: float = 0.5
    gemm_bandwidth: float = 0.85
    bandwidth: float = 0.80
    launch: float = 6e-6
    node_link: float = 0.80
    network: float = 0.70
    optimizer: float = 0.85
