"""What is learned from measured runs: a few efficiencies, each with what is believed before any run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Coefficients:
    """Efficiencies of trainings, dimensionless unless said. The defaults are the belief without any measured run.

    Attributes:
        products: seconds of matrix products and convolutions in a training per second that they take alone, where clocks do not
            fall.
        attention: the same of fused attention, whose kernels also differ by release and mask.
        throttled: the same once more in 16 bits and less on GPUs of compute capability 9 and more, whose products draw all the
            power that they may and were measured in short bursts.
        passes: the same of one-pass operators.
        gap: seconds from the end of one kernel to the next one's full speed.
        node_link: modelled speed that communication within a node reaches amid computation; what overlaps it passes 1.
        network: share of the line rate that communication between nodes reaches, many groups at once.
        optimizer: share of the memory bandwidth in the weight update.
        doubling: share of an iteration that each doubling of nodes adds, as all wait for the slowest.
    """

    products: float = 1.0
    attention: float = 1.0
    throttled: float = 1.15
    passes: float = 1.0
    gap: float = 3e-6
    node_link: float = 0.80
    network: float = 0.70
    optimizer: float = 0.85
    doubling: float = 0.01
