"""The command of a backend, made from the fields of its question: ours and those of other packages alike."""

from __future__ import annotations

import json
import textwrap
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import click
from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from epochcast.analyzer.cli import progress, terminal
from epochcast.analyzer.cli.quantities import Duration
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.plain_json import plain_json
from epochcast.analyzer.plugins import Backend, Settings
from epochcast.analyzer.plugins.answer import Answer
from epochcast.analyzer.plugins.question import Option, Question, sentence
from epochcast.common.files import write_whole
from epochcast.common.settings_file import read_toml, remedy

_FILE = click.Path(path_type=Path)

_TYPES: dict[Any, Any] = {int: click.INT, float: click.FLOAT, str: click.STRING, Path: _FILE, bool: click.BOOL}


def backend_command(kind: type[Backend], *, predicts: bool = True) -> click.Command:
    """The command that asks a backend; its Question is a :class:`..plugins.question.Question`.

    Args:
        kind: the backend, or what measures or fits for one, which has the same parts.
        predicts: whether it predicts: its question may be long, and come from a file.
    """
    question = kind.Question
    if not (issubclass(question, Question) and issubclass(kind.Answer, Answer)):
        raise InputError(f"the backend {kind.name} has no command; use it over HTTP (`epochcast serve`)")
    # A table is of question files and requests.
    options = {
        name: _option(name, field) for name, field in question.model_fields.items() if _kind(field.annotation)[0] is not dict
    }

    def run(
        as_json: bool,
        question_file: Path | None = None,
        write_question: Path | None = None,
        gpus_file: Path | None = None,
        config: Path | None = None,
        **options_set: Any,
    ) -> int:
        fields = {} if question_file is None else _fields(question_file, question)
        fields |= {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in options_set.items()
            if name in options and value not in (None, ())
        }
        if write_question is not None:
            text = "\n".join(_question_lines(click.get_current_context().command_path, question, fields))
            write_whole(write_question, lambda file: file.write(text.encode("utf-8")))
            return 0
        try:
            checked = question(**fields)
        except ValidationError as error:
            names = {name: option.opts[0] for name, option in options.items() if isinstance(option, click.Option)}
            raise InputError(sentence(error, names)) from error
        progress.show(f"asking {kind.name}")
        with _refusals():
            own = {} if config is None else _table(config, kind.name)
            backend = kind(Settings(gpus=gpus_file, own=own, progress=progress.show, notes=terminal.note))
            answer: Answer | None = backend.answer(checked)  # type: ignore[assignment]
        progress.clear()
        if answer is None:  # the first of several processes answers for all
            return 0
        if plot := getattr(checked, "plot", options_set.get("plot")):  # a question may have it as a field, and check it
            from epochcast.analyzer.figures import save_figure
            from epochcast.analyzer.figures.chart import chart_figure

            chart = answer.chart
            if chart is None:
                raise InputError("this answer cannot be drawn; leave out --plot")
            save_figure(chart_figure(chart), plot, simulated=getattr(answer, "simulated", False))
        if as_json:
            click.echo(plain_json(answer.model_dump(mode="json")))
        elif text := answer.text:
            terminal.say(text)
        if not as_json or answer.status or "notes" not in kind.Answer.model_fields:  # what the JSON does not have
            terminal.notes(answer.remarks)
        return answer.status

    def allow_less(_context: click.Context, _option: click.Parameter, path: Path | None) -> Path | None:
        """What a question file holds need not be given again."""
        for option in options.values() if path else ():
            option.required = False
        return path

    file: dict[str, Any] = {"type": _FILE, "metavar": "FILE"}
    early: dict[str, Any] = {**file, "is_eager": True, "callback": allow_less}
    common = [
        click.Option(["--gpus", "gpus_file"], **file, help="TOML file with GPUs of your own."),
        click.Option(["--config"], **file, help=f"TOML file with a table [backends.{kind.name}]."),
        click.Option(["--plot"], **file, help="Draw the answer (PNG, SVG, PDF)."),
        click.Option(["--question", "question_file"], **early, help="TOML file with options; the command line overrides it."),
        click.Option(["--write-question"], **early, help="Write all options to a question file."),
        click.Option(["--json", "as_json"], is_flag=True, help="Print the result as JSON."),
    ]
    left_out = set(question.model_fields)  # a field has its own
    left_out |= {"plot"} if kind.Answer.chart is Answer.chart else set()
    left_out |= set() if getattr(kind, "configurable", predicts) else {"config"}
    left_out |= set() if getattr(kind, "reads_catalog", True) else {"gpus_file"}
    left_out |= set() if predicts else {"question_file", "write_question"}
    params: list[click.Parameter] = [*options.values(), *(option for option in common if option.name not in left_out)]
    return click.Command(kind.name, callback=run, help=getattr(kind, "manual", kind.summary), params=params)


@contextmanager
def _refusals() -> Iterator[None]:
    """A ValueError is what a backend has to say; an answer that does not fit its own class is a fault of the backend."""
    try:
        yield
    except ValueError as error:
        if isinstance(error, InputError | ValidationError):
            raise
        raise InputError(str(error)) from error


def options_of(question: type[Question], *names: str) -> list[click.Parameter]:
    """The options of some fields, for a command that is written by hand; values are held to the limits of their fields."""
    return [_within_limits(_option(name, question.model_fields[name]), question.model_fields[name]) for name in names]


def _within_limits(option: click.Parameter, field: FieldInfo) -> click.Parameter:
    of: Any = Annotated[field.annotation, field]
    limits, made = TypeAdapter(of), option.callback

    def value(context: click.Context, given: click.Parameter, text: Any) -> Any:
        found = made(context, given, text) if made else text
        if found is not None:
            try:
                limits.validate_python(found)
            except ValidationError as error:
                raise click.BadParameter(error.errors()[0]["msg"], context, given) from error
        return found

    option.callback = value
    return option


def _option(name: str, field: FieldInfo) -> click.Parameter:
    """The option (or argument) of a field; a flag says the contrary of its default."""
    mark = next((mark for mark in field.metadata if isinstance(mark, Option)), Option())
    kind, many = _kind(field.annotation)
    if mark.argument:
        return click.Argument([name], metavar=mark.name, nargs=-1 if many else 1, required=field.is_required())
    flag, repeated = kind is click.BOOL, many and not mark.separator
    text = (field.description or name.replace("_", " ").capitalize() + ".").rstrip(".")
    usual = mark.default or (str(field.default) if isinstance(field.default, str | int | float) and field.default else "")
    shown = f"{text}{' (repeatable)' if repeated else ''}." + (f" [default: {usual}]" if usual and not flag else "")

    def value(context: click.Context, option: click.Parameter, text: Any) -> Any:
        if flag:
            return (not field.default) if text else None
        if mark.separator and text is not None:
            return [kind.convert(part, option, context) for part in text.split(mark.separator)]
        return text

    return click.Option(
        [mark.name or f"--{'no-' if flag and field.default else ''}{name.replace('_', '-')}", name],
        type=click.STRING if mark.separator else Duration("seconds") if mark.duration else kind,
        multiple=repeated,
        is_flag=flag,
        required=field.is_required(),
        metavar=mark.metavar or None,
        default=() if repeated else None,
        help=shown,
        hidden=mark.hidden,
        callback=value,
    )


def _kind(annotation: Any) -> tuple[Any, bool]:
    """Click's type of an annotation, ``dict`` for a table, and whether there may be several."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _kind(arguments[0])
    if origin in (Union, types.UnionType):
        return _kind(next(argument for argument in arguments if argument is not type(None)))
    if origin is list:
        return _kind(arguments[0])[0], True
    if origin is Literal:
        return click.Choice(arguments), False
    return dict if dict in (origin, annotation) else _TYPES.get(annotation, click.STRING), False


def _fields(path: Path, question: type[Question]) -> dict[str, Any]:
    """What a question file holds."""
    fields = read_toml(path)
    if unknown := sorted(set(fields) - set(question.model_fields)):
        raise InputError(f"{path} has the unknown field {unknown[0]!r}; {remedy(unknown[0], list(question.model_fields))}")
    return fields


def _question_lines(command: str, question: type[Question], fields: Mapping[str, Any]) -> Iterator[str]:
    """A question file: every field with what it means; those without a value, or with the usual one, as comments."""
    yield f"# {command} --question FILE"
    for field, info in question.model_fields.items():
        mark = next((mark for mark in info.metadata if isinstance(mark, Option)), Option())
        usual = f" Default: {mark.default}." if mark.default else ""
        yield ""
        yield from textwrap.wrap(f"{info.description or ''}{usual}", 100, initial_indent="# ", subsequent_indent="# ")
        value = fields.get(field, None if info.is_required() else info.get_default(call_default_factory=True))
        yield f"{'' if field in fields else '# '}{field} = {'' if value is None else _toml(value)}".rstrip()
    yield ""


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False, default=str)


def _table(path: Path, name: str) -> dict[str, Any]:
    """The table ``[backends.NAME]`` of a configuration."""
    table: dict[str, Any] = read_toml(path).get("backends", {}).get(name, {})
    return table
