import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epochcast.agent.config import Config
from epochcast.agent.sampler import Sampler
from epochcast.agent.sources import Attribute, Tick
from epochcast.agent.sources.replay import ReplaySource
from epochcast.agent.store import DeviceStore
from epochcast.common.errors import InputError

HEADER = {
    "schema": "epochcast.trace/v1",
    "gpu": "Tesla T4",
    "static": {"cuda_cores": {"value": 2560, "source": "nvml"}, "driver_version": "999.1", "power_limit": None, "odd": [1]},
    "source": "nvml",
    "simulated": True,
}


def trace(folder: Path, text: str) -> Path:
    path = folder / "trace.csv"
    path.write_text(text)
    return path


def replay(path: Path, speed: float = 1.0) -> ReplaySource:
    return ReplaySource(Config(replay=path, speed=speed))


def played(source: ReplaySource, clock: Any) -> tuple[list[float], dict[str, np.ndarray]]:
    store = DeviceStore(source.devices[0], source.recorded_rows or 0, 5.0)
    Sampler(source, [store], clock, 1.0).run()
    time, columns = store.samples(-np.inf, np.inf, None)
    return time.tolist(), columns


def test_rows_carry_the_recording_s_own_times_and_none_is_lost(tmp_path: Path, fake_clock: Any) -> None:
    rng = np.random.default_rng(0)
    times = 1000 + np.cumsum(rng.uniform(0.05, 0.3, 200))
    lines = ["t,power,phase,loss"] + [f"{float(t)!r},{i},train,{i / 2 if i % 10 == 0 else ''}" for i, t in enumerate(times)]
    source = replay(trace(tmp_path, "\n".join(lines)))
    time, columns = played(source, fake_clock(5.0, until=1e6))
    assert time == times.tolist()
    assert source.finished
    assert source.interval == pytest.approx(np.median(np.diff(times)), abs=1e-6)
    assert columns["power"].tolist() == list(range(200))
    assert "phase" not in columns  # text is no metric
    assert np.flatnonzero(~np.isnan(columns["loss"])).tolist() == list(range(0, 200, 10))


@pytest.mark.parametrize("speed", [1e-300, 0.01])
def test_however_slow_it_begins_within_a_second_and_goes_on_ticking(tmp_path: Path, fake_clock: Any, speed: float) -> None:
    source, clock = replay(trace(tmp_path, "time,power\n1,1\n2,2\n"), speed), fake_clock(1_700_000_000.5, until=10)
    sampler = Sampler(source, [DeviceStore(source.devices[0], 2, 5.0)], clock, 1.0)
    sampler.run()
    assert sampler.last_sample_time == 1
    assert sum(sampler.tick_seconds.counts) == 10
    assert not sampler.finished


@pytest.mark.parametrize(
    ("row_s", "speed", "silent_after"),
    [
        (2.0, 1, 6.0),  # three rows
        (2.0, 4, 1.5),  # which come sooner at a higher speed
        (0.01, 0.05, 3.0),  # three ticks, of a second each: rows come with them
        (0.1, 1, 1.0),  # never less than a second
    ],
)
def test_a_replayed_gpu_is_silent_after_three_rows_or_ticks_without_one(
    tmp_path: Path, row_s: float, speed: float, silent_after: float
) -> None:
    source = replay(trace(tmp_path, "time,power\n" + "\n".join(f"{k * row_s},1" for k in range(20))), speed)
    assert source.silent_after == pytest.approx(silent_after)


def test_a_late_tick_hands_over_all_that_became_due(tmp_path: Path) -> None:
    source = replay(trace(tmp_path, "time,power\n1,1\n2,2\n3,3\n4,4\n"))
    assert [row.time for row in source.read(Tick(0, 0.0, True, True))] == [1]
    assert [row.time for row in source.read(Tick(0, 2.5, True, True))] == [2, 3]
    assert not source.finished
    assert [row.time for row in source.read(Tick(0, 9.0, True, True))] == [4]
    assert source.finished


def test_metadata_of_a_csv(tmp_path: Path) -> None:
    (device,) = replay(trace(tmp_path, f"# {json.dumps(HEADER)}\ntime,power\n1,2\n")).devices
    assert (device.name, device.simulated) == ("Tesla T4", True)
    assert device.static == {"cuda_cores": Attribute(2560, "nvml"), "driver_version": Attribute("999.1", "trace")}


def test_parquet(tmp_path: Path, fake_clock: Any) -> None:
    pa = pytest.importorskip("pyarrow", reason="Parquet is read through pyarrow")
    import pyarrow.parquet as pq

    table = pa.table({"time": [1.0, 2.0], "energy": pa.array([7, None], pa.int64()), "busy": [True, False], "note": ["a", "b"]})
    pq.write_table(table.replace_schema_metadata({"epochcast": json.dumps(HEADER)}), tmp_path / "x.parquet")
    source = replay(tmp_path / "x.parquet")
    assert source.devices[0].name == "Tesla T4"
    _, columns = played(source, fake_clock(5.0, until=1e6))
    np.testing.assert_array_equal(columns["energy"], [7, np.nan])
    np.testing.assert_array_equal(columns["busy"], [1, 0])
    assert "note" not in columns


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "no column 'time'.*its columns: none"),
        ("stamp,power\n1,2\n", "no column 'time'.*its columns: stamp, power"),
        ("time,power\n", "no rows"),
        ("time\n1\n", "no rows with numbers besides 'time'"),
        ("time,power\n1,2\n3,2\n2,2\n", "not sorted by time: data row 3 is of 2.0"),
        ("time,power\n1,2\n1,2\n", "not sorted by time: data row 2"),
        ("time,power\nnan,2\n", "data row 1 is of nan; sort it, without repeated or missing times"),
        ("time,power\n1,2\n,2\n", "data row 2 is of nan"),
        ("time,power\n1,2\ninf,2\n", "data row 2 is of inf"),
        ("time,power\nnoon,2\n", "column 'time': 'noon' is not a number"),
        ("time,power\n1,2\n2,much\n", "data row 2, column 'power': 'much' is not a number"),
        ("time,power\n1,2\n2\n", "a row has 1 cells where the header has 2"),
        ("time,power,power\n1,2,3\n", "two columns of the same name"),
        ("# {not json}\ntime,power\n1,2\n", "cannot read the trace"),
    ],
)
def test_a_trace_that_cannot_be_played_is_refused_in_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence) as caught:
        replay(trace(tmp_path, text))
    assert "trace.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"PAR1garbage", b"\xff\xfe\x00bad", b"time,power\n1,\x00\n"])
def test_files_that_are_no_trace(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(InputError, match="trace"):
        replay(tmp_path / "x")


def test_a_missing_file_and_folders_that_cannot_be_played(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no trace")
    for path, reason in ((tmp_path / "none.csv", "No such file"), (tmp_path, "holds no trace; put files there")):
        with pytest.raises(InputError, match=reason):
            replay(path)
    (tmp_path / "a.csv").write_text("time,power\n1,1\n")
    (tmp_path / "a.pq").write_text("anything")
    with pytest.raises(InputError, match="two files for replay-a; rename one"):
        replay(tmp_path)


def test_a_folder_is_a_node_of_several_gpus_on_one_clock(tmp_path: Path, fake_clock: Any) -> None:
    (tmp_path / "b.csv").write_text("time,power\n" + "\n".join(f"{100 + k / 10},{k}" for k in range(300)))
    (tmp_path / "a.csv").write_text(f"# {json.dumps(HEADER)}\ntime,sm_active,power\n110,0.5,7\n110.5,0.6,8\n")
    (tmp_path / ".hidden").write_text("")
    source = replay(tmp_path, speed=10)
    assert [(device.label, device.uuid, device.name) for device in source.devices] == [
        ("0", "replay-a", "Tesla T4"),
        ("1", "replay-b", "unknown"),
    ]
    assert [device.simulated for device in source.devices] == [True, False]
    # 1.0 s of the wall are 10 s after the first row of all, which is of the second file.
    rows = source.read(Tick(0, 0.999, True, True))
    assert {row.device for row in rows} == {1}
    assert [(row.device, row.time) for row in source.read(Tick(0, 1.0, True, True)) if row.device == 0] == [(0, 110.0)]
    assert not source.finished

    source = replay(tmp_path, speed=10)
    stores = [DeviceStore(device, source.recorded_rows or 0, 5.0) for device in source.devices]
    Sampler(source, stores, fake_clock(5.0, until=1e6), 1.0).run()
    assert source.finished
    time, columns = stores[0].samples(-np.inf, np.inf, None)
    assert (time.tolist(), columns["power"].tolist()) == ([110, 110.5], [7, 8])
    time, columns = stores[1].samples(-np.inf, np.inf, None)
    assert columns["power"].tolist() == list(range(300))
    assert source.interval == 0.1


def test_only_whole_folders_are_played(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text("time,power\n1,1\n")
    config = Config(replay=tmp_path)
    source = ReplaySource(config, frozenset({"replay-a", "replay-b", "another"}))
    assert (len(source.devices), source.interval) == (2, 0.1), "one row has no interval"
    with pytest.raises(InputError, match="plays replay-a, replay-b, not replay-a alone"):
        ReplaySource(config, frozenset({"replay-a"}))
