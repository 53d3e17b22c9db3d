"""The reference of the commands: click's and argparse's own objects, walked."""

import argparse
import inspect
import re
from collections.abc import Iterator
from typing import Any

import click
from markdown import code, head, prose, table

from epochcast.agent.cli import build_parser as agent_parser
from epochcast.analyzer.cli import cli
from epochcast.analyzer.node.cli import _parser as node_parser


def page() -> str:
    """docs/reference/command-line.md."""
    introduction = (
        "Exit codes of every command: 0 an answer, 1 no answer, 2 bad usage or input with one sentence on standard error.\n"
        "`--json` puts the answer on standard output as one JSON object. Every command says the same under `--help`.\n"
        "A duration may name its unit: `10h`, `90m`, `45s`, `2d`, `1h30m`. So may an amount of memory: `24GiB`, `24G` (the\n"
        "same), `24GB` (powers of ten). On a narrow terminal tables leave out columns; pipes and files get all.\n"
    )
    parts = [head("Command line", "For everybody: every command with every option.", introduction)]
    parts += ["## epochcast\n", *_click(cli, "epochcast")]
    parts += [
        "## epochcast serve --node\n",
        "A node has only the extra `node`: this command is parsed by itself.\n",
        _argparse(node_parser()),
    ]
    parts += ["## epochcast-agent\n", _argparse(agent_parser())]
    for name, parser in _subcommands(agent_parser()):
        parts += [f"### epochcast-agent {name}\n", _argparse(parser)]
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def _click(command: click.Command, path: str) -> Iterator[str]:
    text, examples = _help(command.help or "")
    if path != "epochcast":
        yield f"### {path}\n"
    yield text + "\n"
    if not isinstance(command, click.Group):
        with click.Context(command, info_name=path) as context:
            yield f"```text\n{' '.join([path, *command.collect_usage_pieces(context)])}\n```\n"
        yield _options(command)
    if examples:
        yield "Examples:\n"
        yield "\n".join(f"    {line}" for line in examples) + "\n"
    if isinstance(command, click.Group):
        with click.Context(command, info_name=path) as context:
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                if inner is not None and not inner.hidden:
                    yield from _click(inner, f"{path} {name}")


def _help(text: str) -> tuple[str, list[str]]:
    r"""The prose of a help text, and the lines of its blocks that click does not wrap (``\b``): examples."""
    prose_of, examples = [], []
    for block in inspect.cleandoc(text).split("\n\n"):
        if block.startswith("\b"):
            whole = re.sub(r"\\\n\s*", "", block)  # one line for each command, however the help breaks it
            lines = [line.strip().removeprefix("Example:").strip() for line in whole.splitlines()[1:]]
            examples += [line for line in lines if line]
        else:
            prose_of.append(" ".join(block.split()))
    return prose("\n\n".join(prose_of)), examples


def _options(command: click.Command) -> str:
    rows = []
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            names = ", ".join(code(name) for name in [*parameter.opts, *parameter.secondary_opts])
            help_text, _, told = (parameter.help or "").partition("[default: ")  # by hand, where click cannot tell
            rows.append([names, _kind(parameter), told.rstrip("].") or _default(parameter), prose(help_text.strip())])
    return table(["option", "value", "default", "meaning"], rows) if rows else ""


def _kind(option: click.Option) -> str:
    if option.is_flag or option.count:
        return ""
    if isinstance(option.type, click.Choice) and not option.metavar:
        value = ", ".join(code(str(choice)) for choice in option.type.choices)
    elif isinstance(option.type, click.Path):
        value = "path"
    elif isinstance(option.type, click.IntRange | click.FloatRange):
        value = f"{option.type.name.removesuffix(' range')}{_range(option.type)}"
    elif option.type.name in ("text", "choice"):
        value = code((option.metavar or "text").strip("[]")) if option.metavar else "text"
    else:
        value = option.type.name
    return value + (", any number of times" if option.multiple else "")


def _range(kind: click.IntRange | click.FloatRange) -> str:
    """The bounds; an upper one that is there only to refuse nonsense is not told."""
    low = "" if kind.min is None else f"{'>' if kind.min_open else '≥'} {kind.min:g}"
    high = "" if kind.max is None or kind.max >= 1e6 else f"{'<' if kind.max_open else '≤'} {kind.max:g}"
    return "".join(f", {bound}" for bound in (low, high) if bound)


def _default(option: click.Option) -> str:
    if option.required:
        return "required"
    default: Any = option.to_info_dict()["default"]
    if default is None or default is False or callable(default) or "Sentinel" in repr(default):
        return ""
    if isinstance(default, list | tuple):
        return ", ".join(map(str, default))
    return code(f"{default:g}" if isinstance(default, float) else str(default))


def _argparse(parser: argparse.ArgumentParser) -> str:
    rows = []
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction | argparse._SubParsersAction):
            continue
        value = ", ".join(map(code, action.choices)) if action.choices else code(str(action.metavar or ""))
        rows.append([", ".join(map(code, action.option_strings)) or code(action.dest), value, prose(action.help or "")])
    examples = [line.strip() for line in (parser.epilog or "").removeprefix("examples:").removeprefix("example:").splitlines()]
    return "\n".join(
        [
            *([parser.description, ""] if parser.description else []),
            table(["option", "value", "meaning"], rows) if rows else "",
            *(["Examples:", "", *(f"    {line}" for line in examples if line)] if any(examples) else []),
        ]
    )


def _subcommands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()
