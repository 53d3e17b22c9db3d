"""How rivals make one vector of all operators."""

from torch import Tensor


def mean_over_present(nodes: Tensor, present: Tensor) -> Tensor:
    """Without padding; shapes (B, N, width) and (B, N) -> (B, width)."""
    shown = present[:, :, None].to(nodes.dtype)
    mean: Tensor = (nodes * shown).sum(dim=1) / shown.sum(dim=1)
    return mean
