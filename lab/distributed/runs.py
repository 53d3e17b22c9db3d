"""Measured training runs on several GPUs: vTrain's public table and a user's own CSV."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, ValidationError

from epochcast.analyzer.backends.distributed.job import TrainingConfiguration
from epochcast.analyzer.errors import InputError

_VTRAIN = {
    "Parameters (billion)": "parameters",
    "# GPUs": "gpus",
    "global batch": "global_batch",
    "micro batch": "micro_batch",
    "hidden size": "hidden",
    "attention heads": "heads",
    "# layers": "layers",
    "sequence length": "sequence_length",
    "tensor parallelism": "tensor",
    "data parallelism": "data",
    "pipeline parallelism": "pipeline",
    "iteration time (ms)": "milliseconds",
}


@dataclass(frozen=True)
class MeasuredIteration:
    """One measured run.

    Attributes:
        model: the network as :func:`.models.resolve` takes it.
        job: how it was spread.
        gpu: name in the GPU catalogue.
        gpus_per_node: GPUs in one host.
        intra, inter: links within and between hosts, names of presets; None: the defaults of the GPU.
        seconds: measured time of one iteration.
        group: what is left out together in evaluation: the model's size.
    """

    model: str
    job: TrainingConfiguration
    gpu: str
    gpus_per_node: int
    intra: str | None
    inter: str | None
    seconds: float
    group: str


class _Row(BaseModel):
    """A row of a user's own table; the columns are these names."""

    model_config = ConfigDict(extra="forbid")

    model: str = Field(min_length=1)
    gpu: str
    seconds: PositiveFloat
    gpus_per_node: PositiveInt = 8
    intra: str | None = None
    inter: str | None = None
    data: PositiveInt = 1
    tensor: PositiveInt = 1
    pipeline: PositiveInt = 1
    micro_batch: PositiveInt = 1
    global_batch: PositiveInt = 1
    sequence_length: PositiveInt = 2048
    precision: str = "amp-bf16"
    schedule: Literal["gpipe", "1f1b"] = "1f1b"
    virtual_stages: PositiveInt = 1
    recomputation: Literal["none", "selective", "full"] = "none"
    sequence_parallel: bool = False
    zero: Literal[0, 1] = 0
    optimizer: Literal["adam", "sgd"] = "adam"
    master_weights: bool = True
    attention: Literal["fused", "eager"] = "fused"
    fused_kernels: bool = False
    overlap: bool = False
    tensor_overlap: bool = False


_OF_RUN = ("model", "gpu", "seconds", "gpus_per_node", "intra", "inter")


def read_runs(path: Path) -> list[MeasuredIteration]:
    """Read a CSV of measured runs with vTrain's columns or our own (:class:`_Row`).

    Rows of the same configuration are averaged.

    Raises:
        InputError: the file cannot be read, a column is missing or unknown, or a value is impossible.
    """
    try:
        table = pd.read_csv(path)
    except (OSError, ValueError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {str(path)!r} as CSV: {error}") from error
    if table.empty:
        raise InputError(f"{str(path)!r} has no rows; give measured runs")
    runs = _vtrain(table, path) if _VTRAIN.keys() <= set(table.columns) else _own(table, path)
    merged: dict[Any, list[MeasuredIteration]] = {}
    for run in runs:
        merged.setdefault((run.model, run.job, run.gpu, run.gpus_per_node, run.intra, run.inter), []).append(run)
    return [replace(same[0], seconds=sum(run.seconds for run in same) / len(same)) for same in merged.values()]


def _vtrain(table: pd.DataFrame, path: Path) -> list[MeasuredIteration]:
    """vTrain's runs: Megatron-LM in FP16 with full recomputation on hosts of eight A100, 4 x HDR InfiniBand each.

    Bae et al. 2024 (vTrain), section V; recomputation and the split of the network cards follow from the table itself
    (research: without them the model is far off). Megatron pads the vocabulary of GPT-2 to 51 200.
    """
    numbers = table.rename(columns=_VTRAIN)[list(_VTRAIN.values())]
    runs = []
    for index, row in enumerate(numbers.to_dict("records")):
        values = {str(name): value for name, value in row.items()}
        if not all(pd.notna(value) and isinstance(value, (int, float)) and value > 0 for value in values.values()):
            raise InputError(f"{str(path)!r} row {index + 2}: {values}; every figure must be a number above 0")
        counts = {name: int(value) for name, value in values.items()}
        job = TrainingConfiguration(
            data=counts["data"],
            tensor=counts["tensor"],
            pipeline=counts["pipeline"],
            micro_batch=counts["micro_batch"],
            global_batch=counts["global_batch"],
            sequence_length=counts["sequence_length"],
            precision="fp16",
            recomputation="full",
            attention="eager",
            fused_kernels=True,
            tensor_overlap=True,
        )
        if job.gpus != counts["gpus"]:
            raise InputError(f"{str(path)!r} row {index + 2}: {job.gpus} ranks on {counts['gpus']} GPUs; make them equal")
        model = f"gpt:hidden={counts['hidden']},layers={counts['layers']},heads={counts['heads']},vocab=51200"
        runs.append(
            MeasuredIteration(
                model=model,
                job=job,
                gpu="A100 SXM4 80GB",
                gpus_per_node=8,
                intra=None,
                inter="4x InfiniBand HDR",
                seconds=values["milliseconds"] / 1e3,
                group=f"{values['parameters']:g}B",
            )
        )
    return runs


def _own(table: pd.DataFrame, path: Path) -> list[MeasuredIteration]:
    runs = []
    for index, values in enumerate(table.to_dict("records")):
        cells = {str(name): value for name, value in values.items() if pd.notna(value)}
        try:
            row = _Row.model_validate(cells)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise InputError(
                f"{str(path)!r} row {index + 2}: {where}: {first['msg']} (seen: {cells.get(where)!r}); columns are those of "
                f"vTrain's table or {', '.join(_Row.model_fields)}"
            ) from error
        settings = row.model_dump()
        job = TrainingConfiguration(**{name: value for name, value in settings.items() if name not in _OF_RUN})
        runs.append(MeasuredIteration(job=job, group=row.model, **{name: settings[name] for name in _OF_RUN}))
    return runs
