"""The simulated fleet: readable, the same for a seed, and true to what it says about itself."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.labels import read_labels
from epochcast.analyzer.traces.trace import read_trace
from lab.simulated_fleet import FleetSettings, write_fleet
from lab.simulated_fleet.__main__ import main

SETTINGS = FleetSettings(gpus=12, minutes=2, seed=3)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fleet") / "new"
    write_fleet(folder, SETTINGS)
    return folder


def test_traces_labels_and_truth_agree(fleet: Path) -> None:
    truth = pd.read_parquet(fleet / "truth.parquet")
    paths = sorted((fleet / "traces").rglob("*.parquet"))
    assert [path.relative_to(fleet / "traces").as_posix() for path in paths] == sorted(truth["trace"].unique())
    for path in paths:
        trace, rows = read_trace(path), truth[truth["trace"] == path.relative_to(fleet / "traces").as_posix()]
        assert trace.simulated and trace.uuid == rows["uuid"].iloc[0]
        assert trace.time[-1] - trace.time[0] == pytest.approx(120, abs=1)
        if path.with_suffix(".json").exists():
            assert len(read_labels(path.with_suffix(".json")).epoch_starts) == rows["epochs"].sum()
    for _, rows in truth[(truth["job_gpus"] > 1) & (truth["work"] == "training")].groupby("job"):
        assert np.ptp(rows["epochs"]) <= 1  # clocks of nodes differ a little at the edges


def test_two_processes_write_the_same_fleet(fleet: Path, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    write_fleet(tmp_path / "other", SETTINGS, processes=2, progress=lambda done, of: told.append((done, of)))
    assert told[-1] == (12, 12)
    for path in [*(fleet / "traces").rglob("*.*"), fleet / "nodes.csv", fleet / "truth.parquet"]:
        assert (tmp_path / "other" / path.relative_to(fleet)).read_bytes() == path.read_bytes()


def test_the_command_writes_broken_traces_and_no_fleet_over_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--out", str(tmp_path / "fleet"), "--gpus", "2", "--minutes", "1", "--broken", "1"]
    assert main(arguments) == 0
    assert "gpus: 2\nnodes: 1" in capsys.readouterr().out
    for path in (tmp_path / "fleet" / "traces").rglob("*.parquet"):
        with pytest.raises(InputError):
            read_trace(path)
    for wrong, said in ((arguments, "not empty"), ([*arguments[:3], "0"], "gpus=0"), ([*arguments, "--seed", "-1"], "seed=-1")):
        assert main(wrong) == 2
        assert said in capsys.readouterr().err
