"""What Paleo knows of one layer."""

from dataclasses import dataclass


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
