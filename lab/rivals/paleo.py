"""How long a training step takes by Paleo: operations over FLOP/s and bytes over bandwidth, layer by layer.

Qi, Sparks and Talwalkar, "Paleo: A Performance Model for Deep Neural Networks", ICLR 2017, section 3, and their code
(TalwalkarLab/paleo, `flops_profiler.py`). Without its choice between cuDNN's algorithms, which asks cuDNN 4 on a GPU: every
convolution is a matrix product (its option `--use_only_gemm`). With one GPU nothing is communicated; the way of the images from
the host is left out too: at 16 GB/s it would take 15 to 98 ms per epoch of the public data.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epochcast.regressor import Gpu

PERCENT_OF_PEAK = 0.62
"""Platform percent of peak: the share of a GPU's data-sheet speed that the software reaches.

The authors' value for a network that TensorFlow trains on one GPU (`scripts/exp_case_inception.sh`). Theirs range from 0.21
(`exp_case_firecaffe.sh`) to 1 (their default).
"""

_UPDATE_FLOPS = 2
_UPDATE_TRAFFIC = 3
"""Of each weight: read it, read its gradient, write it."""


@dataclass(frozen=True)
class Layer:
    """One layer; all figures but ``weights`` are for one image.

    Attributes:
        kind: class of the torch module, such as ``Conv2d``.
        flops: floating-point operations of the forward pass; a multiplication and its addition are two.
        inputs: elements read.
        outputs: elements written.
        weights: elements of kernel and bias, 0 where nothing is learnt.
    """

    kind: str
    flops: float
    inputs: int
    outputs: int
    weights: int


def predict_step_seconds(
    layers: Sequence[Layer], gpu: Gpu, batch: int, dtype_bytes: int = 4, percent_of_peak: float = PERCENT_OF_PEAK
) -> float:
    """Predict the seconds of one step of SGD: forward and backward pass over ``batch`` images, and the update of the weights.

    Args:
        layers: the network, from `lab/speed/regressor/paleo_layers.py`, or a sum of layers.
        gpu: its ``effective_flops`` and ``memory_bandwidth`` are the peak. The data sheet's FLOP/s of an A10G count a second
            issue that training does not see (``Gpu.effective_flops``).
        batch: images per step.
        dtype_bytes: bytes of an element.
        percent_of_peak: above 0; as in the authors' code it holds for memory traffic as well as for computing. It may come
            out above 1 where a library needs fewer operations than a matrix product (Winograd's convolution of 3 x 3).
    """
    forward = sum(_pass_seconds(layer, gpu, batch, dtype_bytes) for layer in layers)
    backward = sum(
        # Two gradients, by the input and by the weights, cost what the forward pass costs. The images need none.
        ((number > 0) + (layer.weights > 0)) * _pass_seconds(layer, gpu, batch, dtype_bytes)
        for number, layer in enumerate(layers)
    )
    weights = sum(layer.weights for layer in layers)
    update = _seconds(_UPDATE_FLOPS * weights, _UPDATE_TRAFFIC * weights * dtype_bytes, gpu)
    return (forward + backward + update) / percent_of_peak


def predict_forward_seconds(
    layers: Sequence[Layer], gpu: Gpu, batch: int, dtype_bytes: int = 4, percent_of_peak: float = PERCENT_OF_PEAK
) -> float:
    """Predict the seconds of one forward pass, as of a batch of validation; arguments as :func:`predict_step_seconds`."""
    return sum(_pass_seconds(layer, gpu, batch, dtype_bytes) for layer in layers) / percent_of_peak


def fit_percent_of_peak(at_full_peak: NDArray[np.float64], measured: NDArray[np.float64]) -> float:
    """Fit the one constant, to seconds predicted at ``percent_of_peak=1`` and measured ones, shape (n,) each.

    Of all constants it has the least MAPE on them: with r = predicted/measured and c = 1/constant, the sum of |c·r − 1| is
    least where c is the median of 1/r, weighted by r.
    """
    ratios = np.sort(at_full_peak / measured)
    weight_below = np.cumsum(ratios)
    return float(ratios[np.searchsorted(weight_below, weight_below[-1] / 2)])


def _pass_seconds(layer: Layer, gpu: Gpu, batch: int, dtype_bytes: int) -> float:
    """T(u) = R + C + W of section 3: read the inputs and the weights, compute, write the outputs, one after the other."""
    elements = batch * (layer.inputs + layer.outputs) + layer.weights
    return _seconds(batch * layer.flops, elements * dtype_bytes, gpu)


def _seconds(flops: float, traffic: float, gpu: Gpu) -> float:
    return flops / gpu.effective_flops + traffic / gpu.memory_bandwidth
