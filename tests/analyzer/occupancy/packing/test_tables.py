"""Tables of jobs and of kinds of jobs: what is read, and the one sentence for what cannot be."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from made_occupancies import made_points

from epochcast.analyzer.backends.occupancy.packing.job import Job, read_jobs
from epochcast.analyzer.backends.occupancy.packing.job_kinds import JobKind, JobKinds, job_kinds
from epochcast.analyzer.backends.occupancy.packing.policies import slot
from epochcast.analyzer.backends.occupancy.packing.simulation import simulate
from epochcast.analyzer.backends.occupancy.packing.slowdown import none
from epochcast.analyzer.errors import InputError
from epochcast.regressor import load_catalog

JOBS = """name,arrival_s,duration_s,occupancy,nvml_utilisation,memory_bytes
first,0,12.5,0.4,0.9,2e9
second,3,1,1,1,1000000
"""

PLAIN = """key,occupancy,nvml_utilisation,memory_bytes,step_s
resnet18/b16,0.4,0.9,2e9,0.01
bert/b8,0.2,0.95,3e9,0.02
"""

CATALOG = load_catalog()


def write(folder: Path, text: str) -> Path:
    path = folder / "table.csv"
    path.write_text(text)
    return path


def test_jobs_are_read_with_right_predictions_unless_said(tmp_path: Path) -> None:
    first, second = read_jobs(write(tmp_path, JOBS))
    assert first == Job("first", 0.0, 12.5, 0.4, 0.4, 0.9, 2e9, 2e9)
    assert (second.arrival, second.nvml_utilisation, second.memory) == (3, 1, 1e6)
    text = JOBS.replace("memory_bytes", "memory_bytes,predicted_occupancy,predicted_memory_bytes,kind")
    first, second = read_jobs(
        write(tmp_path, text.replace("2e9\n", "2e9,0.6,1e9,resnet18\n").replace("1000000\n", "1000000,,,\n"))
    )
    assert (first.predicted_occupancy, first.predicted_memory, first.kind) == (0.6, 1e9, "resnet18")
    assert (second.predicted_occupancy, second.predicted_memory, second.kind) == (1, 1e6, "")
    assert first.as_predicted == Job("first", 0.0, 12.5, 0.6, 0.6, 0.9, 1e9, 1e9, "resnet18")


def test_arrivals_count_from_the_first(tmp_path: Path) -> None:
    """Nanoseconds since 1970: a second job that comes 512 of them later, when all else would be lost to rounding."""
    late = JOBS.replace("first,0", "first,1.7e18").replace("second,3", "second,1700000000000000512")
    jobs = read_jobs(write(tmp_path, late))
    assert [job.arrival for job in jobs] == [0, 512]
    assert simulate(jobs, 1, 16e9, slot, none).makespan == 513


def test_a_name_that_looks_like_a_number_stays_a_name(tmp_path: Path) -> None:
    assert read_jobs(write(tmp_path, JOBS.replace("first", "007")))[0].name == "007"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty; it needs the columns name, arrival_s, duration_s"),
        (JOBS.splitlines()[0], "holds no row"),
        (JOBS.replace("duration_s", "seconds"), "lacks the column 'duration_s'"),
        (JOBS.replace("12.5", "0"), r"column 'duration_s' .* holds 0 in data row 1; give a number from 1e-06 to 1e\+12"),
        (JOBS.replace("0.4", "40"), "column 'occupancy' .* holds 40 in data row 1; give a number from 0 to 1"),
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


def test_plain_kinds(tmp_path: Path) -> None:
    kinds = (JobKind("resnet18/b16", 0.4, 0.9, 2e9), JobKind("bert/b8", 0.2, 0.95, 3e9))
    assert job_kinds(write(tmp_path, PLAIN), CATALOG) == JobKinds(kinds, "given", "", 0)


def points() -> pd.DataFrame:
    """A table of occupancies on two GPUs; of one row no memory is known."""
    gpus = ["A100 SXM4 40GB", "A100 SXM4 40GB", "P40"]
    same = {"channels": 3, "image_size": 224, "labels": "modelled", "time_mean": 0.5, "max": 1.0}
    different = {"mean": [0.4, 0.6, 0.7], "gpu": gpus, "memory_bytes": [2e9, np.nan, 2e9]}
    return made_points(["resnet18"], (16, 32, 16)).assign(**same, **different)


def test_kinds_of_a_table_of_occupancies_are_those_of_one_gpu(tmp_path: Path) -> None:
    points().to_csv(tmp_path / "points.csv", index=False)
    found = job_kinds(tmp_path / "points.csv", CATALOG, CATALOG.resolve("A100 SXM4 40GB"))
    kind = JobKind("resnet18/16/3/224/0/0/0/fp32", 0.4, 0.9, 2e9)
    assert found == JobKinds((kind,), "modelled", "A100 SXM4 40GB", 1)
    p40 = CATALOG.resolve("P40")
    assert job_kinds(tmp_path / "points.csv", CATALOG, p40).kinds[0].occupancy == 0.7
    assert job_kinds(tmp_path / "points.csv", CATALOG, p40, "time_mean").kinds[0].occupancy == 0.5
    with pytest.raises(InputError, match="is of A100 SXM4 40GB, P40; say which by --gpu"):
        job_kinds(tmp_path / "points.csv", CATALOG)
    with pytest.raises(InputError, match="holds nothing on 'T4' but on A100 SXM4 40GB, P40"):
        job_kinds(tmp_path / "points.csv", CATALOG, CATALOG.resolve("T4"))
    points().head(2).tail(1).to_csv(tmp_path / "points.csv", index=False)
    with pytest.raises(InputError, match="holds no row with nvml_utilisation and memory_bytes"):
        job_kinds(tmp_path / "points.csv", CATALOG)


def test_kinds_are_of_one_kind_of_labels(tmp_path: Path) -> None:
    """Else each configuration that was measured twice would be drawn with either of two values that mean different things."""
    table = points().head(1)
    pd.concat([table, table.assign(labels="ncu", mean=0.3)]).to_csv(tmp_path / "points.csv", index=False)
    with pytest.raises(InputError, match="1 rows modelled and 1 rows ncu; choose one by --labels"):
        job_kinds(tmp_path / "points.csv", CATALOG)
    found = job_kinds(tmp_path / "points.csv", CATALOG, labels="ncu")
    assert (found.labels, [kind.occupancy for kind in found.kinds]) == ("ncu", [0.3])


def test_a_plain_table_has_nothing_to_choose_from(tmp_path: Path) -> None:
    for asked in ({"labels": "ncu"}, {"occupancy": "time_mean"}):
        ((option, value),) = asked.items()
        with pytest.raises(InputError, match=f"gives one occupancy of each job .*; leave out --{option} {value}"):
            job_kinds(write(tmp_path, PLAIN), CATALOG, **asked)


def measured(folder: Path) -> Path:
    """As occupancy_bench.py writes it: percentages, MiB, a row that failed, one without a reading of NVML."""
    table = pd.DataFrame(
        {
            "key": ["vgg11/b16", "vgg11/b999", "lstm/b128"],
            "model": ["vgg11", "vgg11", "lstm"],
            "family": ["cnn", "cnn", "rnn"],
            "batch": [16, 999, 128],
            "channels": [3, 3, 0],
            "image": [224, 224, 0],
            "seq": [0, 0, 32],
            "hidden": [0, 0, 256],
            "layers": [0, 0, 2],
            "status": ["ok", "oom", "ok"],
            "reason": ["", "out of memory", ""],
            "kernels": [40, np.nan, 90],
            "mean_grid": [42.0, np.nan, 7.0],
            "timemean_grid": [60.0, np.nan, 9.0],
            "max_grid": [100.0, np.nan, 50.0],
            "nvml_util": [97.5, np.nan, np.nan],
            "peak_mib": [512.0, np.nan, 100.0],
            "iter_ms": [3.0, np.nan, 1.0],
        }
    )
    table.to_csv(folder / "occupancy.csv", index=False)
    return folder / "occupancy.csv"


def test_kinds_that_occupancy_bench_measured(tmp_path: Path) -> None:
    path = measured(tmp_path)
    found = job_kinds(path, CATALOG, CATALOG.resolve("H200 SXM"))
    assert found == JobKinds((JobKind("vgg11/16/3/224/0/0/0/fp32", 0.42, 0.975, 512 * 2**20),), "launch_config", "H200 SXM", 1)
    (tmp_path / "meta.json").write_text('{"parts": {"profile": {"device": "NVIDIA H200", "compute_capability": "9.0"}}}')
    assert job_kinds(path, CATALOG) == found
    with pytest.raises(InputError, match="holds nothing on 'P40' but on H200 SXM"):
        job_kinds(path, CATALOG, CATALOG.resolve("P40"))


def test_no_table_of_kinds(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="which are those of no known table of occupancies"):
        job_kinds(write(tmp_path, JOBS), CATALOG)
    with pytest.raises(InputError, match="not read from standard input; write them to a file"):
        job_kinds(Path("-"), CATALOG)
    with pytest.raises(InputError, match="there is no file"):
        job_kinds(tmp_path / "none.csv", CATALOG)
    with pytest.raises(InputError, match=r"column 'occupancy' .* holds 1\.4 in data row 1"):
        job_kinds(write(tmp_path, PLAIN.replace("0.4,", "1.4,")), CATALOG)
