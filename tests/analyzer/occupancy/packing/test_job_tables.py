"""Tables of jobs and of kinds of jobs: what is read, the one sentence for what cannot be, and streams drawn from them."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from epochcast.analyzer.backends.occupancy.packing.jobs import (
    MEAN_DURATION,
    SPREAD,
    PackedJob,
    draw_streams,
    job_kind,
    read_jobs,
    read_kinds,
)
from epochcast.analyzer.errors import InputError
from epochcast.regressor import load_catalog

JOBS = """name,arrival_s,duration_s,occupancy,nvml_utilisation,memory_bytes
first,0,12.5,0.4,0.9,2e9
second,3,1,1,1,1000000
"""

CATALOG = load_catalog()
A100, T4 = CATALOG["A100 SXM4 40GB"], CATALOG["T4"]


def write(folder: Path, text: str) -> Path:
    path = folder / "table.csv"
    path.write_text(text)
    return path


def test_jobs_are_read_with_right_predictions_unless_given(tmp_path: Path) -> None:
    first, second = read_jobs(write(tmp_path, JOBS))
    assert first == PackedJob("first", 0.0, 12.5, 0.4, 0.4, 0.9, 2e9, 2e9)
    assert (second.arrival, second.nvml_utilisation, second.memory) == (3, 1, 1e6)
    text = JOBS.replace("memory_bytes", "memory_bytes,predicted_occupancy,predicted_memory_bytes")
    first, second = read_jobs(write(tmp_path, text.replace("2e9\n", "2e9,0.6,1e9\n").replace("1000000\n", "1000000,,\n")))
    assert (first.predicted_occupancy, first.predicted_memory) == (0.6, 1e9)
    assert (second.predicted_occupancy, second.predicted_memory) == (1, 1e6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty; a table needs a line of column names"),
        (JOBS.splitlines()[0], "holds no row"),
        (JOBS.replace("duration_s", "seconds"), "lacks the column 'duration_s'"),
        (JOBS.replace("12.5", "0"), r"column 'duration_s' .* holds 0 in data row 1; give a number from 1e-06 to 1e\+12"),
        (JOBS.replace("0.4", "40"), "column 'occupancy' .* holds 40 in data row 1; give a number from 0 to 1"),
        (JOBS.replace("12.5", "long"), "column 'duration_s' .* holds 'long' in data row 1"),
        (JOBS.replace("12.5", ""), "column 'duration_s' .* is empty in data row 1"),
        (JOBS.replace("first", ""), "column 'name' .* is empty in data row 1; fill it in"),
        (JOBS.replace("2e9", "2e9,1,2,3"), "is not a readable CSV file"),
    ],
)
def test_jobs_that_cannot_be(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_jobs(write(tmp_path, text))


def public(folder: Path, **changed: object) -> Path:
    """As the public tables are: the first training is as it should be, each other one lacks something."""
    table = pd.DataFrame(
        {
            "name": ["a", "crashed", "no occupancy", "no utilisation", "no memory"],
            "depth": 1,
            "layers": "[('linear', 4, 12)]",
            "batch": 2,
            "peak_memory_mib": [1024, 1024, 1024, 1024, 0],
            "gpu_utilization_percent": [37.5, 37.5, 37.5, -1.0, 37.5],
            "sm_active": 0.5,
            "sm_occupancy": [0.25, 0.25, -1.0, 0.25, 0.25],
            "status": ["SUCCESSFUL", "OOM_CRASH", *["SUCCESSFUL"] * 3],
        }
    )
    table.assign(**changed).to_csv(folder / "trainings.csv.gz", index=False)
    return folder / "trainings.csv.gz"


def test_trainings_that_ran_to_their_end_with_all_figures(tmp_path: Path) -> None:
    kind = job_kind("a", 0.25, 0.375, 2**30)
    assert read_kinds(public(tmp_path), CATALOG) == ([kind], A100, 4)
    assert read_kinds(public(tmp_path), CATALOG, T4) == ([kind], T4, 4)  # a table of one's own
    without = pd.read_csv(public(tmp_path)).drop(columns="status")
    without.to_csv(tmp_path / "trainings.csv", index=False)
    assert len(read_kinds(tmp_path / "trainings.csv", CATALOG)[0]) == 2
    with pytest.raises(InputError, match=r"no training of .* ran to its end with an SM occupancy"):
        read_kinds(public(tmp_path, status="OOM_CRASH"), CATALOG)
    with pytest.raises(InputError, match=r"'sm_occupancy' .* holds 25.0 in data row 1; give a number from -1 to 1"):
        read_kinds(public(tmp_path, sm_occupancy=25.0), CATALOG)
    with pytest.raises(InputError, match="lacks the column 'peak_memory_mib'"):
        read_kinds(write(tmp_path, "name,sm_occupancy,gpu_utilization_percent\na,0.5,50\n"), CATALOG)


OWN = """network,batch,channels,image_size,sequence,hidden,layers,precision,gpu,peak_memory_mib,gpu_utilization_percent,\
sm_active,sm_occupancy,status
lenet,16,1,28,0,0,0,fp32,T4,512,50,0.5,0.125,SUCCESSFUL
lenet,9999,1,28,0,0,0,fp32,T4,,,,,OOM_CRASH
vgg11,32,3,224,0,0,0,amp,A100 SXM4 40GB,2048,100,0.9,0.5,SUCCESSFUL
"""


def test_trainings_that_benchmark_occupancy_measured_are_those_of_one_gpu(tmp_path: Path) -> None:
    path = write(tmp_path, OWN)
    assert read_kinds(path, CATALOG, T4) == ([job_kind("lenet/16", 0.125, 0.5, 512 * 2**20)], T4, 1)
    assert read_kinds(path, CATALOG, A100) == ([job_kind("vgg11/32", 0.5, 1.0, 2**31)], A100, 0)
    with pytest.raises(InputError, match="is of A100 SXM4 40GB, T4; say which by --gpu"):
        read_kinds(path, CATALOG)
    with pytest.raises(InputError, match="holds nothing on 'P40' but on A100 SXM4 40GB, T4"):
        read_kinds(path, CATALOG, CATALOG["P40"])
    assert read_kinds(write(tmp_path, OWN.replace("A100 SXM4 40GB", "Tesla T4")), CATALOG)[1] == T4


def test_the_public_tables(shared_data: Path) -> None:
    kinds, gpu, left_out = read_kinds(shared_data / "occupancy/measured_cnn.csv.gz", CATALOG)
    assert (len(kinds), left_out, gpu) == (509, 936, A100)
    assert max(kind.memory for kind in kinds) < A100.memory


KINDS = [job_kind(f"net{n}/b16", 0.1 * n, 0.9, n * 1e9) for n in range(1, 6)]


def test_a_stream_draws_durations_kinds_and_arrivals() -> None:
    (jobs,) = draw_streams(KINDS, 1, 0, 40_000, arrival_rate=0.5)
    durations = np.array([one.duration for one in jobs])
    assert durations.mean() == pytest.approx(MEAN_DURATION, rel=0.04)
    assert np.log(durations).std() == pytest.approx(SPREAD, rel=0.03)
    assert np.unique([one.kind for one in jobs], return_counts=True)[1] == pytest.approx(8000, rel=0.05)
    like = {kind.name: kind for kind in KINDS}
    assert all(one.occupancy == one.predicted_occupancy == like[one.kind].occupancy for one in jobs[:20])
    gaps = np.diff([one.arrival for one in jobs])
    assert jobs[0].arrival == 0 and (gaps.mean(), gaps.std()) == pytest.approx((2, 2), rel=0.05)  # exponential
