"""``epochcast predict-model``: backends that know the model rather than a trace, ours and those of other packages."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

import click

from ...plugins import GROUP
from ..group import LazyGroup

_COMMANDS = {
    "convmeter": "Predict inference and training of a convolutional network, and how it scales.",
    "distributed": "Predict one training iteration on several GPUs, its parts, memory and cost.",
    "occupancy": "Predict SM occupancy and peak memory of a training, and the best batch.",
}

_OF_ITS_FIELDS = ("convmeter", "occupancy")
"""Ours whose command is made from the fields of their question; the others have a file here."""


class _Backends(LazyGroup):
    """Backends of other packages, too, by their entry points."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Ours first."""
        return [*_COMMANDS, *sorted({point.name for point in _others()} - set(_COMMANDS))]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a backend, imported; None if there is none of this name that can be asked here."""
        if cmd_name in _COMMANDS and cmd_name not in _OF_ITS_FIELDS:
            return super().get_command(ctx, cmd_name)
        point = next((point for point in _points() if point.name == cmd_name), None)
        if point is None:
            return None
        from ...plugins.registry import backend_class
        from ..backend_command import backend_command

        return backend_command(backend_class(point.name, point.value))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the summaries into the help; of other packages what they are, for they would have to be imported."""
        others = {point.name: f"Of {point.dist.name if point.dist else point.value}." for point in _others()}
        with formatter.section("Commands"):
            formatter.write_dl(list((_COMMANDS | {name: others[name] for name in sorted(others)}).items()))


def _points() -> list[EntryPoint]:
    """Entry points, ours first."""
    return sorted(entry_points(group=GROUP), key=lambda point: not point.value.startswith("epochcast."))


def _others() -> list[EntryPoint]:
    return [point for point in _points() if not point.value.startswith("epochcast.")]


@click.group(cls=_Backends, package=__name__, summaries=_COMMANDS)
def predict_model() -> None:
    """Predict from the model itself, before anything has run."""
