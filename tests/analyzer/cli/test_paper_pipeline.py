"""``--pipeline paper`` as a user meets it: trained, asked of a trace and a profile, refused where it has no answer."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import joblib
import pytest

from epochcast.analyzer.cli import main
from epochcast.regressor.predictor import SHIPPED
from epochcast.regressor.profile import feature_set
from epochcast.regressor.recipes import PaperRecipe


@pytest.fixture(scope="module")
def folder(run: Path, profile: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Profiles of six workloads on three GPUs, the trace of a seventh, and a small model of the paper's recipe."""
    folder = tmp_path_factory.mktemp("paper")
    shutil.copy(run, folder / "run.parquet")
    shutil.copy(profile, folder / "run.json")
    seen = json.loads(profile.read_text())
    none = dict.fromkeys(("epoch_s", "unit", "epoch_s_low", "epoch_s_high", "first_epoch_s")) | {"epochs": 0}
    (folder / "ratio.json").write_text(json.dumps(seen | none))
    (folder / "data").mkdir()
    for number in range(6):
        for gpu, faster in {"T4": 1.0, "A10G": 0.5, "V100 SXM2 16GB": 0.4}.items():
            busy = 0.5 + number / 20
            of_busy = {"mean": busy, "std": 0.1, "min": 0.1, "p25": busy, "p50": busy, "p75": busy, "max": 1.0}
            job = {"workload": f"w{number}", "group": f"m{number % 3}", "epoch_s": (number + 1) * 4 * faster, "gpu": gpu}
            of_job = seen | none | job | {"unit": "epoch", "metrics": seen["metrics"] | {"gpu_utilization": of_busy}}
            (folder / "data" / f"{number}-{gpu}.json").write_text(json.dumps(of_job))
    bare = {name: values for name, values in seen["metrics"].items() if name != "gpu_utilization"}
    (folder / "bare.json").write_text(json.dumps(seen | {"metrics": bare, "feature_set": feature_set(bare)}))
    with pytest.MonkeyPatch.context() as patch, joblib.parallel_config("threading"):
        patch.setattr(PaperRecipe.__init__, "__defaults__", ("all", True, 3, 10, 2, 0))
        train = ["fit", "regressor", "--pipeline", "paper", "--data", str(folder / "data"), "--out", str(folder / "model")]
        assert main([*train, "--json"]) == 0
    return folder


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["predict", "run.json", "--pipeline", "magic"], "'magic' is not one of"),
        (
            ["predict", "run.json", "--model", "model"],
            "`epochcast fit regressor --pipeline paper`); this version reads 'epochcast.regressor/v9'",
        ),
        (
            ["fit", "regressor", "--onto", "model", "--data", "data", "--out", "new"],
            "train it with `epochcast fit regressor`, or name another model",
        ),
        (
            ["predict", "run.json", "--pipeline", "paper", "--model", "{shipped}"],
            "`epochcast fit regressor`); this version reads 'epochcast.regressor.paper/v5'",
        ),
        (["predict", "run.json", "--pipeline", "paper", "--model", "nowhere"], "there is no model in 'nowhere'"),
        (
            ["predict", "bare.json", "--pipeline", "paper", "--model", "model"],
            "the profile lacks gpu_utilization, which the model",
        ),
        (
            ["predict", "ratio.json", "--pipeline", "paper", "--model", "model"],
            "the profile lacks epoch seconds, which the model",
        ),
    ],
)
def test_what_it_cannot_do_is_one_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch, refusal: Callable[..., str], arguments: list[str], says: str
) -> None:
    monkeypatch.chdir(folder)
    said = refusal(*(argument.format(shipped=SHIPPED) for argument in arguments))
    assert says in said and said.startswith("epochcast: ")
