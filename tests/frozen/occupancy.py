"""Occupancy and memory: what is predicted for networks, in training and modelled, and how well on measured trainings."""

from itertools import product

from .parts import FITTED, Cases, Part, answer, evaluated, tables

FEW, MORE = ("resnet50",), ("alexnet", "lenet", "vgg16", "mobilenet_v2", "lstm", "vit_b_16")
GPUS = "--gpu T4 --gpu 'A100 SXM4 40GB' --gpu 'H100 SXM5'"
SHARES = [
    *product(("cnn", "mlp"), ("sm_occupancy", "sm_active"), ("layers", "architecture")),
    *product(("cnn", "mlp"), ("sm_occupancy",), ("depth", "width")),
    *product(("cnn", "mlp"), ("peak_memory",), ("layers",)),
]


def predicted(*networks: str) -> Cases:
    """What is predicted for networks, in training and in inference."""
    return {
        name.replace("all", network, 1): row
        for network in networks
        for name, row in tables(answer(f"predict-model occupancy --network {network} {GPUS} --batch 32"), without=("model",))
    }


def measured(kind: str, label: str, protocol: str) -> Part:
    command = f"occupancy --data SHARED/occupancy/measured_{kind}.csv.gz --label {label} --protocol {protocol}"
    return Part(f"{kind}, {label}, {protocol}", evaluated(command), needs=("shared",), rel=FITTED)


PARTS = [
    Part(
        *("predicted", lambda: predicted(*FEW, *MORE), lambda: predicted(*FEW)),
        needs=("torch", "transformers", "timm"),
        rel=FITTED,
    ),
    *(measured(*one) for one in SHARES),
]
