import os
from pathlib import Path

import numpy as np
import pytest

from epochcast.analyzer.telemetry import TelemetryError
from epochcast.analyzer.telemetry.files import FilesSource
from epochcast.analyzer.telemetry.settings import FilesSettings

HEADER = '# {"schema": "epochcast.trace/v1", "gpu": "Tesla T4", "uuid": "GPU-a", "source": "gpm", "simulated": true}\n'


def source(folder: Path, pattern: str = "**/*.csv") -> FilesSource:
    return FilesSource(FilesSettings(path=str(folder / pattern), region="eu"))


def write(path: Path, rows: int, header: str = "") -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"{header}time,power\n" + "".join(f"{k / 10},{k}\n" for k in range(rows)))
    os.utime(path, (rows, rows))


def test_each_file_is_a_gpu_and_is_given_once(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", 20, HEADER)
    write(tmp_path / "more" / "b.csv", 30)
    reader = source(tmp_path)
    found = {rows.device.uuid: rows for rows in reader.poll()}
    assert {uuid: len(rows.time) for uuid, rows in found.items()} == {"GPU-a": 20, "file-b": 30}
    device = found["GPU-a"].device
    assert (device.name, device.source, device.simulated, device.region) == ("Tesla T4", "gpm", True, "eu")
    assert (found["file-b"].hertz, found["file-b"].ended) == (10.0, True)  # nobody has written to it since 1970
    np.testing.assert_array_equal(found["file-b"].values["power"], np.arange(30))
    assert reader.poll() == []


def test_a_log_of_two_gpus_is_two(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("time,index,power\n" + "".join(f"{k},{gpu},{k + gpu}\n" for k in range(20) for gpu in (0, 1)))
    reader = source(tmp_path)
    assert {rows.device.uuid: rows.values["power"][0] for rows in reader.poll()} == {"file-log GPU 0": 0, "file-log GPU 1": 1}
    assert reader.poll() == []


def test_a_file_that_has_grown_gives_what_is_new(tmp_path: Path) -> None:
    reader = source(tmp_path)
    assert reader.poll() == []
    write(tmp_path / "a.csv", 20)
    assert len(reader.poll()[0].time) == 20
    write(tmp_path / "a.csv", 25)
    (rows,) = reader.poll()
    assert rows.values["power"].tolist() == [20, 21, 22, 23, 24]


def test_a_broken_file_is_one_failure_and_costs_no_other(tmp_path: Path) -> None:
    (tmp_path / "broken.csv").write_text("no,trace\n1,2\n")
    write(tmp_path / "whole.csv", 20)
    reader = source(tmp_path)
    assert [rows.device.uuid for rows in reader.poll()] == ["file-whole"]
    with pytest.raises(TelemetryError, match=r"broken.csv' has no column 'time'"):
        reader.poll()
    assert reader.poll() == []  # told once
    write(tmp_path / "broken.csv", 10)
    assert [rows.device.uuid for rows in reader.poll()] == ["file-broken"]


def test_many_files_come_a_few_at_a_time(tmp_path: Path) -> None:
    for k in range(10):
        write(tmp_path / f"{k}.csv", 5)
    reader = source(tmp_path)
    assert [len(reader.poll()) for _ in range(4)] == [4, 4, 2, 0]
