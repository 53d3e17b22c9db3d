"""The few lines that a GPU of one's own needs, as our files show them: a new GPU of them alone is answered everywhere."""

import json
import re
import tomllib
from dataclasses import MISSING, fields, replace
from pathlib import Path

import pytest

from epochcast.regressor import Gpu, LatencyPredictor, Profile, load_catalog
from epochcast.regressor.energy import predict_energy
from epochcast.regressor.profile_json import read_profile

ROOT = Path(__file__).parents[2]
HEADER = ROOT / "regressor" / "gpus.toml"
PAGE = ROOT / "docs" / "how-to" / "add-a-gpu.md"


def _template(path: Path) -> str:
    """The commented lines of the catalogue's header, or the first TOML block of the page."""
    shown = r"^(#   \[\[gpu\]\]\n(?:#   .+\n)+)" if path.suffix == ".toml" else r"^```toml\n((?:.+\n)+?)```"
    block, *_ = re.findall(shown, path.read_text("utf-8"), flags=re.MULTILINE)
    return re.sub(r"^#   ", "", block, flags=re.MULTILINE)


@pytest.fixture(params=[HEADER, PAGE], ids=lambda path: path.name)
def mine(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "my-gpus.toml"
    path.write_text(_template(request.param), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def job() -> Profile:
    return read_profile(json.loads((ROOT / "analyzer" / "jobs" / "example_profile.json").read_text("utf-8")))


def test_both_templates_hold_what_a_gpu_needs_and_no_more(mine: Path) -> None:
    (gpu,) = tomllib.loads(mine.read_text("utf-8"))["gpu"]
    assert list(gpu) == [field.name for field in fields(Gpu) if field.default is MISSING]
    assert gpu["name"] == "My GPU"


@pytest.mark.parametrize("telemetry", [True, False])
def test_it_is_predicted_for_and_from_and_has_an_energy(mine: Path, job: Profile, telemetry: bool) -> None:
    predictor = LatencyPredictor.load(catalog=load_catalog(mine))
    new, other = predictor.catalog["My GPU"], predictor.catalog["T4"]
    asked = job if telemetry else replace(job, metrics={}, feature_set="none")
    for source, target in ((other, new), (new, other)):
        profile = replace(asked, gpu=source.name)
        (answer,) = predictor.predict(profile, [target.name])
        assert answer.low is not None and answer.seconds is not None and answer.high is not None
        assert 0 < answer.low < answer.seconds < answer.high
        assert answer.why.startswith("nothing was measured on My GPU: data sheets")
        energy = predict_energy(profile, answer, source, target)
        assert (energy is not None) == ("power" in profile.metrics)
        assert energy is None or 0 < energy.watts.value <= target.tdp
    everywhere = predictor.predict(replace(asked, gpu="My GPU"))
    assert {answer.gpu for answer in everywhere} == set(predictor.catalog)
