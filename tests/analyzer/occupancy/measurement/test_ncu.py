"""Nsight Compute replaced by a script that writes what it writes: how it is called, and what is made of its answers."""

import json
import sys

import pytest

pytest.importorskip("torch")

from epochcast.analyzer.backends.occupancy.configuration import Configuration
from epochcast.analyzer.backends.occupancy.measurement import ncu
from epochcast.analyzer.backends.occupancy.measurement.ncu import METRICS, MOST_LAUNCHES, Ncu, find_ncu
from epochcast.analyzer.errors import InputError

LSTM = Configuration("lstm", 3, sequence=5, hidden=8, layers=1)
KEYS = ["ID", "Kernel Name", "Block Size", "Grid Size", "Device", "CC"]
ROWS = [
    ["0", "gemm<A, B>", "(256, 1, 1)", "(66, 1, 1)", "0", "9.0", "3.5", "100", "30000", "32", "0", "0"],
    ["1", "relu", "(128, 1, 1)", "(2112, 1, 1)", "0", "9.0", "90", "100", "10000", "32", "0", "0"],
]
UNITS = [""] * 6 + ["%", "%", "ns", "register/thread", "byte/block", "byte/block"]
LOG = "\n".join(",".join(f'"{cell}"' for cell in line) for line in ([*KEYS, *METRICS], UNITS, *ROWS)) + "\n"

SCRIPT = """#!{python}
import json, sys, time
from pathlib import Path
arguments = sys.argv[1:]
Path({seen!r}).write_text(json.dumps(arguments))
{does}
"""


@pytest.fixture
def command(tmp_path):
    """Makes a command that does something with ``log``, the file that it was told to write."""

    def make(does):
        path = tmp_path / "ncu"
        does = "log = Path(arguments[arguments.index('--log-file') + 1])\n" + does
        path.write_text(SCRIPT.format(python=sys.executable, seen=str(tmp_path / "seen"), does=does))
        path.chmod(0o755)
        return Ncu(str(path))

    return make


def test_the_launches_with_what_the_hardware_counted(command, tmp_path):
    table = command(f"log.write_text({LOG!r})").kernels(LSTM, 2)
    assert table["achieved"].tolist() == pytest.approx([0.035, 0.9])
    assert table["grid_x"].tolist() == [66, 2112]
    assert table["duration"].tolist() == pytest.approx([3e-5, 1e-5])
    arguments = json.loads((tmp_path / "seen").read_text())
    assert arguments[arguments.index("--metrics") + 1].split(",") == list(METRICS)
    assert arguments[arguments.index("--profile-from-start") + 1] == "off"
    python, option, module, told = arguments[-4:]
    assert (python, option) == (sys.executable, "-m")
    assert module == "epochcast.analyzer.backends.occupancy.measurement.ncu_step"
    assert Configuration(**json.loads(told)) == LSTM


@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("print('out of memory'); sys.exit(1)", "ncu wrote no table of kernels .*out of memory"),
        ("log.write_text('==PROF== Disconnected')", "ncu wrote no table of kernels"),
    ],
)
def test_a_failure_is_of_one_configuration(command, does, said):
    tool = command(does)
    with pytest.raises(RuntimeError, match=said):
        tool.kernels(LSTM, 2)
    assert tool.problem == ""


def test_without_permission_it_is_not_tried_again(command):
    tool = command("print('==ERROR== ERR_NVGPUCTRPERM - The user does not have permission'); sys.exit(1)")
    with pytest.raises(RuntimeError, match="may not read"):
        tool.kernels(LSTM, 2)
    assert "only administrators" in tool.problem


def test_what_takes_too_long_is_ended(command, monkeypatch):
    monkeypatch.setattr(ncu, "_LONGEST_S", 1.0)
    with pytest.raises(RuntimeError, match="ncu took longer than 1 s"):
        command("time.sleep(60)").kernels(LSTM, 2)


def test_steps_of_many_launches_are_left_out():
    with pytest.raises(RuntimeError, match=f"more than {MOST_LAUNCHES} launches"):
        Ncu("nothing").kernels(LSTM, MOST_LAUNCHES + 1)


def test_where_it_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(ncu, "_PLACES", (str(tmp_path / "ncu"), str(tmp_path / "nsight")))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(InputError, match="ncu was not found; install Nsight Compute"):
        find_ncu()
    for version in ("2024.3.1", "2025.1.0"):
        (tmp_path / "nsight" / version).mkdir(parents=True)
        (tmp_path / "nsight" / version / "ncu").write_text("")
    assert find_ncu() == str(tmp_path / "nsight" / "2025.1.0" / "ncu")
    (tmp_path / "ncu").write_text("")
    assert find_ncu() == str(tmp_path / "ncu")
