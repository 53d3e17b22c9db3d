"""What must survive a restart, and files that are not as they should be."""

import sqlite3
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.jobs.questions import example_profile
from epochcast.analyzer.live.state_store import VERSION, GpuChange, StateStore
from epochcast.analyzer.live.watcher import _PRUNE_S
from epochcast.analyzer.telemetry.gpu_report import SCHEMA, EpochRecord, Owner, Report, read_report, report_json
from epochcast.detector import Detection
from epochcast.regressor.profile import STATISTICS, Profile
from epochcast.regressor.profile_json import read_profile

from .conftest import device

DAY = 86_400.0
UUID = "GPU-8f2c1f0a-3c1d-4a59-9a86-5f4c0a2b7d10"
PROFILE = Profile("T4", 10.0, "epoch", 1, {"power": dict.fromkeys(STATISTICS, 60.0)}, "none", True, simulated=True)
FOUND = Detection("epochs", 10.0, None, (), 0.9, "track", "wall")
DEVICE = replace(device(), static={"sm_count": {"value": 40}})
REPORT = Report(DEVICE, "answered", FOUND, 5.0, 7, (EpochRecord(5.0, 15.0, 0.9, 5.0),), PROFILE, (Owner(1, "python"),), 16.0)


def epoch(start: float, job_since: float = 0.0) -> EpochRecord:
    return EpochRecord(start, start + 10.0, 0.9, job_since, PROFILE)


def test_all_is_there_again(tmp_path: Path) -> None:
    store = StateStore(tmp_path / "deep" / "state.db")
    store.write_gpus([GpuChange(REPORT, [epoch(0), epoch(10)])])
    store.write_gpus([GpuChange(replace(REPORT, device=device("GPU-2")))], by_node=True)
    store.close()
    store = StateStore(tmp_path / "deep" / "state.db")
    assert store.report("GPU-1") == REPORT
    assert store.report("GPU-3") is None
    assert set(store.reports()) == {"GPU-1", "GPU-2"}
    assert {uuid: heard.by_node for uuid, heard in store.heard().items()} == {"GPU-1": False, "GPU-2": True}
    assert store.epochs("GPU-1") == [epoch(0), epoch(10)]
    assert store.epochs("GPU-1", since=12.0, profiles=False) == [replace(epoch(10), profile=None)]
    assert store.epochs("GPU-1", limit=1) == [epoch(10)]
    store.close()


@pytest.mark.parametrize(
    "values", [{}, {"schema": SCHEMA}, {**report_json(REPORT), "state": "asleep"}, {**report_json(REPORT), "x": 1}]
)
def test_what_is_no_report_is_refused(values: dict[str, object]) -> None:
    with pytest.raises(InputError):
        read_report(values)


@pytest.mark.parametrize(
    ("where", "name", "value"),
    [
        ("report", "hertz", 0),
        ("detection", "period_s", -1.0),
        ("detection", "confidence", "sure"),
        ("report", "last_sample", float("nan")),
        ("report", "epochs_seen", 1.5),
        ("device", "uuid", ["GPU-1"]),
        ("device", "node", None),
        ("device", "static", "none"),
        ("epoch", "end", 4.0),
        ("epoch", "end", float("inf")),
        ("epoch", "start", "yesterday"),
    ],
)
def test_a_report_with_a_value_that_cannot_be_is_refused(where: str, name: str, value: object) -> None:
    values = report_json(REPORT)
    {"report": values, "detection": values["detection"], "device": values["device"], "epoch": values["epochs"][0]}[where][
        name
    ] = value
    with pytest.raises(InputError):
        read_report(values)


def test_a_report_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    store = StateStore(tmp_path / "state.db")
    store.write_gpus([GpuChange(REPORT), GpuChange(replace(REPORT, device=device("GPU-2")))])
    with sqlite3.connect(tmp_path / "state.db") as other:
        other.execute("UPDATE gpu SET report = '{\"schema\": \"of tomorrow\"}' WHERE uuid = 'GPU-2'")
    assert set(store.reports()) == {"GPU-1"}
    store.close()


def test_an_epoch_whose_profile_cannot_be_read_is_told_without_it(tmp_path: Path) -> None:
    store = StateStore(tmp_path / "state.db")
    store.write_gpus([GpuChange(REPORT, [epoch(0), epoch(10)])])
    with sqlite3.connect(tmp_path / "state.db") as other:
        other.execute("UPDATE epoch SET profile = ? WHERE start = 0", (zlib.compress(b'{"schema": "of tomorrow"}'),))
    assert store.epochs("GPU-1") == [replace(epoch(0), profile=None), epoch(10)]
    store.close()


def test_a_change_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    store = StateStore(tmp_path / "state.db")
    store.write_gpus([GpuChange(REPORT, [epoch(0)])])
    bad = replace(epoch(10), confidence=None)
    with pytest.raises(sqlite3.Error):
        store.write_gpus([GpuChange(replace(REPORT, epochs_seen=8), [epoch(20), bad], instead_of=[0.0])])
    assert store.report("GPU-1") == REPORT
    assert store.epochs("GPU-1") == [epoch(0)]
    store.close()


def test_what_is_old_goes_by_the_time_of_the_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recording of years ago is as young as its newest epoch."""
    store = StateStore(tmp_path / "state.db")
    store.write_gpus([GpuChange(REPORT, [epoch(0), epoch(2 * DAY), epoch(3 * DAY)])])
    store.forget_older(1.5 * DAY)
    assert store.epochs("GPU-1") == [epoch(2 * DAY), epoch(3 * DAY)]
    monkeypatch.setattr("epochcast.analyzer.live.state_store.MOST_EPOCHS", 1)
    store.forget_older(1.5 * DAY)
    assert store.epochs("GPU-1") == [epoch(3 * DAY)]
    monkeypatch.setattr("epochcast.analyzer.live.state_store.time.time", lambda: 1e12)
    store.forget_older(1.5 * DAY)
    assert (store.reports(), store.epochs("GPU-1")) == ({}, [])
    store.close()


def test_forgetting_takes_time_by_the_number_of_epochs_not_its_square(tmp_path: Path) -> None:
    """It holds the lock that others wait for; with a subquery for each epoch 5000 of them took most of a minute."""
    store = StateStore(tmp_path / "state.db")
    store.write_gpus([GpuChange(REPORT, [replace(epoch(10.0 * number), profile=None) for number in range(2000)])])
    steps = []
    store._file.use(lambda connection: connection.set_progress_handler(lambda: steps.append(1000) or 0, 1000))
    store.forget_older(30 * DAY)
    assert sum(steps) < 100 * 2000
    assert len(store.epochs("GPU-1", limit=5000)) == 2000
    store.close()


def test_a_state_that_is_damaged_inside_is_set_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "state.db"
    store = StateStore(path)
    store.write_gpus([GpuChange(REPORT, [epoch(10.0 * number) for number in range(500)])])
    store.close()
    whole = path.read_bytes()
    for page in range(12, len(whole) // 4096, 3):
        whole = whole[: 4096 * page] + b"\xff" * 4096 + whole[4096 * (page + 1) :]
    path.write_bytes(whole)
    store = StateStore(path, check=True)
    store.write_gpus([GpuChange(REPORT)])
    assert (store.reports(), store.epochs("GPU-1")) == ({"GPU-1": REPORT}, [])
    store.close()
    (aside,) = tmp_path.glob("state.db.broken-*")
    assert aside.read_bytes() == whole
    assert "is damaged" in caplog.text
    store = StateStore(path, check=True)  # a sound one stays
    assert set(store.reports()) == {"GPU-1"}
    store.close()


def test_another_process_sees_changes(tmp_path: Path) -> None:
    writer, reader = StateStore(tmp_path / "state.db"), StateStore(tmp_path / "state.db")
    before = reader.changes
    assert reader.changes == before
    writer.write_gpus([GpuChange(REPORT)])
    assert reader.changes != before
    assert reader.report("GPU-1") == REPORT
    writer.close()
    reader.close()


def test_a_newer_state_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "state.db") as newer:
        newer.execute(f"PRAGMA user_version = {VERSION + 1}")
    with pytest.raises(InputError, match="newer Epochcast"):
        StateStore(tmp_path / "state.db")


def test_a_folder_that_cannot_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="state"):
        StateStore(tmp_path / "file" / "state.db")


def test_a_job_that_goes_takes_what_was_said_of_it(tmp_path: Path) -> None:
    store = StateStore(tmp_path / "state.db")
    for job in ("slurm-1", "slurm-2"):
        store.write_jobs({job: b"{}"})
        store.write_plan(job, {"epochs": 90})
    store.write_jobs({}, gone=["slurm-1"])
    assert list(store.plans()) == list(store.jobs()) == ["slurm-2"]


def test_an_epoch_takes_half_a_kilobyte_at_most_and_the_newest_keep_their_profiles(tmp_path: Path) -> None:
    store, profile = StateStore(tmp_path / "state.db"), read_profile(example_profile())
    report = replace(REPORT, device=device(UUID))
    for start in range(0, 10_000, 10):
        store.write_gpus([GpuChange(report, [replace(epoch(start), profile=profile)])])
        if start % _PRUNE_S == 0:
            store.forget_older(30 * DAY)
    store.forget_older(30 * DAY)
    kept = store.epochs(UUID)
    store.close()
    assert len(kept) == 1000
    assert [each.profile for each in kept] == 900 * [None] + 100 * [profile]
    assert (tmp_path / "state.db").stat().st_size <= 500 * 1000
