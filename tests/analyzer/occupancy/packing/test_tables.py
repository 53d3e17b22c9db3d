"""Tables of jobs and of configurations: what is read, and the one sentence for what cannot be."""

from pathlib import Path

import pandas as pd
import pytest

from epochcast.analyzer.backends.occupancy.packing.configurations import Configuration, configurations
from epochcast.analyzer.backends.occupancy.packing.job import Job, read_jobs
from epochcast.analyzer.errors import InputError

JOBS = """name,arrival_s,duration_s,occupancy,nvml_utilisation,memory_bytes
first,0,12.5,0.4,0.9,2e9
second,3,1,1,1,1000000
"""

MODELLED = """key,model,occupancy,nvml_utilisation,memory_bytes,step_s
resnet18/b16,resnet18,0.4,0.9,2e9,0.01
bert/b8,bert,0.2,0.95,3e9,0.02
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "table.csv"
    path.write_text(text)
    return path


def test_jobs_are_read_with_right_predictions_unless_said(tmp_path: Path) -> None:
    first, second = read_jobs(write(tmp_path, JOBS))
    assert first == Job("first", 0.0, 12.5, 0.4, 0.4, 0.9, 2e9, 2e9)
    assert (second.arrival, second.nvml_utilisation, second.memory) == (3, 1, 1e6)
    text = JOBS.replace("memory_bytes", "memory_bytes,predicted_occupancy,predicted_memory_bytes,configuration")
    first, second = read_jobs(
        write(tmp_path, text.replace("2e9\n", "2e9,0.6,1e9,resnet18\n").replace("1000000\n", "1000000,,,\n"))
    )
    assert (first.predicted_occupancy, first.predicted_memory, first.configuration) == (0.6, 1e9, "resnet18")
    assert (second.predicted_occupancy, second.predicted_memory, second.configuration) == (1, 1e6, "")
    assert first.as_predicted == Job("first", 0.0, 12.5, 0.6, 0.6, 0.9, 1e9, 1e9, "resnet18")


def test_a_name_that_looks_like_a_number_stays_a_name(tmp_path: Path) -> None:
    assert read_jobs(write(tmp_path, JOBS.replace("first", "007")))[0].name == "007"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty; it needs the columns name, arrival_s, duration_s"),
        (JOBS.splitlines()[0], "holds no row"),
        (JOBS.replace("duration_s", "seconds"), "lacks the column 'duration_s'"),
        (JOBS.replace("12.5", "0"), "column 'duration_s' .* holds 0 in data row 1; give a number of 1e-06 or more"),
        (JOBS.replace("0.4", "40"), "column 'occupancy' .* holds 40 in data row 1; give a number from 0 to 1"),
        (JOBS.replace("0.9", "-0.1"), "column 'nvml_utilisation' .* holds -0.1 in data row 1"),
        (JOBS.replace("12.5", "long"), "column 'duration_s' .* holds 'long' in data row 1"),
        (JOBS.replace("12.5", ""), "column 'duration_s' .* is empty in data row 1"),
        (JOBS.replace("2e9", "inf"), "column 'memory_bytes' .* holds inf in data row 1"),
        (JOBS.replace("first", ""), "column 'name' .* is empty in data row 1"),
        (JOBS.replace("2e9", "2e9,1,2,3"), "is not a readable CSV file"),
    ],
)
def test_jobs_that_cannot_be(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_jobs(write(tmp_path, text))


def test_modelled_configurations(tmp_path: Path) -> None:
    assert configurations(write(tmp_path, MODELLED)) == [
        Configuration("resnet18/b16", "resnet18", 0.4, 0.9, 2e9),
        Configuration("bert/b8", "bert", 0.2, 0.95, 3e9),
    ]


def measured() -> pd.DataFrame:
    """As occupancy_bench.py writes it: percentages, MiB, a row that failed, one without a reading of NVML."""
    return pd.DataFrame(
        {
            "key": ["vgg11/b16", "vgg11/b999", "lstm/b128"],
            "model": ["vgg11", "vgg11", "lstm"],
            "status": ["ok", "oom", "ok"],
            "reason": ["", "out of memory", ""],
            "mean_grid": [42.0, None, 7.0],
            "timemean_grid": [60.0, None, 9.0],
            "nvml_util": [97.5, None, None],
            "peak_mib": [512.0, None, 100.0],
            "iter_ms": [3.0, None, 1.0],
        }
    )


def test_measured_configurations(tmp_path: Path) -> None:
    measured().to_csv(tmp_path / "occupancy.csv", index=False)
    assert configurations(tmp_path / "occupancy.csv") == [Configuration("vgg11/b16", "vgg11", 0.42, 0.975, 512 * 2**20)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"status": "error"}, "has no row with status ok"),
        ({"mean_grid": 142.0}, "percentages are 0 to 100"),
        ({"peak_mib": -1.0}, "percentages are 0 to 100"),
    ],
)
def test_measured_configurations_that_cannot_be(tmp_path: Path, change: dict[str, object], message: str) -> None:
    measured().assign(**change).to_csv(tmp_path / "occupancy.csv", index=False)
    with pytest.raises(InputError, match=message):
        configurations(tmp_path / "occupancy.csv")


def test_neither_table(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="lacks the column 'key'; it needs key, model, occupancy"):
        configurations(write(tmp_path, JOBS))
    with pytest.raises(InputError, match="there is no file"):
        configurations(tmp_path / "none.csv")
