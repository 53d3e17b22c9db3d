"""The demo's source of telemetry: whole, marked as simulated, the same after a restart; and the service that shows it."""

from collections.abc import Callable

import numpy as np
import pytest
from click.testing import CliRunner

from epochcast.analyzer.cli import cli
from epochcast.analyzer.demo import player
from epochcast.analyzer.demo.player import JOBS, DemoSource
from epochcast.analyzer.live.gpu_watch import GpuWatch
from epochcast.analyzer.telemetry import Rows
from epochcast.analyzer.telemetry.settings import DemoSettings, opened
from epochcast.regressor import load_catalog

BEGAN = 1_800_000_000.0
GPUS = sum(len(jobs.nodes) for jobs in JOBS)


@pytest.fixture
def source_at(monkeypatch: pytest.MonkeyPatch) -> Callable[..., DemoSource]:
    """A source of a demo that began at `BEGAN`, as of so many seconds later; the same one again where it is given."""

    def at(after_s: float, source: DemoSource | None = None) -> DemoSource:
        monkeypatch.setattr(player.time, "time", lambda: BEGAN + after_s)
        return source or DemoSource(DemoSettings(began=BEGAN))

    return at


def of(rows: list[Rows], uuid: str) -> list[Rows]:
    return [each for each in rows if each.device.uuid == uuid]


def test_it_is_opened_by_its_settings_and_gives_a_history_and_then_what_is_new(source_at: Callable[..., DemoSource]) -> None:
    source = source_at(0.0)
    (again,) = opened([DemoSettings(began=BEGAN)])
    assert (again.kind, again.name) == ("simulated", "demo")
    history = list(source.poll())
    assert len({rows.device.uuid for rows in history}) == GPUS == 10
    assert all(rows.device.simulated and rows.device.source == "simulator" for rows in history)
    assert sum(rows.time.size for rows in history) == pytest.approx(
        sum(10 * jobs.history_s * len(jobs.nodes) for jobs in JOBS), rel=0.001
    )
    new = list(source_at(3.0, source).poll())
    for uuid in {rows.device.uuid for rows in history}:
        time = np.concatenate([rows.time for rows in (*of(history, uuid), *of(new, uuid))])
        assert np.diff(time) == pytest.approx(0.1, abs=0.01)
        assert BEGAN + 2.8 < time[-1] <= BEGAN + 3.0


def test_a_restart_sees_the_same_jobs_go_on_and_a_long_sleep_is_no_flood(source_at: Callable[..., DemoSource]) -> None:
    first = source_at(100.0)
    first.poll()
    seen, later = list(source_at(102.0, first).poll()), list(source_at(102.0).poll())
    for rows in seen:
        known = of(later, rows.device.uuid)[-1]
        assert known.owners == rows.owners
        assert (known.time[-rows.time.size :] == rows.time).all()
        assert (known.values["power"][-rows.time.size :] == rows.values["power"]).all()
    after = list(source_at(8 * 3600.0, first).poll())
    assert min(rows.time[0] for rows in after) > BEGAN + 8 * 3600.0 - 600.0


def test_a_job_is_followed_by_another_and_one_process_holds_its_gpu_idle(source_at: Callable[..., DemoSource]) -> None:
    jobs = JOBS[3]
    source = source_at(0.0)
    rows = [*source.poll(), *source_at(jobs.work_s - jobs.age_s + jobs.rest_s + 60.0, source).poll()]
    own = of(rows, "GPU-demo6-0")
    names = [each.owners[0].slurm_job if each.owners else "" for each in own]
    assert [name for place, name in enumerate(names) if names[place - 1 : place] != [name]][-3:] == [names[-3], "", names[-1]]
    assert names[-1] != names[-3]
    energy = np.concatenate([each.values["energy"] for each in own])
    assert (np.diff(energy[np.isfinite(energy)]) >= 0).all()
    held = of(rows, "GPU-demo7-0")[-1]
    assert held.owners
    assert held.values["gr_engine_active"].max() == 0
    assert np.nanmin(held.values["memory_used"]) > 1e9


def test_the_watcher_finds_what_was_drawn(source_at: Callable[..., DemoSource]) -> None:
    rows, catalog = list(source_at(0.0).poll()), load_catalog()
    found = {}
    for uuid in ("GPU-demo1-0", "GPU-demo1-3", "GPU-demo4-0"):
        own = of(rows, uuid)
        watch = GpuWatch(own[0].device, catalog)
        for each in own:
            watch.take(each)
        found[uuid] = watch.report()
    assert found["GPU-demo1-0"].detection.period_s == pytest.approx(31.0, rel=0.05)
    assert found["GPU-demo1-3"].detection.period_s > 1.1 * found["GPU-demo1-0"].detection.period_s
    assert found["GPU-demo4-0"].detection.unit == "cycle"
    assert all(report.profile is not None and report.profile.simulated for report in found.values())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--demo", "--config", "x.toml"), "--demo takes neither --config nor --shard"),
        (("--demo", "--shard", "1/2"), "--demo takes neither --config nor --shard"),
        (("--port", "9"), "--port is for --demo"),
    ],
)
def test_what_does_not_go_together_is_refused(arguments: tuple[str, ...], said: str) -> None:
    result = CliRunner().invoke(cli, ["serve", *arguments])
    assert result.exit_code != 0
    assert said in f"{result.output}{result.exception}"
