"""How much of what torchvision's networks read and write is kept for the backward pass, by torch's saved tensors.

Run: python -m lab.speed.convmeter.memory    (needs torch and torchvision; nothing is computed, all is on the meta device)
"""

import sys

import torch
from torch import Tensor, nn

from epochcast.analyzer.backends.convmeter.metrics import KINDS, known_metrics
from epochcast.analyzer.backends.convmeter.scaling import KEPT
from epochcast.analyzer.backends.network.find import find_network
from lab.speed.page import options

IMAGE_SIZE = 224
BATCHES = (2, 8)


def main() -> None:
    """Print the share of each network, and those out of the range that is assumed."""
    options(__doc__, page=False).parse_args()
    table = known_metrics()
    whole = table[(table["block"] == "") & (table["image_size"] == IMAGE_SIZE)]
    shares = {}
    for _, row in whole.iterrows():
        moved = sum(row[f"{kind}_traffic"] for kind in KINDS)
        shares[row["network"]] = kept_elements(row["network"]) / moved
        print(f"{row['network']:24s} {shares[row['network']]:.2f}", flush=True)
    print(f"{len(shares)} networks: {min(shares.values()):.2f} to {max(shares.values()):.2f}")
    if outside := [name for name, share in shares.items() if not KEPT[0] <= share <= KEPT[1]]:
        sys.exit(f"outside of {KEPT[0]} to {KEPT[1]}: {', '.join(outside)}")


def kept_elements(name: str) -> float:
    """FP32 elements that one more image of a batch keeps from the forward to the backward pass."""
    network, (image,) = find_network(name, IMAGE_SIZE)
    network.train()
    fewer, more = (_saved_bytes(network, image.expand(batch, *image.shape[1:])) for batch in BATCHES)
    return (more - fewer) / (BATCHES[1] - BATCHES[0]) / 4


def _saved_bytes(network: nn.Module, images: Tensor) -> int:
    """Bytes of all storages saved in a forward pass but for those of the parameters."""
    own = {parameter.untyped_storage()._cdata for parameter in network.parameters()}
    saved: dict[int, Tensor] = {}  # held, so that no other storage takes the place of one

    def save(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in own:
            saved[storage._cdata] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor):
        network(images)
    return sum(tensor.untyped_storage().nbytes() for tensor in saved.values())


if __name__ == "__main__":
    main()
