import json
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from epochcast.analyzer.cli import cli, main
from epochcast.regressor import load_catalog
from epochcast.regressor.gpus import FIGURES

from ...my_gpu import MY_GPU


def test_lists_every_gpu_and_the_users_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.toml").write_text(MY_GPU + 'aliases = ["mine"]\n')
    assert main(["gpus", "--gpus", str(tmp_path / "mine.toml")]) == 0
    header, *rows, legend = capsys.readouterr().out.splitlines()
    assert legend.startswith("unverified: no source at hand confirms these figures")
    assert header.startswith("gpu ") and [row.split("  ")[0] for row in rows] == [*load_catalog(), "My GPU"]
    assert rows[-1].split() == ["My", "GPU", "8.9", "100", "61.4", "32", "900", "300", "mine"]


def test_another_vendors_gpu_is_listed_by_vendor(capsys: pytest.CaptureFixture[str]) -> None:
    """Its compute capability is no CUDA one."""
    assert main(["gpus"]) == 0
    (row,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("MI300X "))
    assert " AMD " in row and "9.4" not in row


def test_json_holds_every_figure_in_base_units(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gpus", "--json"]) == 0
    listed = {gpu["name"]: gpu for gpu in json.loads(capsys.readouterr().out)["gpus"]}
    for gpu in load_catalog().values():
        assert all(listed[gpu.name][figure] == getattr(gpu, figure) for figure in FIGURES)
        assert listed[gpu.name]["aliases"] == list(gpu.aliases)


def test_a_bad_file_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.toml").write_text(MY_GPU.replace("2.4e9", "2400"))
    assert main(["gpus", "--gpus", str(tmp_path / "mine.toml")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "boost_clock is 2400 Hz" in error and "multiply by 1e+06" in error


def _helps(command: click.Command) -> Iterator[str]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _helps(below)
    else:
        yield command.help or ""


def test_every_gpu_of_an_example_in_a_help_text_is_one_gpu() -> None:
    catalog = load_catalog()
    named = [name for text in _helps(cli) for name in re.findall(r'--gpu ("[^"]+"|[\w-]+)', text)]
    assert len(named) > 5 and all(catalog.resolve(name.strip('"')).name for name in named)
