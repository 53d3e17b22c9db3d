"""``import epochcast`` as a notebook user has it."""

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib.figure import Figure

import epochcast
from epochcast.analyzer.cli import main
from epochcast.analyzer.errors import InputError

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize("page", ["docs/how-to/use-from-python.md", "README.md"])
def test_the_page_runs(root: Path, run: Path, page: str) -> None:
    (code,) = re.findall(r"^ *```python\n(.*?)^ *```", (root / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    code = textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-c", code], cwd=run.parent, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "period 6." in done.stdout and "H100 SXM5" in done.stdout and "instance" in done.stdout
    assert ("every-gpu.png" in code) == (run.parent / "every-gpu.png").is_file()
    (run.parent / "every-gpu.png").unlink(missing_ok=True)


def test_importing_it_loads_nothing_heavy() -> None:
    code = "import sys, epochcast; print(*sys.modules); epochcast.__version__"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"pandas", "numpy", "scipy", "sklearn", "click"}.isdisjoint(loaded)


def test_answers_are_those_of_the_commands(run: Path, capsys: Capture) -> None:
    job = epochcast.read(run)
    for result, command in (
        (job.epochs, ["detect", str(run)]),
        (job.predict(), ["predict", str(run)]),
        (job.recommend(epochs=90, deadline="10h"), ["recommend", str(run), "--epochs", "90", "--deadline", "36000"]),
    ):
        assert main(command) == 0
        text, notes = capsys.readouterr()
        assert repr(result) == (text + notes.replace("epochcast: ", "note: ")).rstrip("\n")


def test_results_are_tables_and_pictures(run: Path) -> None:
    job = epochcast.read(str(run))
    epochs, predictions, instances = job.epochs, job.predict("A10G"), job.recommend(objective="time", clouds=["aws"])
    assert len(epochs) == len(epochs.to_frame()) == 10 and epochs.confidence > 0.8 and epochs.unit == "epoch"
    assert epochs.to_frame()["seconds"].median() == pytest.approx(6.0, rel=0.05)
    assert predictions.to_frame()["gpu"].tolist() == ["A10G"] and len(job.predict().to_frame()) > 50
    assert set(instances.to_frame()["cloud"]) == {"aws"} and instances.verdict
    for result in (epochs, predictions, instances):
        assert "<table" in result._repr_html_() and isinstance(result.plot(), Figure)


def _smi(frame: pd.DataFrame) -> pd.DataFrame:
    """The raw columns that pandas reads of nvidia-smi's CSV."""
    moments = pd.to_datetime(frame["time"], unit="s").dt.strftime("%Y/%m/%d %H:%M:%S.%f").str[:-3]
    busy, power = (
        [f"{100 * value:.0f} %" for value in frame["gr_engine_active"]],
        [f"{value:.2f} W" for value in frame["power"]],
    )
    return pd.DataFrame({"timestamp": moments, " name": "Tesla T4", " utilization.gpu [%]": busy, " power.draw [W]": power})


WAYS: dict[str, Callable[[pd.DataFrame], tuple[list[pd.DataFrame], dict[str, Any]]]] = {
    "unix seconds": lambda frame: ([frame], {"gpu": "T4"}),
    "unix milliseconds": lambda frame: ([frame.assign(time=(frame["time"] * 1000).round())], {"gpu": "T4"}),
    "a datetime column": lambda frame: ([frame.assign(time=pd.to_datetime(frame["time"], unit="s"))], {"gpu": "T4"}),
    "a datetime index": lambda frame: (
        [frame.set_index(pd.to_datetime(frame["time"], unit="s", utc=True)).drop(columns="time")],
        {"gpu": "T4"},
    ),
    "ISO 8601": lambda frame: (
        [frame.assign(time=[pd.Timestamp(time, unit="s").isoformat() for time in frame["time"]])],
        {"gpu": "T4"},
    ),
    "nvidia-smi's raw columns": lambda frame: ([_smi(frame)], {}),
    "several GPUs in one": lambda frame: (
        [pd.concat([frame.assign(index=gpu, name="Tesla T4") for gpu in range(2)]).sort_values(["time", "index"])],
        {},
    ),
    "a table for each GPU": lambda frame: ([frame, frame.assign(power=frame["power"] + 1)], {"gpu": "T4"}),
    "epochs that are known": lambda frame: ([frame], {"gpu": "T4", "epoch_time": "6.1s"}),
    "percent": lambda frame: (
        [pd.DataFrame({"t": frame["time"], "GPU Utilization (%)": 100 * frame["gr_engine_active"]})],
        {"gpu": "T4"},
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_from_a_table_to_a_recommendation(run: Path, way: str) -> None:
    tables, options = WAYS[way](pd.read_parquet(run))
    job = epochcast.read(*tables, **options)
    assert job.detect().period_s == pytest.approx(6.1, rel=0.03)
    assert job.predict("H100").to_frame()["gpu"].tolist() == ["H100 SXM5"]
    assert job.recommend(epochs=90).verdict
    assert len(job.sources) == (2 if way in ("several GPUs in one", "a table for each GPU") else 1)


def test_a_run_of_wandb_is_read_as_its_package_hands_it_out() -> None:
    """One of the server, with the names that `wandb.Api().run(…)` gives."""
    ticks = range(0, 3600, 15)
    stats = [{"_timestamp": 1.7e9 + tick, "system.gpu.0.gpu": 95 if tick % 300 < 270 else 5} for tick in ticks]

    class Run:
        id, config, metadata = "ab12", {"model": "resnet50"}, {"gpu": "Tesla T4"}

        def history(self, **_: object) -> list[dict[str, float]]:
            return stats

        def scan_history(self) -> list[dict[str, float]]:
            return [{"_timestamp": 1.7e9 + 300 * epoch, "epoch": epoch} for epoch in range(12)]

    job = epochcast.read(Run())
    assert job.detect().period_s == 300 and len(job.detect()) == 11
    assert "epochs of 5 min are known from its history; telemetry agrees within" in job.detect().notes[0].replace("\xa0", " ")
    assert job.predict("A10G").to_frame()["gpu"].tolist() == ["A10G"]


def test_bad_input_is_one_sentence(run: Path) -> None:
    job = epochcast.read(run)
    with pytest.raises(InputError, match="'soon' is no duration"):
        job.recommend(deadline="soon")
    with pytest.raises(InputError, match="unknown GPU 'nonsense'"):
        job.predict("nonsense")
    with pytest.raises(InputError, match="needs the path"):
        epochcast.read()
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = epochcast.nothing
    assert os.fspath(run)


def test_what_it_cannot_take_is_one_sentence(run: Path) -> None:
    job = epochcast.read(run)
    assert {row.instance.cloud for row in job.recommend(clouds="aws").placements} == {"aws"}
    for objective, budget, says in (("money", None, "objective is 'money'"), ("cost", "5 USD", "budget is '5 USD'")):
        with pytest.raises(ValueError, match=says):
            job.recommend(objective=objective, budget=budget)
    with pytest.raises(InputError, match="read takes paths, tables and wandb runs, but this is a list"):
        epochcast.read([str(run)])
    frame = pd.read_parquet(run)
    mistakes: dict[str, Callable[[], object]] = {
        "has no rows": lambda: epochcast.read(pd.DataFrame()),
        "no column 'time'": lambda: epochcast.read(frame.drop(columns="time")),
        "only loss": lambda: epochcast.read(pd.DataFrame({"time": [1, 2], "loss": [1, 2]})),
        "gpu is 5": lambda: epochcast.read(frame, gpu=5),
        "precision is 'fp99'": lambda: epochcast.read(frame, precision="fp99"),
        "'soon' is no duration": lambda: epochcast.read(frame, epoch_time="soon"),
        "no such file: 'no.csv'": lambda: epochcast.read(frame, epochs_from="no.csv"),
        "does not say which GPU it was recorded on; name it with gpu= ": lambda: epochcast.read(frame).predict("H100"),
        "recorded on T4, but the GPU that is given is A10G": lambda: epochcast.read(run, gpu="A10G").predict("H100"),
        "memory in bytes is 2.1": lambda: job.recommend(memory="2000T"),
        "there is no argument 'mem'; there are epochs, objective, spot": lambda: job.recommend(mem=1),
        "targets is 5": lambda: job.predict(5),  # type: ignore[arg-type]
        "epochs is 'x'": lambda: job.predict(epochs="x"),
    }
    for says, mistake in mistakes.items():
        with pytest.raises(InputError, match=says) as caught:
            mistake()
        assert "\n" not in str(caught.value)


def test_a_job_shows_what_it_is(run: Path) -> None:
    assert repr(epochcast.read(run)) == f"{run}: T4 (simulated), 6.13 s per epoch"
    assert {"read", "detect"} <= set(dir(epochcast))
    assert "<b>" in epochcast.read(run).recommend()._repr_html_()
