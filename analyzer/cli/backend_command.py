"""The command of a backend, made from the fields of its question: ours and those of other packages alike."""

from __future__ import annotations

import types
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import click
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from ...common.settings_file import read_toml
from ..errors import InputError
from ..plain_json import plain_json
from ..plugins import Backend, Settings
from ..plugins.answer import Answer
from ..plugins.question import Option, Question, sentence
from . import progress, terminal

_FILE = click.Path(path_type=Path)

_TYPES: dict[Any, Any] = {int: click.INT, float: click.FLOAT, str: click.STRING, Path: _FILE, bool: click.BOOL}


def backend_command(kind: type[Backend]) -> click.Command:
    """The command that asks a backend; its Question is a :class:`..plugins.question.Question`."""
    question = kind.Question
    if not (issubclass(question, Question) and issubclass(kind.Answer, Answer)):
        raise InputError(f"the backend {kind.name} is asked over HTTP alone; its Question and Answer are none of plugins'")
    options = {name: _option(name, field) for name, field in question.model_fields.items()}

    def run(as_json: bool, gpus_file: Path | None, config: Path | None, plot: Path | None = None, **given: Any) -> int:
        fields = {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}
        try:
            asked = question(**{name: value for name, value in fields.items() if value not in (None, [], False)})
        except ValidationError as error:
            raise InputError(sentence(error, {name: option.opts[0] for name, option in options.items()})) from error
        backend = kind(Settings(gpus=gpus_file, own={} if config is None else _table(config, kind.name)))
        progress.show(f"asking {kind.name}")
        answer: Answer = backend.answer(asked)  # type: ignore[assignment]
        progress.clear()
        if plot is not None:
            from ..figures import save_figure
            from ..figures.chart import chart_figure

            save_figure(chart_figure(answer.chart), plot)
        if as_json:
            click.echo(plain_json(answer.model_dump(mode="json")))
        else:
            terminal.say(answer.text)
            terminal.notes(answer.remarks)
        return 0

    common = [  # of names that no field of a question has
        click.Option(["--gpus", "gpus_file"], type=_FILE, metavar="FILE", help="TOML file with GPUs of your own."),
        click.Option(["--config"], type=_FILE, metavar="FILE", help=f"TOML file with a table [backends.{kind.name}]."),
        click.Option(["--json", "as_json"], is_flag=True, help="Print the result as JSON."),
    ]
    if kind.Answer.chart is not Answer.chart:
        common.insert(2, click.Option(["--plot"], type=_FILE, metavar="FILE", help="Draw the answer (PNG, SVG, PDF)."))
    text = getattr(kind, "manual", kind.summary)
    return click.Command(kind.name, callback=run, help=text, params=[*options.values(), *common])


def _option(name: str, field: FieldInfo) -> click.Option:
    """The option of a field."""
    mark = next((mark for mark in field.metadata if isinstance(mark, Option)), Option())
    kind, many = _kind(field.annotation)
    text = (field.description or name.replace("_", " ").capitalize() + ".").rstrip(".")
    usual = mark.default or (str(field.default) if isinstance(field.default, str | int | float) and field.default else "")
    shown = f"{text}{' (repeatable)' if many else ''}." + (f" [default: {usual}]" if usual else "")
    return click.Option(
        [mark.name or f"--{name.replace('_', '-')}", name],
        type=kind,
        multiple=many,
        is_flag=kind is click.BOOL,
        required=field.is_required(),
        metavar=mark.metavar or None,
        default=() if many else None,
        help=shown,
    )


def _kind(annotation: Any) -> tuple[Any, bool]:
    """Click's type of an annotation, and whether there may be several."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _kind(arguments[0])
    if origin in (Union, types.UnionType):
        return _kind(next(argument for argument in arguments if argument is not type(None)))
    if origin is list:
        return _kind(arguments[0])[0], True
    if origin is Literal:
        return click.Choice(arguments), False
    return _TYPES.get(annotation, click.STRING), False


def _table(path: Path, name: str) -> dict[str, Any]:
    """The table ``[backends.NAME]`` of a configuration."""
    table: dict[str, Any] = read_toml(path).get("backends", {}).get(name, {})
    return table
