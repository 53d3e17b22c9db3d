"""What is fitted, as a model's folder: efficiencies and operator times."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epochcast.analyzer.backends.distributed.operator_time.learned import FamilyModel, OperatorModel, Rates
from epochcast.regressor.model_folder import Manifest, load
from epochcast.regressor.trees import Trees

SHIPPED = Path(__file__).with_name("shipped")
"""By `lab/speed/distributed/fit_shipped.py`."""


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


class DistributedManifest(Manifest):
    """The whole of ``model.json``."""

    SCHEMA = "epochcast.distributed/v4"
    COMMAND = "fit distributed"

    coefficients: Coefficients
    fitted_on: dict[str, Any]
    operators: dict[str, Any]


@dataclass(frozen=True)
class DistributedModel:
    """What was fitted.

    Attributes:
        coefficients: the efficiencies.
        operators: operator times.
        gpus: on which runs were measured that set the efficiencies.
        parameters: of the smallest and the largest model among these runs.
    """

    coefficients: Coefficients
    operators: OperatorModel
    gpus: tuple[str, ...] = ()
    parameters: tuple[float, float] | None = None

    @classmethod
    def load(cls, folder: Path = SHIPPED) -> DistributedModel:
        """Read a fitted model, the shipped one unless another is named.

        Raises:
            InputError: a file is missing, damaged, or of another kind.
        """
        manifest, arrays = load(folder, DistributedManifest)
        state, on = manifest.operators, manifest.fitted_on
        families = {
            name: FamilyModel(Trees(**arrays[name]), {(rates.pop("gpu"), rates.pop("dtype")): Rates(**rates) for rates in kept})
            for name, kept in state["families"].items()
        }
        boards = {gpu: (board["tdp"], board["compute_capability"]) for gpu, board in state["boards"].items()}
        parameters = None if on["parameters"] is None else tuple(on["parameters"])
        return cls(manifest.coefficients, OperatorModel(families, boards), tuple(on["gpus"]), parameters)
