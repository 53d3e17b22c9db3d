"""MLPerf's node power and events as labelled traces."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.trace import Trace
from lab.evaluate import mlperf
from lab.evaluate.mlperf import mlperf_runs

HEADER = "round,system,benchmark,run,source,t_ms,watts\n"
RUN = "v4.0,8xH100,resnet,r1"
EVENTS = "round,system,benchmark,run,t_ms,key,value\n"


def write(path: Path, text: str) -> Path:
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def power(rows: list[tuple[str, int, float]], run: str = RUN) -> str:
    return "".join(f"{run},{source},{time},{watts}\n" for source, time, watts in rows)


def test_mlperf_readings_go_to_the_nearest_row_once() -> None:
    first = [("node_0", time, 100.0 + time) for time in (0, 2000, 4000, 6000, 8000)]
    # 300 and 900 ms are both nearest to 0, the former stays; 5000 is as near to 4000 as to 6000; none is near 2000 or 8000.
    second = [("node_1", time, 200.0 + time) for time in (300, 900, 4900, 6100, 9100)]
    ((key, frame),) = mlperf.power_by_run(HEADER + power(first + second), "power.csv")
    assert key == ("8xH100", "resnet", "r1")
    assert frame["time"].tolist() == [0, 2, 4, 6, 8]
    assert frame["power_node_0"].tolist() == [100, 2100, 4100, 6100, 8100]
    assert frame["power_node_1"].to_numpy() == pytest.approx([500, np.nan, 5100, 6300, np.nan], nan_ok=True)


def test_mlperf_runs_have_the_marks_of_their_epochs_else_of_their_evaluations(tmp_path: Path) -> None:
    rows = [("node_0", time, float(time)) for time in range(0, 60000, 2000)]
    copied, other, silent = (f"v4.0,8xH100,resnet,{name}" for name in ("copy", "r2", "r3"))
    text = HEADER + power(rows) + power(rows, copied) + power(rows[:-1], other) + power(rows[:-2], silent)
    events = EVENTS
    for run, key in ((RUN, "eval_start"), (copied, "eval_start"), (copied, "epoch_start"), (other, "eval_start")):
        step = 10000 if key == "eval_start" else 7000
        events += "".join(f"{run},{time},{key},\n" for time in (5000, 5000 + step, 5000 + 2 * step))
    found = {
        name: labels for name, _, labels in mlperf_runs(write(tmp_path / "p.csv", text), write(tmp_path / "e.csv", events))
    }
    assert set(found) == {"8xH100/resnet/copy", "8xH100/resnet/r2"}, "the same readings count once, no marks not at all"
    assert found["8xH100/resnet/copy"].epoch_starts == (5, 12, 19)
    assert found["8xH100/resnet/r2"].epoch_starts == (5, 15, 25)
    assert found["8xH100/resnet/r2"].cls == "resnet"


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        ("time,x\n1,2\n", "run,t_ms\n1,2\n", "no column 'benchmark'"),
        (HEADER, "time,x\n1,2\n", "no column 'benchmark'"),
        (HEADER + power([("node_0", 0, 1.0)]), EVENTS + f"{RUN},noon,eval_start,\n", "'noon' in data row 1"),
        (HEADER + f"{RUN},node_0,,5\n", EVENTS, "no time in data row 1"),
        (HEADER + f"{RUN},node_0,1,much\n", EVENTS, "'much' in data row 1"),
        (HEADER + f"{RUN},node_0,1e30,5\n", EVENTS, r"time 1e\+30 in data row 1; t_ms is in unix milliseconds"),
        (HEADER + power([("node_0", 0, 1.0)]), EVENTS, "no run of .* has epoch marks"),
    ],
)
def test_mlperf_files_of_another_kind(tmp_path: Path, first: str, second: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        list(mlperf_runs(write(tmp_path / "p.csv", first), write(tmp_path / "e.csv", second)))


def test_the_public_mlperf_readings(shared_data: Path) -> None:
    files = [shared_data / "detector" / f"mlperf_v4.0_{kind}.csv.gz" for kind in ("power", "events")]
    runs: dict[str, Trace] = {name: trace for name, trace, _ in mlperf_runs(*files)}
    assert len(runs) == 145, "150 runs, five of them under two names"
    two = runs["9xSMC-H100-SXM-80GB/unet3d/result_5016-240510051637692552791_01"]
    assert two.metric_names == ("power_node_0", "power_node_1")
    assert 2000 < np.nanmin(two.metrics()["power_node_1"]) < np.nanmax(two.metrics()["power_node_1"]) < 8000
