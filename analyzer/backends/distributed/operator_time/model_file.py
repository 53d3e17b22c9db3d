"""The operator model on disk: ``operators.json`` (rates and boards) and one ``.npz`` of trees per family, checked when read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .....regressor.errors import InputError as RegressorInputError
from .....regressor.forest import Forest
from ....errors import InputError
from ....files import write_whole
from .boosting import Boosting
from .features import Rates, width
from .learned import Board, FamilyModel, OperatorModel

SHIPPED = Path(__file__).with_name("models")
"""The model that `benchmarks/distributed/fit_operators.py` fitted to NeuSight's five public GPUs."""

_FILE = "operators.json"
_LIMIT = 1_000_000

_Log = Annotated[float, Field(ge=-60, le=20, allow_inf_nan=False)]
_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Name = Annotated[str, Field(min_length=1, max_length=100)]
_Family = Literal["linear", "bmm", "normalisation", "softmax", "elementwise"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _RatesState(_Part):
    gpu: _Name
    dtype: Literal["float16", "bfloat16", "float32", "float64", "tf32"]
    compute: _Log
    memory: _Log
    dispatch: _Log


class _FamilyState(_Part):
    start: _Log
    rates: Annotated[list[_RatesState], Field(min_length=1, max_length=1000)]


class _BoardState(_Part):
    tdp: _Positive
    compute_capability: _Positive


class _ModelState(_Part):
    schema_: Annotated[Literal["epochcast.operators/v1"], Field(alias="schema")]
    boards: dict[_Name, _BoardState]
    families: Annotated[dict[_Family, _FamilyState], Field(min_length=1)]


def save_model(model: OperatorModel, folder: Path) -> None:
    """Write the model into a folder, which is made if it is not there.

    Raises:
        InputError: the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write the operator model to {str(folder)!r}: {error.strerror or error}") from error
    for name, family in model.families.items():
        family.boosting.forest.save(folder / f"{name}.npz")
    text = json.dumps(
        {
            "schema": "epochcast.operators/v1",
            "boards": {name: vars(board) for name, board in model.boards.items()},
            "families": {
                name: {
                    "start": family.boosting.start,
                    "rates": [
                        {"gpu": gpu, "dtype": dtype, **vars(rates)} for (gpu, dtype), rates in sorted(family.rates.items())
                    ],
                }
                for name, family in model.families.items()
            },
        },
        indent=1,
    )
    write_whole(folder / _FILE, lambda file: file.write(text.encode()))


def load_model(folder: Path = SHIPPED) -> OperatorModel:
    """Read an operator model, the shipped one unless told otherwise.

    Raises:
        InputError: a file is missing, damaged, or not what :func:`save_model` writes.
    """
    path = folder / _FILE
    try:
        if path.stat().st_size > _LIMIT:
            raise InputError(f"{path.name} is larger than {_LIMIT} bytes; it is no operator model")
        state = _ModelState.model_validate_json(path.read_bytes())
    except OSError as error:
        raise InputError(f"{str(folder)!r} holds no operator model ({error.strerror or error}); fit one anew") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        key = ".".join(str(part) for part in first["loc"]) or "the file"
        raise InputError(f"{path.name}: {key} is wrong ({first['msg'][:200]}); fit the operator model anew") from error
    boards = {name: Board(one.tdp, one.compute_capability) for name, one in state.boards.items()}
    families: dict[str, FamilyModel] = {}
    for name, family in state.families.items():
        if strange := [one.gpu for one in family.rates if one.gpu not in boards]:
            raise InputError(f"{path.name}: {name} has rates of {strange[0]!r}, which is not among the boards; fit it anew")
        try:
            forest = Forest.load(folder / f"{name}.npz", width(name))
        except RegressorInputError as error:
            raise InputError(f"the operator model in {str(folder)!r} cannot be used: {error}") from error
        rates: dict[tuple[str, str], Rates] = {
            (one.gpu, one.dtype): Rates(one.compute, one.memory, one.dispatch) for one in family.rates
        }
        families[name] = FamilyModel(Boosting(family.start, forest), rates)
    return OperatorModel(families, boards)
