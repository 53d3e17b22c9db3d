import re
from pathlib import Path

import pytest

from epochcast.analyzer.cli import main
from epochcast.regressor import load_catalog

from ...my_gpu import MY_GPU
from .all_commands import commands


def test_lists_every_gpu_and_the_users_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.toml").write_text(MY_GPU + 'aliases = ["mine"]\n')
    assert main(["gpus", "--gpus", str(tmp_path / "mine.toml")]) == 0
    header, *rows, legend = capsys.readouterr().out.splitlines()
    assert legend.startswith("unverified: no public source confirms these figures")
    assert header.startswith("gpu ") and [row.split("  ")[0] for row in rows] == [*load_catalog(), "My GPU"]
    assert rows[-1].split() == ["My", "GPU", "8.9", "100", "61.4", "32", "900", "300", "mine"]


def test_another_vendors_gpu_is_listed_by_vendor(capsys: pytest.CaptureFixture[str]) -> None:
    """Its compute capability is no CUDA one."""
    assert main(["gpus"]) == 0
    (row,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("MI300X "))
    assert " AMD " in row and "9.4" not in row


def test_a_bad_file_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.toml").write_text(MY_GPU.replace("2.4e9", "2400"))
    assert main(["gpus", "--gpus", str(tmp_path / "mine.toml")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "boost_clock is 2400;" in error and "multiply by 1e+06" in error


def test_every_gpu_of_an_example_in_a_help_text_is_one_gpu() -> None:
    catalog = load_catalog()
    named = [name for _, command in commands() for name in re.findall(r'--gpu ("[^"]+"|[\w-]+)', command.help or "")]
    assert len(named) > 4 and all(catalog.resolve(name.strip('"')).name for name in named)
