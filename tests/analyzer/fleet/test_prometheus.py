"""A real Prometheus, whose past promtool has written: its GPUs are analysed like files."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from epochcast.analyzer.cli import main
from epochcast.analyzer.fleet.gpu_history import Looking, analysed
from epochcast.analyzer.fleet.traces_of import traces_of
from epochcast.analyzer.telemetry.settings import PlaceSettings
from epochcast.regressor import load_catalog

from .conftest import square_wave

SERIES = {"dram_active": "dram_active_ratio", "gr_engine_active": "gr_engine_active_ratio", "power": "power_watts"}
BEGAN = 1_700_000_000


@pytest.fixture
def address(database: Callable[..., Any]) -> str:
    lines = []
    for number in range(2):
        labels = (
            f'{{gpu="0",uuid="GPU-{number}",name="Tesla T4",instance="node-{number}",job="epochcast-agent",vm="g4dn.xlarge"}}'
        )
        frame = square_wave(120, 10 + 2 * number)
        for column, name in SERIES.items():
            pairs = zip(frame["time"], frame[column], strict=True)
            lines += [(name, f"epochcast_gpu_{name}{labels} {value!r} {moment:.3f}") for moment, value in pairs]
    return str(database("prometheus", past=[line for _, line in sorted(lines, key=lambda one: one[0])]).url)


def test_its_gpus_are_analysed_between_two_moments(tmp_path: Path, address: str) -> None:
    looking = Looking(load_catalog(), BEGAN - 1.0, BEGAN + 200.0)
    config = tmp_path / "service.toml"
    config.write_text(f'[[prometheus]]\nurl = "{address}"\ninstance_label = "vm"\n')
    places = {"node-1": PlaceSettings(instance="g4dn.2xlarge", cloud="aws")}
    traces = list(traces_of(address, looking, places, out=tmp_path, config=config)[1])
    assert [trace.name for trace in traces] == ["GPU-0", "GPU-1"]
    found = analysed(looking, traces)
    assert [one.device.instance for one in found] == ["g4dn.xlarge", "g4dn.2xlarge"]
    for number, one in enumerate(found):
        assert one.device.node == f"node-{number}"
        assert one.spans[0].report.detection.period_s == pytest.approx(10 + 2 * number, rel=0.05)
        assert one.idle_s == pytest.approx(20, abs=3)
        assert set(one.quality.metrics) == set(SERIES)
        assert one.quality.silent_metrics == ()
    only = Looking(load_catalog(), BEGAN + 30.0, BEGAN + 100.0)
    (first, _) = analysed(only, list(traces_of(address, only, {}, out=tmp_path, config=None)[1]))
    assert first.version != found[0].version
    assert (first.start, first.end) == (pytest.approx(BEGAN + 30, abs=0.3), pytest.approx(BEGAN + 100, abs=0.3))


def test_the_command_reads_it_and_goes_on(tmp_path: Path, address: str, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["fleet", "analyze", address, "--out", str(tmp_path / "out"), "--processes", "1", "--json"]
    between = ["--from", str(BEGAN - 1), "--to", str(BEGAN + 200)]
    assert main([*given, *between]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["gpus"], told["jobs"], told["failed"]) == (2, 2, 0)
    assert main([*given, *between]) == 0
    assert json.loads(capsys.readouterr().out)["run"]["taken_over"] == 2
    epochs = pd.read_parquet(tmp_path / "out" / "epochs.parquet")
    assert set(epochs["uuid"]) == {"GPU-0", "GPU-1"}
    assert main(given) == 2
    assert "give --from and --to" in capsys.readouterr().err


def test_nobody_answers_or_another_address_is_meant(tmp_path: Path, refusal: Callable[..., str]) -> None:
    config = tmp_path / "service.toml"
    config.write_text('[[prometheus]]\nurl = "http://elsewhere:9090"\n')
    given = ["--out", str(tmp_path / "out"), "--from", "0", "--to", "100"]
    for more, said in (([], "Prometheus http://127.0.0.1:1"), (["--config", str(config)], "http://elsewhere:9090")):
        assert said in refusal("fleet", "analyze", "http://127.0.0.1:1", *given, *more)
