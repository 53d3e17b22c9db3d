"""Measured training runs on several GPUs: vTrain's public table and a user's own CSV."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from epochcast.analyzer.backends.distributed.plan.job import TrainingConfiguration
from epochcast.analyzer.errors import InputError
from lab.speed.page import public

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


_DROPOUT = "embd_pdrop=0.1,resid_pdrop=0.1,attn_pdrop=0.1"
"""Megatron-LM's defaults."""


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


_OF_RUN: dict[str, Any] = {"model": None, "gpu": None, "seconds": None, "gpus_per_node": 8, "intra": None, "inter": None}
"""Columns of a table of our own beside those of :class:`TrainingConfiguration`, with their defaults."""


def read_runs(path: Path) -> list[MeasuredIteration]:
    """Read a CSV of measured runs with vTrain's columns or our own: ``_OF_RUN``, and fields of a ``TrainingConfiguration``.

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
    if "note" in table:
        table = _fsdp(table)
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
    if not (numbers.apply(pd.to_numeric, errors="coerce") > 0).all(axis=None):
        raise InputError(f"{str(path)!r} has a figure that is no number above 0")
    runs = []
    for index, values in enumerate(numbers.to_dict("records")):
        counts = {str(name): int(value) for name, value in values.items()}
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
        model = f"gpt:hidden={counts['hidden']},layers={counts['layers']},heads={counts['heads']},vocab=51200,{_DROPOUT}"
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


def _fsdp(table: pd.DataFrame) -> pd.DataFrame:
    """Public runs under FSDP (``runs_2.csv.gz``), whose notes say how weights were sharded.

    vectorlm trains in BF16 throughout: 8 billion parameters with FP32 copies do not fit on the one A100 of its rows.
    """
    partly = table["note"].str.contains("SHARD_GRAD_OP")
    return table.assign(
        zero=partly.map({True: 2, False: 3}), master_weights=table["master_weights"] & (table["family"] != "vectorlm-FSDP")
    ).drop(columns=["source", "family", "gpus", "mfu", "note"])


def _own(table: pd.DataFrame, path: Path) -> list[MeasuredIteration]:
    runs = []
    for index, values in enumerate(table.to_dict("records")):
        cells = {str(name): _whole(value) for name, value in values.items() if pd.notna(value)}
        of_run = {name: cells.pop(name, default) for name, default in _OF_RUN.items()}
        if None in (of_run["model"], of_run["gpu"]) or not (of_run["seconds"] or 0) > 0:
            raise InputError(f"{str(path)!r} row {index + 2} needs a model, a gpu and seconds above 0")
        try:
            job = TrainingConfiguration(**cells)
        except (TypeError, InputError) as error:
            raise InputError(f"{str(path)!r} row {index + 2}: {error}") from error
        runs.append(MeasuredIteration(job=job, group=of_run["model"], **of_run))
    return runs


def _whole(value: Any) -> Any:
    """pandas makes floats of whole numbers in a column with gaps."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def public_runs() -> list[MeasuredIteration]:
    """All public runs: vTrain's, and those under FSDP."""
    files = ("distributed/vtrain_multi_node.csv", "distributed/runs_2.csv.gz")
    return [run for file in files for run in read_runs(public(file))]
