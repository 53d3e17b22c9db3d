"""``epochcast predict-model``: backends that know the model rather than a trace, ours and those of other packages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..plugins import GROUP
from .group import LazyGroup

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_COMMANDS = {
    "convmeter": "Predict inference and training of a convolutional network, and how it scales.",
    "distributed": "Predict one training iteration on several GPUs, its parts, memory and cost.",
    "occupancy": "Predict SM occupancy and peak memory of a training, and the best batch.",
}


class _Backends(LazyGroup):
    """Backends of other packages, too, by their entry points."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Ours first."""
        return [*_COMMANDS, *_others()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a backend, imported; None if there is none of this name."""
        point = next((point for point in _points() if point.name == cmd_name), None)
        if point is not None and _is_ours(point) and cmd_name not in _COMMANDS:
            return None  # the black box's command is `epochcast predict`
        if point is None:
            return None
        from ..plugins.registry import backend_class
        from .backend_command import backend_command

        return backend_command(backend_class(point.name, point.value))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the summaries into the help; of other packages whose they are, for they would have to be imported."""
        with formatter.section("Commands"):
            formatter.write_dl(list((_COMMANDS | _others()).items()))


def _points() -> list[EntryPoint]:
    """Entry points, ours first."""
    from importlib.metadata import entry_points

    return sorted(entry_points(group=GROUP), key=lambda point: not _is_ours(point))


def _is_ours(point: EntryPoint) -> bool:
    return point.value.startswith("epochcast.")


def _others() -> dict[str, str]:
    """Backends of other packages, and whose they are, by name."""
    points = sorted((point for point in _points() if not _is_ours(point)), key=lambda point: point.name)
    return {
        point.name: f"Of {point.dist.name if point.dist else point.value}." for point in points if point.name not in _COMMANDS
    }


@click.group(cls=_Backends, package=__name__, summaries=_COMMANDS)
def predict_model() -> None:
    """Predict from the model itself, before anything has run."""
