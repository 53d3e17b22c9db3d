"""The simulated fleet: the same for a seed, readable, and true to what it says about itself."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from epochcast.agent.catalog import catalog
from epochcast.analyzer.cli import cli
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.fleet.simulated import FleetSettings, write_fleet
from epochcast.analyzer.fleet.simulated.job_timelines import SPIN, draw_job, idle_seconds, on_gpu, window
from epochcast.analyzer.fleet.simulated.layout import blocks
from epochcast.analyzer.traces.labels import read_labels
from epochcast.analyzer.traces.trace import read_trace
from epochcast.detector.simulator.devices import DEVICES
from epochcast.detector.simulator.timeline import Phase, SimulatedTimeline

SETTINGS = FleetSettings(gpus=20, minutes=2, seed=3)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fleet") / "new"
    write_fleet(folder, SETTINGS)
    return folder


@pytest.fixture(scope="module")
def truth(fleet: Path) -> pd.DataFrame:
    return pd.read_parquet(fleet / "truth.parquet")


def test_every_gpu_has_a_trace_with_the_metrics_of_the_agent(fleet: Path, truth: pd.DataFrame) -> None:
    paths = sorted((fleet / "traces").rglob("*.parquet"))
    assert [path.relative_to(fleet / "traces").as_posix() for path in paths] == sorted(truth["trace"].unique())
    assert len(paths) == 20
    known = set(catalog())
    for path in paths[:3]:
        trace = read_trace(path)
        assert trace.simulated
        assert trace.uuid in set(truth["uuid"])
        assert set(trace.metric_names) <= known
        assert len(trace.metric_names) >= 24
        assert np.median(np.diff(trace.time)) == pytest.approx(0.1, abs=0.002)
        assert trace.time[-1] - trace.time[0] == pytest.approx(120, abs=1)


def test_labels_lie_beside_each_trace_and_agree_with_the_truth(fleet: Path, truth: pd.DataFrame) -> None:
    for name, rows in truth.groupby("trace"):
        path, trains = (fleet / "traces" / str(name)).with_suffix(".json"), bool((rows["work"] == "training").any())
        assert path.exists() == (not trains or rows["epochs"].sum() > 1)
        if not path.exists():
            continue
        labels = read_labels(path)
        assert labels.training == trains
        assert len(labels.epoch_starts) == rows["epochs"].sum()
        assert (np.asarray(labels.epoch_ends) <= rows["end"].max() + 1e-3).all()


def test_two_processes_write_the_same_fleet(fleet: Path, truth: pd.DataFrame, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    write_fleet(tmp_path / "other", SETTINGS, processes=2, progress=lambda done, of: told.append((done, of)))
    assert told[-1] == (20, 20)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "other" / "truth.parquet"), truth)
    assert (tmp_path / "other" / "nodes.csv").read_bytes() == (fleet / "nodes.csv").read_bytes()
    for name in truth["trace"].unique():
        assert (tmp_path / "other" / "traces" / name).read_bytes() == (fleet / "traces" / name).read_bytes()


def test_gpus_of_one_job_have_the_same_epochs(truth: pd.DataFrame) -> None:
    jobs = truth[(truth["job_gpus"] > 1) & (truth["work"] == "training")].groupby("job")
    assert len(jobs)
    for _, rows in jobs:
        assert rows["epochs"].max() - rows["epochs"].min() <= 1  # clocks of nodes differ a little at the edges
        if rows["epochs"].min() > 1:
            assert rows["epoch_s"].max() == pytest.approx(rows["epoch_s"].min(), rel=0.05)
        assert (rows["device"] == rows["device"].iloc[0]).all()


def test_a_straggler_never_waits_and_the_others_do() -> None:
    rng = np.random.default_rng(1)
    job = draw_job("training", DEVICES[0], 0.0, 120.0, rng, straggles=True, running=True)
    slow = on_gpu(job, straggler=True, alone=False, rng=rng)
    fast = on_gpu(job, straggler=False, alone=False, rng=rng)
    waits = fast.seconds[fast.phases == SPIN].sum()
    assert not (slow.phases == SPIN).any()
    assert waits == pytest.approx((1 - job.slow_clock) * _works(slow), rel=0.05)
    assert slow.length_s == pytest.approx(fast.length_s)
    assert np.allclose(slow.marks(), fast.marks())
    assert slow.clock.min() == job.slow_clock < 1
    assert fast.clock.min() == 1


def _works(timeline: SimulatedTimeline) -> float:
    return float(
        timeline.seconds[np.isin(timeline.phases, (Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE, Phase.VALIDATE))].sum()
    )


def test_a_window_keeps_the_epochs_that_lie_in_it_whole() -> None:
    timeline = SimulatedTimeline(
        np.array([Phase.FORWARD, Phase.WAIT] * 3),
        np.array([4.0, 1.0] * 3),
        np.ones(6),
        np.array([0, 2, 4]),
        np.array([1, 3, 5]),
    )
    seen = window(timeline, 3.0, 8.0)
    assert seen.length_s == pytest.approx(8.0)
    assert seen.seconds.tolist() == [1.0, 1.0, 4.0, 1.0, 1.0]
    assert [each.tolist() for each in seen.marks()] == [[2.0], [6.0]]


def test_idle_seconds_are_those_without_work_of_any_job() -> None:
    first = SimulatedTimeline.of([Phase.PARKED, Phase.FORWARD, Phase.WAIT], [20.0, 5.0, 35.0])
    second = SimulatedTimeline.of([Phase.PARKED, Phase.SERVE], [50.0, 10.0])
    assert idle_seconds([first, second], 60.0, least_s=15.0) == pytest.approx(20 + 25)
    assert idle_seconds([first, second], 60.0, least_s=22.0) == pytest.approx(25)


def test_a_large_fleet_has_every_kind_of_work_and_node() -> None:
    drawn = list(blocks(4000, 0, sequences=True))
    assert sum(block.gpus for block in drawn) == 4000
    assert {work for block in drawn for slot in block.slots for work in slot.works} >= {"training", "steps", "serving", "idle"}
    assert {node.device.name for block in drawn for node in block.nodes} == {device.name for device in DEVICES}
    assert max(len(slot.gpus) for block in drawn for slot in block.slots) == 64
    names = [node.name for block in drawn for node in block.nodes]
    assert len(names) == len(set(names))
    assert sum(slot.straggler is not None for block in drawn for slot in block.slots) > 10


@pytest.mark.parametrize(("minutes", "jobs"), [(5.0, 2), (4.9, 1)])
def test_a_gpu_has_a_second_job_only_from_five_minutes_on(tmp_path: Path, minutes: float, jobs: int) -> None:
    write_fleet(tmp_path / "fleet", FleetSettings(gpus=1, minutes=minutes, seed=3))  # a seed that draws two for its only GPU
    assert len(pd.read_parquet(tmp_path / "fleet" / "truth.parquet")) == jobs


def test_broken_traces_are_broken_and_told(tmp_path: Path) -> None:
    write_fleet(tmp_path / "broken", FleetSettings(gpus=8, minutes=1, broken=1.0))
    truth = pd.read_parquet(tmp_path / "broken" / "truth.parquet")
    assert (truth["broken"] != "").all()
    for name in truth["trace"].unique():
        with pytest.raises(InputError):
            read_trace(tmp_path / "broken" / "traces" / name)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"gpus": 0}, "0 GPUs"),
        ({"gpus": 8, "minutes": 0.5}, "0.5 minutes"),
        ({"gpus": 8, "minutes": float("nan")}, "nan minutes"),
        ({"gpus": 8, "seed": -1}, "seed -1"),
        ({"gpus": 8, "broken": 1.5}, "1.5"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, float], says: str) -> None:
    with pytest.raises(InputError, match=says):
        FleetSettings(**settings)  # type: ignore[arg-type]


def test_the_command_writes_a_fleet_and_no_second_one_over_it(tmp_path: Path) -> None:
    arguments = ["fleet", "simulate", "--out", str(tmp_path / "fleet"), "--gpus", "2", "--minutes", "1"]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0, done.output
    assert "2 simulated GPUs in 1 node" in done.output
    with pytest.raises(InputError, match="not empty"):
        CliRunner().invoke(cli, arguments, catch_exceptions=False, standalone_mode=False)
