"""Options that take a length of time or an amount of memory."""

import click
import pytest

from epochcast.analyzer.cli import main
from epochcast.analyzer.cli.shared_options import Duration, MemorySize

from .all_commands import commands


@pytest.mark.parametrize(
    ("unit", "text", "number"),
    [
        ("seconds", "36000", 36000),
        ("seconds", "1e3", 1000),
        ("seconds", "-5", -5),
        ("seconds", "45 s", 45),
        ("seconds", "1h30m", 5400),
        ("seconds", " 1 Day 12 hours ", 129600),
        ("seconds", "250ms", 0.25),
        ("minutes", "5", 300),
        ("minutes", "300s", 300),
        ("minutes", ".5h", 1800),
    ],
)
def test_a_bare_duration_is_in_the_options_unit(unit: str, text: str, number: float) -> None:
    assert Duration(unit).convert(text, None, None) == pytest.approx(number)


@pytest.mark.parametrize(
    ("unit", "text", "number"),
    [
        ("GiB", "24", 24 * 2**30),
        ("GiB", "24G", 24 * 2**30),
        ("GiB", "24 gib", 24 * 2**30),
        ("GiB", "512MiB", 2**29),
        ("GiB", "1T", 2**40),
        ("bytes", "80e9", 80e9),
        ("bytes", "80GB", 80e9),
    ],
)
def test_a_bare_amount_of_memory_is_in_the_options_unit(unit: str, text: str, number: float) -> None:
    assert MemorySize(unit).convert(text, None, None) == pytest.approx(number)


@pytest.mark.parametrize("text", ["soon", "h", "10 parsecs", "10h later", "1,5h", "", "-5h", "10 h 5"])
def test_what_is_no_duration_is_refused_with_the_remedy(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recommend", "run.parquet", f"--deadline={text}"]) == 2
    captured = capsys.readouterr()
    assert f"'--deadline': {text!r} is no duration; give seconds, or name the unit: 10h, 90m, 45s, 2d" in captured.err
    assert captured.err.count("\n") == 1


def test_what_is_no_memory_is_refused_with_the_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recommend", "run.parquet", "--memory", "24 potatoes"]) == 2
    assert "is no amount of memory; give GiB, or name the unit: 24GiB" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "says"), [("0", "0 is not above 0"), ("nan", "nan is not above 0"), ("0h", "0h is not above 0")]
)
def test_a_bound_is_kept(text: str, says: str) -> None:
    with pytest.raises(click.BadParameter, match=says):
        Duration("seconds", above=0).convert(text, None, None)


def test_the_help_of_every_quantity_names_the_unit_of_a_bare_number() -> None:
    options = [option for _, command in commands() for option in command.params if isinstance(option, click.Option)]
    taken = [option for option in options if isinstance(option.type, Duration | MemorySize)]
    assert {"--startup", "--deadline", "--memory"} <= {option.opts[0] for option in taken}
    for option in taken:
        assert option.type.unit in (option.help or ""), option.opts
