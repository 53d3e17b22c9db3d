"""List the shipped plans of campaigns: TOML files that say what to train, read into the list of their runs."""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from epochcast.analyzer.errors import InputError

SHIPPED = Path(__file__).with_name("plans")
"""The folder of the shipped plans."""


def _as_list(value: object) -> object:
    return value if isinstance(value, list) else [value]


_Network = Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*(:[A-Za-z_]\w*)?$")]
_Count = Annotated[int, Field(ge=1)]
_Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Networks = Annotated[list[_Network], BeforeValidator(_as_list), Field(min_length=1)]
_Counts = Annotated[list[_Count], BeforeValidator(_as_list), Field(min_length=1)]


class _Table(BaseModel):
    # Strict: TOML has types of its own, and true is no batch size.
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Workload(_Table):
    """What is trained: it alone decides the length of an epoch on a given GPU.

    Attributes:
        network: a name of the paper's networks, or ``package.module:factory`` (see `lab.campaign.networks.build`).
        batch_size: images a step.
        image_size: height and width [pixels].
        samples: images that an epoch trains on; it validates on a tenth as many more.
        precision: ``fp32``, or ``amp`` for torch's automatic mixed precision.
    """

    network: _Network
    batch_size: _Count
    image_size: _Count
    samples: _Count
    precision: Literal["fp32", "amp"] = "fp32"

    @model_validator(mode="after")
    def _fills_a_batch(self) -> Workload:
        if self.batch_size > self.samples:
            raise ValueError(f"batch_size {self.batch_size} is more than the {self.samples} samples of an epoch; give more")
        return self

    @property
    def text(self) -> str:
        """The workload's name in a corpus, ``NETWORK|BATCH|IMAGE|SAMPLES``, and ``|amp``: equal text is equal work."""
        parts = [self.network, str(self.batch_size), str(self.image_size), str(self.samples)]
        return "|".join(parts if self.precision == "fp32" else [*parts, self.precision])

    @property
    def file_name(self) -> str:
        """The same as a part of a file's name."""
        return re.sub(r"[^\w.-]", "_", self.text)


class Overhead(Workload):
    """A workload that is trained in blocks of epochs with and without sampling (the paper's Fig. 13).

    Attributes:
        epochs: in a block.
        pairs: how often there is a block of either kind.
    """

    epochs: _Count
    pairs: Annotated[int, Field(ge=2)]


class _Grid(_Table):
    """A table of the plan: lists make a grid."""

    network: _Networks
    batch_size: _Counts
    image_size: _Counts
    samples: _Count
    precision: Literal["fp32", "amp"] = "fp32"

    def cells(self) -> Iterator[dict[str, Any]]:
        """The fields of each workload, network by network."""
        for network, image_size, batch_size in product(self.network, self.image_size, self.batch_size):
            sizes = {"batch_size": batch_size, "image_size": image_size, "samples": self.samples}
            yield {"network": network, **sizes, "precision": self.precision}


class _WorkloadGrid(_Grid):
    """One ``[[workload]]`` table."""

    epochs: Annotated[int, Field(ge=2)] = 10  # the paper's; the first is left out of a profile


class _OverheadGrid(_Grid):
    """One ``[[overhead]]`` table; what its keys mean: `Overhead`."""

    epochs: _Count = 3
    pairs: Annotated[int, Field(ge=2)] = 4


class Plan(_Table):
    """A whole campaign.

    Attributes:
        workload: grids of workloads to record.
        overhead: grids of workloads whose slowdown by sampling is measured.
        time_budget_s: no run is started that is expected to end later than this after the start [s]; None: no limit.
        run_timeout_s: a training process that lasts longer counts as hung [s].
        seed: of images, labels, weights and the order in which they are shown.
    """

    workload: list[_WorkloadGrid] = Field(default_factory=list)
    overhead: list[_OverheadGrid] = Field(default_factory=list)
    time_budget_s: _Seconds | None = None
    run_timeout_s: _Seconds = 3600.0
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0  # what torch takes

    def runs(self) -> list[tuple[Workload, int]]:
        """What is recorded, in the plan's order: each workload and its epochs."""
        return [(Workload(**cell), grid.epochs) for grid in self.workload for cell in grid.cells()]

    def overheads(self) -> list[Overhead]:
        """What is trained in blocks, in the plan's order."""
        return [Overhead(**cell, epochs=grid.epochs, pairs=grid.pairs) for grid in self.overhead for cell in grid.cells()]


def shipped_plans() -> dict[str, str]:
    """Name of each shipped plan -> its first line of comment."""
    texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(SHIPPED.glob("*.toml"))}
    return {name: text.partition("\n")[0].lstrip("# ") for name, text in texts.items()}


def read_plan(name: str) -> Plan:
    """The plan in the file ``name``, or the one of that name that is in :data:`SHIPPED`.

    Raises InputError for a missing or unreadable file, a key that is unknown, missing or out of range, a plan without runs,
    and one that names a workload twice.
    """
    path = SHIPPED / f"{name}.toml" if name in shipped_plans() else Path(name)
    try:
        plan = Plan.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
        recorded, overheads = [workload for workload, _ in plan.runs()], plan.overheads()
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, not TOML, or not a plan
        raise InputError(f"cannot read the plan {name!r}: {error}; shipped are {', '.join(shipped_plans())}") from error
    for workloads in (recorded, overheads):
        names = [workload.file_name for workload in workloads]
        if len(names) > len(set(names)) or not recorded:
            raise InputError(f"plan {name!r} records nothing, or a workload twice: one run has one file")
    return plan


def options(parser: argparse.ArgumentParser) -> None:
    """None."""


def study(asked: argparse.Namespace) -> dict[str, str]:
    """Each plan, and what it is."""
    return shipped_plans()
