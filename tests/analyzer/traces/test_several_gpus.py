"""Logs of several GPUs: one trace of each, by what distinguishes them, and one answer of each from the command line."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from epochcast.analyzer.cli import main
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.trace import read_traces
from epochcast.detector import Detection, JobDetection

#: Field of nvidia-smi -> its cell, of GPU ``gpu`` at ``tick``.
CELLS: dict[str, Callable[[int, int], str]] = {
    "index": lambda gpu, _: str(gpu),
    "uuid": lambda gpu, _: f"GPU-{gpu}d1f0c2a-77e1-4b0a-9d55-0c7be1a2f3{gpu:02d}",
    "pci.bus_id": lambda gpu, _: f"00000000:{0x1B + gpu:02X}:00.0",
    "name": lambda gpu, _: "NVIDIA H100 80GB HBM3" if gpu % 4 else "NVIDIA A100-SXM4-80GB",
    "utilization.gpu [%]": lambda gpu, tick: f"{(tick * 7 + gpu) % 100} %",
    "memory.used [MiB]": lambda gpu, _: f"{1000 + gpu} MiB",
    "power.draw [W]": lambda gpu, tick: f"{300 + gpu + tick / 8:.2f} W",
}
METRICS = ("utilization.gpu [%]", "memory.used [MiB]", "power.draw [W]")
UNIX_S = 1_795_200_000.0


def smi_log(
    fields: Iterable[str], gpus: int = 8, ticks: int = 50, *, header: bool = True, units: bool = True, within_s: float = 0.001
) -> str:
    """What nvidia-smi writes ten times a second: at each tick a burst of rows, ``within_s`` apart."""
    fields = ("timestamp", *fields)
    rows = [", ".join(fields)] if header else []
    for tick in range(ticks):
        for gpu in range(gpus):
            moment = pd.Timestamp(UNIX_S + tick / 10 + gpu * within_s + (tick % 3) / 1000, unit="s").round("ms")
            cells = [CELLS[field](gpu, tick) for field in fields[1:]]
            if not units:
                cells = [
                    cell.split(" ")[0] if field in METRICS else cell for field, cell in zip(fields[1:], cells, strict=True)
                ]
            rows.append(", ".join([f"{moment:%Y/%m/%d %H:%M:%S.%f}"[:-3], *cells]))
    return "\n".join(rows) + "\n"


@pytest.fixture
def log(tmp_path: Path) -> Callable[[str], Path]:
    def written(text: str) -> Path:
        path = tmp_path / "smi.csv"
        path.write_text(text)
        return path

    return written


@pytest.mark.parametrize("units", [True, False])
@pytest.mark.parametrize("header", ["header", "command", "none"])
@pytest.mark.parametrize("fields", [("index",), ("uuid",), ("pci.bus_id",), ("index", "name", "uuid"), ("name",), ()])
def test_a_log_of_eight_gpus_is_eight_traces(
    log: Callable[[str], Path], fields: tuple[str, ...], header: str, units: bool
) -> None:
    asked = (*fields, *METRICS)
    text = smi_log(asked, header=header == "header", units=units)
    if header == "command":
        names = ",".join(field.partition(" ")[0] for field in asked)
        text = f"# nvidia-smi --query-gpu=timestamp,{names} --format=csv,noheader -lms 100\n{text}"
    traces = read_traces(log(text))
    assert [trace.label for trace in traces] == [f"GPU {gpu}" for gpu in range(8)]
    for gpu, trace in enumerate(traces):
        assert trace.time == pytest.approx([UNIX_S + (tick * 100 + gpu + tick % 3) / 1000 for tick in range(50)], abs=1e-6)
        metrics = trace.metrics()
        power, memory = 300 + gpu + np.arange(50) / 8, 1000.0 + gpu
        if header == "none":  # nothing says what a number is
            assert any("no header" in note for note in trace.notes)
            of_places = [values for name, values in metrics.items() if name.startswith("field ")]
            assert of_places[-2].tolist() == [memory] * 50
            assert of_places[-1] == pytest.approx(power, abs=0.006)
        else:
            assert list(metrics) == ["gpu_utilization", "memory_used", "power_average"]
            assert metrics["power_average"] == pytest.approx(power, abs=0.006)
            assert metrics["memory_used"].tolist() == [memory * 2**20] * 50
        if "uuid" in fields:
            assert trace.uuid == CELLS["uuid"](gpu, 0)
        if "name" in fields:
            assert trace.gpu == CELLS["name"](gpu, 0)
        guessed = any("order of their rows in each burst" in note for note in trace.notes)
        assert guessed == (not {"uuid", "pci.bus_id", "index"} & set(fields) or (fields == ("index",) and header == "none"))
        assert any("pci.bus_id" in note and "00000000:1D:00.0" in note for note in trace.notes) == (fields == ("pci.bus_id",))


def test_a_query_that_hangs_within_a_burst_does_not_move_the_others(log: Callable[[str], Path]) -> None:
    lines = smi_log(METRICS).splitlines(keepends=True)
    late = 1 + 8 * 20 + 3  # of the burst at tick 20 all rows from the fourth on are half a second late, and all bursts after it
    times = [pd.Timestamp(line[:23]) + pd.Timedelta(seconds=0.5 * (number >= late)) for number, line in enumerate(lines[1:], 1)]
    text = lines[0] + "".join(
        f"{time:%Y/%m/%d %H:%M:%S.%f}"[:-3] + line[23:] for time, line in zip(times, lines[1:], strict=True)
    )
    traces = read_traces(log(text))
    assert [trace.metrics()["memory_used"].tolist() for trace in traces] == [[(1000 + gpu) * 2**20] * 50 for gpu in range(8)]


def test_the_index_of_gpus_that_were_chosen_is_kept(log: Callable[[str], Path]) -> None:
    text = "".join(
        line
        for line in smi_log(("index", *METRICS)).splitlines(keepends=True)
        if line.split(",")[1].strip() in ("index", "3", "5")
    )
    assert [trace.label for trace in read_traces(log(text))] == ["GPU 3", "GPU 5"]


def _without_rows(text: str, *rows: int) -> str:
    return "".join(line for number, line in enumerate(text.splitlines(keepends=True)) if number not in rows)


@pytest.mark.parametrize("fields", [(), ("name",)])
@pytest.mark.parametrize("within_s", [0.0, 0.001])
def test_incomplete_bursts_are_left_out(log: Callable[[str], Path], fields: tuple[str, ...], within_s: float) -> None:
    traces = read_traces(log(_without_rows(smi_log((*fields, *METRICS), within_s=within_s), 1, 100)))
    assert [set(trace.metrics()["memory_used"]) for trace in traces] == [{(1000 + gpu) * 2**20} for gpu in range(8)]
    assert traces[0].time.size == 48 and "left out: 2 bursts without a row of each GPU" in traces[0].notes


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            _without_rows(smi_log(METRICS), *range(100, 200, 9)),
            r"bursts of rows with nothing to tell the GPUs apart; log with .*timestamp,index,",
        ),
        (
            _without_rows(smi_log(METRICS, within_s=0), *range(100, 200, 9)),
            r"bursts of rows with nothing to tell the GPUs apart",
        ),
        (
            smi_log(("name", *METRICS)).replace("A100-SXM4-80GB", "H100 80GB HBM3", 3),
            r"rows of NVIDIA H100 80GB HBM3 and NVIDIA A100-SXM4-80GB in changing order; log with",
        ),
        (smi_log(METRICS).replace("timestamp, ", "when, "), r"no column 'time'.*nvidia-smi --query-gpu=timestamp"),
        ("# nvidia-smi --query-gpu=timestamp,index -lms 9\n" + smi_log(METRICS, header=False), r"requests 2 fields.*have 4"),
        ("timestamp, index, utilization.gpu [%]\n", "no rows"),
        (re.sub(r"\.\d{3},", ".000,", smi_log(METRICS, gpus=1, ticks=80)), "nothing to tell the GPUs apart"),
    ],
)
def test_gpus_that_cannot_be_told_apart_are_not_mixed(log: Callable[[str], Path], text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        read_traces(log(text))


# The command line ----------------------------------------------------------------------------------------------------


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Epochs as long as the mean power of the trace, so that each GPU's answer is its own."""

    def answer(_: object, metrics: dict[str, np.ndarray], **__: object) -> Detection:
        period = float(metrics["power_average"].mean())
        verdict = "none" if period > 310 else "epochs"
        return Detection(verdict, None if verdict == "none" else period, None, (), 0.9, "track", "wall")

    def of_job(traces: Sequence[tuple[np.ndarray, dict[str, np.ndarray]]], **_: object) -> JobDetection:
        gpus = tuple(answer(*trace) for trace in traces)
        return JobDetection(gpus[0], gpus, {7: "is idle"} if len(gpus) == 8 else {})

    monkeypatch.setattr("epochcast.analyzer.cli.detect.find_epochs", answer)
    monkeypatch.setattr("epochcast.analyzer.traces.job_traces.detect_job", of_job)


@pytest.mark.usefixtures("found")
def test_detect_answers_for_the_job_and_each_gpu(log: Callable[[str], Path], capsys: pytest.CaptureFixture[str]) -> None:
    path = log(smi_log(("uuid", *METRICS)))
    assert main(["detect", str(path)]) == 0, "seven have epochs"
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[:2] == [
        "no epochs, period 303.062 s (method track, wall clock, confidence 0.90)",
        "each of the 8 GPUs:",
    ]
    assert len(lines) == 10
    assert lines[3] == f"  GPU 1 ({CELLS['uuid'](1, 0)}): no epochs, period 304.062 s"
    assert lines[9] == f"  GPU 7 ({CELLS['uuid'](7, 0)}): is idle (no epochs found)"
    assert err.count("\n") == 2, "how they are distinguished, and the zone, once each"
    assert main(["detect", str(path), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [one["label"] for one in answer["gpus"]] == [f"GPU {gpu}" for gpu in range(8)]
    assert [one["verdict"] for one in answer["gpus"]] == ["epochs"] * 7 + ["none"]
    assert [one["odd"] for one in answer["gpus"]] == [None] * 7 + ["is idle"]
    assert answer["job"]["period_s"] == answer["gpus"][0]["period_s"]
    assert answer["gpus"][2]["uuid"] == CELLS["uuid"](2, 0)
    assert answer["gpus"][2]["first_sample"] == pytest.approx(UNIX_S + 0.002)
    assert len(answer["notes"]) == 2


def test_what_takes_one_gpu_says_what_takes_all(log: Callable[[str], Path], refusal: Callable[..., str]) -> None:
    path = log(smi_log(("index", *METRICS), gpus=9))
    assert refusal("profile", path) == (
        f"epochcast: {str(path)!r} holds 9 GPUs (GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7, …), but a file "
        "here holds one: write one file for each GPU (detect, predict and recommend take all of them)\n"
    )
