"""Options that several commands have, each with one name and one meaning, and types of options that take a unit."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, ClassVar

import click

_PART = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-z]+)")


class _Quantity(click.ParamType[float]):
    """A number in base units; a bare one is in ``unit``, text may name another, and several parts add up (1h30m)."""

    what: ClassVar[str]
    metavar: ClassVar[str]
    examples: ClassVar[str]
    base: ClassVar[str]
    units: ClassVar[Mapping[str, float]]  # by lower-case name

    def __init__(self, unit: str, *, above: float | None = None) -> None:
        self.unit, self._above = unit, above
        self.name = f"{self.what} (a bare number: {unit})"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """See click; the number is in seconds, or bytes."""
        try:
            number = float(value) * self.units[self.unit.lower()]
        except ValueError:
            number = self._with_units(str(value).lower())
            if number != number:  # nan: it could not be read
                self.fail(f"{value!r} is no {self.what}; give {self.unit}, or name the unit: {self.examples}", param, ctx)
        if self._above is not None and not number > self._above:
            self.fail(f"{value} is not above {self._above:g}", param, ctx)
        return number

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """See click."""
        return self.metavar

    def _with_units(self, text: str) -> float:
        """In base units; nan for what is no such text."""
        total, place = 0.0, 0
        while (part := _PART.match(text, place)) and part[2] in self.units:
            total += float(part[1]) * self.units[part[2]]
            place = part.end()
        return total if place and not text[place:].strip() else float("nan")


class Duration(_Quantity):
    """A length of time: ``10h``, ``90 min``, ``1h30m``."""

    what, metavar = "duration", "TIME"
    base = " in seconds"
    examples = "10h, 90m, 45s, 2d"
    units: ClassVar[Mapping[str, float]] = {
        name: seconds
        for seconds, names in (
            (1e-3, "ms"),
            (1, "s sec secs second seconds"),
            (60, "m min mins minute minutes"),
            (3600, "h hr hrs hour hours"),
            (86400, "d day days"),
        )
        for name in names.split()
    }


class MemorySize(_Quantity):
    """An amount of memory: ``24GiB``, ``24G`` (the same, as GNU's tools read it), ``24GB`` (powers of ten)."""

    what, metavar = "amount of memory", "SIZE"
    base = " in bytes"
    examples = "24GiB, 24G, 800MiB"
    units: ClassVar[Mapping[str, float]] = {
        "b": 1,
        "bytes": 1,
        **{
            f"{prefix}{suffix}": base**power
            for power, prefix in enumerate("kmgt", start=1)
            for suffix, base in (("", 1024), ("ib", 1024), ("b", 1000))
        },
    }


_PATH = click.Path(path_type=Path)

json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
gpus_option = click.option("--gpus", type=_PATH, metavar="FILE", help="TOML file with GPUs of your own.")
recorded_gpu_option = click.option("--gpu", metavar="NAME", help="GPU it was recorded on, if the trace does not name it.")
prices_option = click.option(
    "--prices", type=_PATH, metavar="FILE", help="Your own price table (CSV) instead of the built-in one."
)
epochs_from_option = click.option(
    "--epochs-from",
    metavar="FILE",
    help="What marks the epochs: a wandb run, TensorBoard's events, a CSV of start times, or a training log.",
)


def known_epochs_options(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Options by which the user says what the epochs are; the command gets them as its argument ``name``."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        @click.option("--epoch-time", type=Duration("seconds"), help="How long an epoch takes, if you know: seconds, or 7m.")
        @epochs_from_option
        @click.option("--epochs-pattern", metavar="REGEX", help="What marks an epoch in the training log of --epochs-from.")
        @click.option(
            "--cycle",
            type=click.Choice(["checkpoint", "evaluation", "epoch", "step"]),
            help="What the cycle is that the telemetry shows, if you know.",
        )
        @wraps(command)
        def known(
            *, epoch_time: float | None, epochs_from: str | None, epochs_pattern: str | None, cycle: Any, **given: Any
        ) -> Any:
            from epochcast.analyzer.traces.known_epochs import known_epochs

            return command(**given, **{name: known_epochs(epoch_time, epochs_from, epochs_pattern, cycle)})

        return known

    return add
