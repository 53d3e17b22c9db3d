"""The command of a backend, made from the fields of its question: ours and those of other packages alike."""

from __future__ import annotations

import types
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import click
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from epochcast.analyzer.cli import progress, terminal
from epochcast.analyzer.cli.shared_options import Duration, MemorySize
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.plugins import Backend, Settings
from epochcast.analyzer.plugins.question import Http, Option, Question, sentence

_FILE = click.Path(path_type=Path)

_TYPES: dict[Any, Any] = {int: click.INT, float: click.FLOAT, str: click.STRING, Path: _FILE, bool: click.BOOL}


def backend_command(kind: type[Backend], *, predicts: bool = True) -> click.Command:
    """The command that asks a backend; its Question is a :class:`..plugins.question.Question`.

    Args:
        kind: the backend, or what measures or fits for one, which has the same parts.
        predicts: whether it predicts: it may have a table in a configuration.
    """
    from epochcast.analyzer.plain_json import plain_json  # what commands that only have options of a question need not load
    from epochcast.analyzer.plugins.answer import Answer
    from epochcast.common.settings_file import read_toml

    question = kind.Question
    if not (issubclass(question, Question) and issubclass(kind.Answer, Answer)):
        raise InputError(f"the backend {kind.name} has no command; use it over HTTP (`epochcast serve`)")
    options = {
        name: _option(name, field)
        for name, field in question.model_fields.items()
        if not any(isinstance(mark, Http) and mark.only for mark in field.metadata)
    }

    def run(
        as_json: bool,
        gpus_file: Path | None = None,
        config: Path | None = None,
        **options_set: Any,
    ) -> int:
        checked = question_of(question, {name: value for name, value in options_set.items() if name in options})
        progress.show(f"asking {kind.name}")
        own = {} if config is None else read_toml(config).get("backends", {}).get(kind.name, {})
        try:
            backend = kind(Settings(gpus=gpus_file, own=own, progress=progress.show, notes=terminal.note))
            answer: Answer = backend.answer(checked)  # type: ignore[assignment]
        except (InputError, ValidationError):  # an answer that does not fit its own class is a fault of the backend
            raise
        except ValueError as error:  # what it has to say
            raise InputError(str(error)) from error
        progress.clear()
        if plot := options_set.get("plot"):
            from epochcast.analyzer.charts import chart_figure, save_figure

            chart = answer.chart
            if chart is None:
                raise InputError("this answer cannot be drawn; leave out --plot")
            save_figure(chart_figure(chart), plot)
        if as_json:
            click.echo(plain_json(answer.model_dump(mode="json")))
        elif text := answer.text:
            terminal.say(text)
        if not as_json or answer.status:
            terminal.notes(getattr(answer, "notes", []))
        return answer.status

    file: dict[str, Any] = {"type": _FILE, "metavar": "FILE"}
    common = [
        click.Option(["--gpus", "gpus_file"], **file, help="TOML file with GPUs of your own."),
        click.Option(["--config"], **file, help=f"TOML file with a table [backends.{kind.name}]."),
        click.Option(["--plot"], **file, help="Draw the answer (PNG, SVG, PDF)."),
        click.Option(["--json", "as_json"], is_flag=True, help="Print the result as JSON."),
    ]
    left_out = set(question.model_fields)  # a field has its own
    left_out |= {"plot"} if kind.Answer.chart is Answer.chart else set()
    left_out |= set() if getattr(kind, "configurable", predicts) else {"config"}
    left_out |= set() if getattr(kind, "reads_catalog", True) else {"gpus_file"}
    params: list[click.Parameter] = [*options.values(), *(option for option in common if option.name not in left_out)]
    return click.Command(kind.name, callback=run, help=getattr(kind, "manual", kind.summary), params=params)


def options_of(question: type[Question], *names: str) -> list[click.Option]:
    """The options of some fields, for a command that is written by hand."""
    return [_option(name, question.model_fields[name]) for name in names]


_Asked = TypeVar("_Asked", bound=Question)


def question_of(kind: type[_Asked], given: Mapping[str, Any], arguments: Collection[str] = ()) -> _Asked:
    """The question that a command line asks; raises InputError, in the words of its options, for what it cannot be.

    Args:
        kind: of question.
        given: name of a field -> the value of its option; None or empty: not given.
        arguments: fields of which ``given`` has arguments in Python, named as the options are (what repeats: as the field).
    """
    options = {name: _option(name, field) for name, field in kind.model_fields.items()}
    names = {name: option.opts[0] for name, option in options.items()}
    if arguments:
        said = {name: argument_name(options[name]) for name in arguments}
        if unknown := sorted(given.keys() - said.values()):
            raise InputError(f"there is no argument {unknown[0]!r}; there are {', '.join(said.values())}")
        given = {name: _argument(options[name], given[own]) for name, own in said.items() if own in given}
        names |= said
    fields = {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}
    try:
        return kind(**{name: value for name, value in fields.items() if value not in (None, [])})
    except ValidationError as error:
        base = {name: option.type.base for name, option in options.items() if isinstance(option.type, Duration | MemorySize)}
        raise InputError(sentence(error, {name: f"{said}{base.get(name, '')}" for name, said in names.items()})) from error


def argument_name(option: click.Option) -> str:
    """What an option is called in Python; one that repeats is the field itself."""
    return str(option.name) if option.multiple else option.opts[0].lstrip("-").replace("-", "_")


def _argument(option: click.Option, value: Any) -> Any:
    """What a field has where somebody writes ``value``: text may name a unit, a list may be one name, a flag says its value."""
    if isinstance(option.type, Duration | MemorySize) and value is not None:
        return option.type.convert(value, None, None)
    if option.multiple and isinstance(value, str):
        return [value]
    return (option.flag_value if value else None) if option.is_flag and isinstance(option.flag_value, str) else value


def _option(name: str, field: FieldInfo) -> click.Option:
    """The option of a field; a flag says the contrary of its default."""
    mark = next((mark for mark in field.metadata if isinstance(mark, Option)), Option())
    kind, many = _kind(field.annotation)
    if mark.unit:
        kind = MemorySize(mark.unit, above=0) if mark.unit == "GiB" else Duration(mark.unit)
    flag = kind is click.BOOL
    text = (field.description or name.replace("_", " ").capitalize() + ".").rstrip(".")
    text += f": {mark.unit}, or {kind.examples}" if mark.unit else ""
    usual = mark.default or (str(field.default) if isinstance(field.default, str | int | float) and field.default else "")
    shown = f"{text}{' (repeatable)' if many else ''}." + (f" [default: {usual}]" if usual and not flag else "")

    def value(_context: click.Context, _option: click.Parameter, text: Any) -> Any:
        return text if not flag else (not field.default) if text else None

    if mark.value:
        return click.Option([mark.name, name], flag_value=mark.value, default=None, help=mark.help)
    return click.Option(
        [mark.name or f"--{'no-' if flag and field.default else ''}{name.replace('_', '-')}", name],
        type=kind,
        multiple=many,
        is_flag=flag,
        required=field.is_required(),
        metavar=mark.metavar or None,
        default=() if many else None,
        help=shown,
        callback=value,
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
