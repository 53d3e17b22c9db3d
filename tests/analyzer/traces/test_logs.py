"""Foreign logs: each becomes a trace in base units under catalogue names, and what cannot is refused in one sentence."""

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.trace import read_trace

MIB = 2.0**20

NVIDIA_SMI = """\
timestamp, name, uuid, pstate, utilization.gpu [%], memory.used [MiB], power.draw [W], clocks.current.sm [MHz], fan.speed [%]
2026/11/20 18:49:56.100, Tesla T4, GPU-5d1, P0, 97 %, 1024 MiB, 66.41 W, 1590 MHz, [N/A]
2026/11/20 18:49:56.200, Tesla T4, GPU-5d1, P0, 0 %, 1024 MiB, [N/A], 585 MHz, [N/A]
"""

NVIDIA_SMI_NO_UNITS = """\
timestamp, index, utilization.gpu [%], temperature.gpu, power.draw.instant [W], power.draw [W], fan.speed [%]
2026/11/20 18:49:56.100, 0, 97, 41, 70.00, 66.41, 30
2026/11/20 18:49:56.200, 0, 0, 41, 40.00, 60.00, 31
"""

DCGMI_DMON = """\
#Entity   SMACT         DRAMA         POWINST         GPUTL         FBUSD         TOTEC         NVLTX
ID                                    W               %             MB            mJ
GPU 0     0.912         0.455         402.125         97            2048          1500          N/A
GPU 0     0.100         0.020         120.000         11            2048          3000          N/A
#Entity   SMACT         DRAMA         POWINST         GPUTL         FBUSD         TOTEC         NVLTX
ID                                    W               %             MB            mJ
GPU 0     0.910         0.450         401.000         96            2048          4500          N/A
"""


def write(path: Path, text: str) -> Path:
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def test_nvidia_smi_with_units_in_its_cells(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path / "log", NVIDIA_SMI))
    assert np.diff(trace.time) == pytest.approx([0.1], abs=1e-6)
    assert trace.time[0] == pytest.approx(pd.Timestamp("2026-11-20T18:49:56.1Z").timestamp())
    assert (trace.gpu, trace.uuid, trace.source) == ("Tesla T4", "GPU-5d1", "nvidia-smi")
    metrics = trace.metrics()
    assert list(metrics) == ["gpu_utilization", "memory_used", "power_average", "sm_clock"]
    assert metrics["gpu_utilization"] == pytest.approx([0.97, 0])
    assert metrics["memory_used"].tolist() == [1024 * MIB] * 2
    assert metrics["sm_clock"].tolist() == [1590e6, 585e6]
    assert metrics["power_average"] == pytest.approx([66.41, np.nan], nan_ok=True)


def test_nvidia_smi_without_units_keeps_numbers_that_it_does_not_know(tmp_path: Path) -> None:
    metrics = read_trace(write(tmp_path / "log", NVIDIA_SMI_NO_UNITS)).metrics()
    assert list(metrics) == ["gpu_utilization", "temperature", "power", "power_average", "fan.speed"]
    assert metrics["power"].tolist() == [70, 40]
    assert metrics["power_average"].tolist() == [66.41, 60]
    assert metrics["fan.speed"].tolist() == [30, 31]


def test_a_field_that_was_asked_for_twice_is_one_metric(tmp_path: Path) -> None:
    smi = "timestamp, utilization.gpu [%], utilization.gpu [%]\n2026/11/20 18:49:56.100, 97 %, 97 %\n"
    dcgmi = "#Entity SMACT SMACT\nID\n1700000000.0 GPU 0 0.5 0.5\n"
    for text, name, level in ((smi, "gpu_utilization", 0.97), (dcgmi, "sm_active", 0.5)):
        assert read_trace(write(tmp_path / "log", text)).metrics() == {name: pytest.approx([level])}


def test_dcgmi_dmon_with_the_command_that_made_it(tmp_path: Path) -> None:
    command = "# dcgmi dmon -e 1002,1005,157,203,252,156,1011 -i 0 -d 100\n"
    trace = read_trace(write(tmp_path / "log", command + DCGMI_DMON))
    assert trace.time.tolist() == [0, 0.1, 0.2]
    assert trace.source == "dcgmi dmon"
    metrics = trace.metrics()
    assert metrics["sm_active"].tolist() == [0.912, 0.1, 0.91]
    assert metrics["dram_active"].tolist() == [0.455, 0.02, 0.45]
    assert metrics["power"].tolist() == [402.125, 120, 401]
    assert metrics["gpu_utilization"] == pytest.approx([0.97, 0.11, 0.96])
    assert metrics["memory_used"].tolist() == [2048 * MIB] * 3
    assert metrics["energy"].tolist() == [1.5, 3, 4.5]
    assert np.isnan(metrics["nvlink_tx"]).all()


@pytest.mark.parametrize(
    ("command", "interval"), [("$ dcgmi dmon -e 1002", 1), ("dcgmi dmon --delay=50 -e 1002", 0.05), ("dcgmi dmon -d500", 0.5)]
)
def test_the_interval_of_dcgmi_dmon(tmp_path: Path, command: str, interval: float) -> None:
    assert read_trace(write(tmp_path / "log", f"{command}\n{DCGMI_DMON}")).time[1] == interval


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (NVIDIA_SMI.replace("97 %", "busy"), "'busy' in data row 1"),
        (NVIDIA_SMI.replace("2026/11/20 18:49:56.200", "yesterday"), "is 'yesterday' in data row 2"),
        (NVIDIA_SMI.replace("56.200", "56.100"), "time repeats"),
        (DCGMI_DMON, "rows without a time"),
        ("# dcgmi dmon -d 100\n" + DCGMI_DMON.replace("0.100", "Tesla V100").replace("0.910", "A A"), "line 5 of"),
        ("# dcgmi dmon -d 100\n#Entity SMACT\nID\n", "no rows"),
    ],
)
def test_logs_that_are_refused(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        read_trace(write(tmp_path / "log", text))
    assert "\n" not in str(caught.value)
    assert "log" in str(caught.value)


def test_a_trace_of_our_own_is_taken_for_no_foreign_one(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path / "run.csv", "time,mono,gpu,watts\n1,2,3,4\n2,3,4,5\n"))
    assert trace.metric_names == ("mono", "gpu", "watts") and trace.source is None
