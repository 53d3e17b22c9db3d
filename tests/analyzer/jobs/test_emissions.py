"""Energy and carbon dioxide of a job where it could run: the arithmetic, what intensity counts, and where it is shown."""

import csv
import json
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from epochcast.analyzer.jobs.advisor import Advisor
from epochcast.analyzer.jobs.job import Job
from epochcast.analyzer.jobs.prices import load_instances
from epochcast.analyzer.jobs.questions import JobQuestion, example_profile
from epochcast.analyzer.jobs.rank import CarbonIntensity, Placement, of_region
from epochcast.regressor import LatencyPredictor, load_catalog
from epochcast.regressor.profile_json import read_profile

from .made_reports import where

JOB = read_profile(example_profile())


def recommended(advisor: Advisor, gpus: int = 1, **question: Any) -> Any:
    return where(advisor.answer([JOB] * gpus, JobQuestion(**question), recommend=True))


def predicted(advisor: Advisor, **question: Any) -> Job:
    return advisor.answer([JOB], JobQuestion(**question))


def row(answer: Any, name: str, region: str) -> Placement:
    placements: tuple[Placement, ...] = answer.placements
    return next(one for one in placements if (one.instance.name, one.instance.region) == (name, region))


def test_every_grid_has_a_source_a_year_and_an_intensity_that_a_grid_can_have() -> None:
    text = resources.files("epochcast.analyzer.jobs").joinpath("grids.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    assert len({(one["cloud"], one["region"]) for one in rows}) == len(rows) >= 60
    assert all(one["source"].count("@") == 1 and one["year"] == "2025" and one["place"] for one in rows)
    assert all(1 < float(one["grams_per_kwh"]) < 1000 for one in rows)
    # The same place, the same grid.
    by_place: dict[str, set[str]] = {}
    for one in rows:
        by_place.setdefault(one["place"], set()).add(one["grams_per_kwh"])
    assert all(len(known) == 1 for known in by_place.values())
    shipped, _ = load_instances(None, load_catalog())
    unknown = {one.region for one in shipped if of_region(one.cloud, one.region) is None}
    assert unknown == {"any"}, "of the shipped prices only Lambda's say no region"


def test_grams_are_energy_times_the_intensity_of_the_region(advisor: Advisor) -> None:
    answer = recommended(advisor)
    here = predicted(advisor, targets=["T4"]).predictions[0]
    assert here.energy and here.energy.joules and JOB.epoch_s
    east, west = row(answer, "g4dn.xlarge", "us-east-1"), row(answer, "g4dn.xlarge", "us-west-2")
    assert here.energy.joules.value == pytest.approx(JOB.metrics["power"]["mean"] * JOB.epoch_s)
    joules = JOB.metrics["power"]["mean"] * east.seconds.value
    for one, grams_per_kwh in ((east, 343.48), (west, 97.85)):
        assert one.carbon and one.carbon.grams_per_kwh == grams_per_kwh and one.joules and one.grams_co2e
        assert "region-carbon-info" in one.carbon.source and one.carbon.source.endswith("2025")
        assert one.joules.value == pytest.approx(joules)
        assert one.grams_co2e.value == pytest.approx(joules / 3.6e6 * grams_per_kwh)
        assert one.grams_co2e.low <= one.grams_co2e.value <= one.grams_co2e.high
    lambda_ = next(one for one in answer.placements if one.instance.region == "any")
    assert lambda_.joules and (lambda_.grams_co2e, lambda_.carbon) == (None, None)
    assert answer.current and answer.current.joules.value == pytest.approx(joules) and answer.current.grams_co2e


def test_a_whole_job_and_several_gpus_take_as_much_more(advisor: Advisor) -> None:
    one, all_epochs, two = recommended(advisor), recommended(advisor, epochs=100), recommended(advisor, gpus=2)
    for instance, region in (("g4dn.xlarge", "us-east-1"), ("g5.xlarge", "us-east-1")):
        single, whole = row(one, instance, region), row(all_epochs, instance, region)
        assert single.joules and whole.joules and single.seconds and whole.seconds
        assert whole.joules.value / single.joules.value == pytest.approx(whole.seconds.value / single.seconds.value)
    four = row(two, "g5.12xlarge", "us-east-1")
    a10g = predicted(advisor, targets=["A10G"]).predictions[0]
    assert four.gpus == 4 and four.joules and a10g.energy and a10g.energy.joules and four.seconds and a10g.seconds
    assert four.joules.value == pytest.approx(4 * a10g.energy.joules.value * four.seconds.value / a10g.seconds, rel=0.05)


def test_a_given_intensity_counts_everywhere_and_in_predictions(advisor: Advisor) -> None:
    answer = recommended(advisor, carbon_intensity=100.0)
    assert {one.carbon for one in answer.placements} == {CarbonIntensity(100.0, "given")}
    assert all(
        one.joules is None or one.grams_co2e.value == pytest.approx(one.joules.value / 36e3) for one in answer.placements
    )
    plain, given = predicted(advisor, epochs=9), predicted(advisor, epochs=9, carbon_intensity=100.0)
    for one, other in zip(plain.predictions, given.predictions, strict=True):
        assert one.energy and one.job and one.grams_co2e is None
        assert other.job_joules and other.grams_co2e and other.grams_co2e.value == pytest.approx(other.job_joules.value / 36e3)
    (epoch,) = predicted(advisor, targets=["T4"], carbon_intensity=100.0).predictions
    assert epoch.energy and epoch.energy.joules and epoch.grams_co2e
    assert epoch.grams_co2e.value == pytest.approx(epoch.energy.joules.value / 36e3)
    configured = Advisor(advisor.catalog, LatencyPredictor.load(), advisor.instances, JobQuestion(carbon_intensity=50.0))
    assert recommended(configured).placements[0].carbon.grams_per_kwh == 50.0
    assert recommended(configured, carbon_intensity=7.0).placements[0].carbon.grams_per_kwh == 7.0


def test_without_power_there_is_neither(advisor: Advisor) -> None:
    metrics = {name: of for name, of in example_profile()["metrics"].items() if not name.startswith("power")}
    job = example_profile() | {"metrics": metrics}
    answer = where(advisor.answer([read_profile(job)], JobQuestion(), recommend=True))
    assert {(one.joules, one.grams_co2e) for one in answer.placements} == {(None, None)}
    carbon = row(answer, "g4dn.xlarge", "us-east-1").carbon
    assert carbon and carbon.grams_per_kwh == 343.48


def test_commands_show_it(tmp_path: Path, text: Callable[..., str], refusal: Callable[..., str]) -> None:
    path = tmp_path / "job.json"
    path.write_text(json.dumps(example_profile()))
    ranked = text("recommend", path, "--epochs", "90", "--all")
    header, *rows = ranked[ranked.index("  instance") :].splitlines()
    assert "CO2e" in header and any(line.endswith((" kg", " g")) for line in rows)
    assert "CO2e: the GPUs' energy times the carbon intensity of the electricity, without host and cooling" in ranked
    assert "CO2e" not in text("predict", path)
    assert "CO2e: the GPUs' energy" in text("predict", path, "--carbon-intensity", "380", "--target", "A10G")
    assert "carbon-intensity" in refusal("predict", path, "--carbon-intensity", "0")
    assert "carbon-intensity" in refusal("recommend", path, "--carbon-intensity", "-1")
