"""The paper's baselines of occupancy, by name: each is loaded, with PyTorch, when it is made."""

from lab.occupancy.models import MODELS, network

_NETWORKS = {
    "mlp": "GraphMlp",
    "lstm": "Lstm",
    "transformer": "GraphTransformer",
    "dnnperf": "DnnPerf",
    "brp-nas": "BrpNas",
}

MODELS.update(
    {name: network(f"{__name__}.{name.replace('-', '_')}", architecture, name) for name, architecture in _NETWORKS.items()}
)

__all__ = ["MODELS"]
