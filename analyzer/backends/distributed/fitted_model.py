"""What `epochcast fit distributed` fits, as a model's folder: efficiencies, and operator times where operators were given."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from numpy.typing import NDArray
from pydantic import AfterValidator, Field, model_validator

from epochcast.analyzer.backends.distributed.coefficients import BOUNDS, Coefficients
from epochcast.analyzer.backends.distributed.operator_time.features import Rates, width
from epochcast.analyzer.backends.distributed.operator_time.learned import Board, FamilyModel, OperatorModel
from epochcast.regressor.arrays import under
from epochcast.regressor.model_folder import Manifest, Name, Part, load, save
from epochcast.regressor.trees import Trees

SHIPPED = Path(__file__).with_name("shipped")
"""Efficiencies by `benchmarks/distributed/fit_coefficients.py`, operator times by `benchmarks/distributed/fit_operators.py`."""

_Log = Annotated[float, Field(ge=-60, le=20)]
_Family = Literal["linear", "bmm", "normalisation", "softmax", "elementwise"]


def _within_bounds(values: dict[str, float]) -> dict[str, float]:
    if values.keys() != BOUNDS.keys():
        raise ValueError(f"it must hold {', '.join(BOUNDS)}")
    for name, (low, high) in BOUNDS.items():
        if not low <= values[name] <= high:
            raise ValueError(f"{name} is {values[name]!r}; it must be between {low:g} and {high:g}")
    return values


class _FittedOn(Part):
    """The measured runs; none where the efficiencies are the built-in ones."""

    runs: Annotated[int, Field(ge=0)]
    gpus: list[Name]
    precisions: list[Name]
    parameters: tuple[Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)]] | None


class _RatesState(Part):
    gpu: Name
    dtype: Literal["float16", "bfloat16", "float32", "float64", "tf32"]
    compute: _Log
    memory: _Log
    dispatch: _Log


class _OperatorsState(Part):
    """An :class:`.operator_time.learned.OperatorModel` but for its trees."""

    boards: dict[Name, Board]
    families: Annotated[dict[_Family, Annotated[list[_RatesState], Field(min_length=1, max_length=1000)]], Field(min_length=1)]

    @model_validator(mode="after")
    def _has_its_boards(self) -> _OperatorsState:
        if strange := sorted({entry.gpu for rates in self.families.values() for entry in rates} - set(self.boards)):
            raise ValueError(f"there are rates for {strange[0]!r}, which is not among the boards")
        return self


class DistributedManifest(Manifest):
    """The whole of ``model.json``."""

    SCHEMA = "epochcast.distributed/v3"
    COMMAND = "epochcast fit distributed"

    coefficients: Annotated[dict[str, float], AfterValidator(_within_bounds)]
    fitted_on: _FittedOn
    operators: _OperatorsState | None


@dataclass(frozen=True)
class DistributedModel:
    """What was fitted.

    Attributes:
        coefficients: the efficiencies.
        operators: operator times; ``None`` where no operators were given.
        runs, gpus, precisions: how many measured runs set the efficiencies, on which GPUs and in which precisions.
        parameters: of the smallest and the largest model among them.
    """

    coefficients: Coefficients
    operators: OperatorModel | None = None
    runs: int = 0
    gpus: tuple[str, ...] = ()
    precisions: tuple[str, ...] = ()
    parameters: tuple[float, float] | None = None

    def save(self, folder: Path) -> None:
        """Write the model into a folder, whole or not at all.

        Raises:
            InputError: the folder holds something else or cannot be written.
        """
        state = {
            "coefficients": self.coefficients,
            "fitted_on": {
                "runs": self.runs,
                "gpus": self.gpus,
                "precisions": self.precisions,
                "parameters": self.parameters,
            },
            "operators": None if self.operators is None else _state(self.operators),
        }
        arrays: dict[str, NDArray[Any]] = {}
        for name, family in ({} if self.operators is None else self.operators.families).items():
            arrays |= under(name, family.trees.arrays())
        save(folder, DistributedManifest, state, arrays)

    @classmethod
    def load(cls, folder: Path = SHIPPED) -> DistributedModel:
        """Read what :meth:`save` wrote, the shipped model unless another is named.

        Raises:
            InputError: a file is missing, damaged, or of another kind.
        """
        manifest, arrays = load(folder, DistributedManifest)
        operators = None
        if (state := manifest.operators) is not None:
            families: dict[str, FamilyModel] = {}
            for name, kept in state.families.items():
                rates: dict[tuple[str, str], Rates] = {
                    (entry.gpu, entry.dtype): Rates(entry.compute, entry.memory, entry.dispatch) for entry in kept
                }
                families[name] = FamilyModel(Trees.of_arrays(arrays, name, width(name), boosted=True), rates)
            operators = OperatorModel(families, state.boards)
        on = manifest.fitted_on
        coefficients = Coefficients(**manifest.coefficients)
        return cls(coefficients, operators, on.runs, tuple(on.gpus), tuple(on.precisions), on.parameters)


def _state(model: OperatorModel) -> dict[str, Any]:
    """The operator model but for its trees."""
    return {
        "boards": model.boards,
        "families": {
            name: [{"gpu": gpu, "dtype": dtype, **asdict(rates)} for (gpu, dtype), rates in sorted(family.rates.items())]
            for name, family in model.families.items()
        },
    }
