"""Energy and carbon dioxide of a job where it could run: the arithmetic, what intensity counts, and where it is shown."""

import csv
import json
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from epochcast.analyzer.answers.advisor import Advisor
from epochcast.analyzer.answers.answer_schema import PredictionAnswer
from epochcast.analyzer.answers.job_json import prediction_answer, recommendation_answer
from epochcast.analyzer.answers.job_result import JobQuestion
from epochcast.analyzer.answers.question_schema import example_profile
from epochcast.analyzer.answers.recommendation_schema import InstanceAnswer, RecommendationAnswer
from epochcast.analyzer.answers.recommendations import Renting
from epochcast.analyzer.instances import load_instances
from epochcast.analyzer.instances.carbon_intensity import of_region
from epochcast.analyzer.recommendation import Work
from epochcast.regressor import LatencyPredictor, load_catalog
from epochcast.regressor.profile_json import read_profile

JOB = read_profile(example_profile())


def recommended(advisor: Advisor, gpus: int = 1, **question: Any) -> RecommendationAnswer:
    return recommendation_answer(advisor.answer([JOB] * gpus, JobQuestion(renting=Renting(), **question)))


def predicted(advisor: Advisor, **question: Any) -> PredictionAnswer:
    return prediction_answer(advisor.answer([JOB], JobQuestion(**question)))


def row(answer: RecommendationAnswer, instance: str, region: str) -> InstanceAnswer:
    return next(one for one in answer.recommendations if (one.instance, one.region) == (instance, region))


def test_every_grid_has_a_source_a_year_and_an_intensity_that_a_grid_can_have() -> None:
    text = resources.files("epochcast.analyzer.instances").joinpath("grids.csv").read_text(encoding="utf-8")
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
    assert here.energy.joules == pytest.approx(JOB.metrics["power"]["mean"] * JOB.epoch_s)
    assert east.joules == west.joules == pytest.approx(here.energy.joules)
    for one, grams_per_kwh in ((east, 343.48), (west, 97.85)):
        assert one.carbon_intensity == grams_per_kwh
        assert one.carbon_source and "region-carbon-info" in one.carbon_source and one.carbon_source.endswith("2025")
        assert one.grams_co2e == pytest.approx(here.energy.joules / 3.6e6 * grams_per_kwh)
        assert one.grams_co2e_low and one.grams_co2e_high and one.grams_co2e_low <= one.grams_co2e <= one.grams_co2e_high
    lambda_ = next(one for one in answer.recommendations if one.region == "any")
    assert lambda_.joules and (lambda_.grams_co2e, lambda_.carbon_intensity, lambda_.carbon_source) == (None, None, None)
    assert answer.current and answer.current.joules == pytest.approx(here.energy.joules) and answer.current.grams_co2e


def test_a_whole_job_and_several_gpus_take_as_much_more(advisor: Advisor) -> None:
    one, all_epochs, two = recommended(advisor), recommended(advisor, work=Work(100)), recommended(advisor, gpus=2)
    for instance, region in (("g4dn.xlarge", "us-east-1"), ("g5.xlarge", "us-east-1")):
        single, whole = row(one, instance, region), row(all_epochs, instance, region)
        assert single.joules and whole.joules and single.seconds and whole.seconds
        assert whole.joules / single.joules == pytest.approx(whole.seconds / single.seconds)
    four = row(two, "g5.12xlarge", "us-east-1")
    a10g = predicted(advisor, targets=["A10G"]).predictions[0]
    assert four.gpus == 4 and four.joules and a10g.energy and a10g.energy.joules and four.seconds and a10g.seconds
    assert four.joules == pytest.approx(4 * a10g.energy.joules * four.seconds / a10g.seconds, rel=0.05)


def test_a_given_intensity_counts_everywhere_and_in_predictions(advisor: Advisor) -> None:
    answer = recommended(advisor, carbon_intensity=100.0)
    assert {(one.carbon_intensity, one.carbon_source) for one in answer.recommendations} == {(100.0, "given")}
    assert all(one.grams_co2e == pytest.approx((one.joules or 0) / 36e3) for one in answer.recommendations)
    plain, given = predicted(advisor, work=Work(9)), predicted(advisor, work=Work(9), carbon_intensity=100.0)
    for one, other in zip(plain.predictions, given.predictions, strict=True):
        assert one.energy and one.job and (one.energy.grams_co2e, one.job.grams_co2e) == (None, None)
        assert other.energy and other.energy.joules and other.energy.grams_co2e == pytest.approx(other.energy.joules / 36e3)
        assert other.job and other.job.joules and other.job.grams_co2e == pytest.approx(other.job.joules / 36e3)
    configured = Advisor(advisor.catalog, LatencyPredictor.load(), advisor.instances, carbon_intensity=50.0)
    assert recommended(configured).recommendations[0].carbon_intensity == 50.0
    assert recommended(configured, carbon_intensity=7.0).recommendations[0].carbon_intensity == 7.0


def test_without_power_there_is_neither(advisor: Advisor) -> None:
    metrics = {name: of for name, of in example_profile()["metrics"].items() if not name.startswith("power")}
    job = example_profile() | {"metrics": metrics}
    answer = recommendation_answer(advisor.answer([read_profile(job)], JobQuestion(renting=Renting())))
    assert {(one.joules, one.grams_co2e) for one in answer.recommendations} == {(None, None)}
    assert row(answer, "g4dn.xlarge", "us-east-1").carbon_intensity == 343.48


def test_commands_show_it(tmp_path: Path, text: Callable[..., str], refusal: Callable[..., str]) -> None:
    path = tmp_path / "job.json"
    path.write_text(json.dumps(example_profile()))
    ranked = text("recommend", path, "--epochs", "90")
    header, *rows = ranked[ranked.index("  instance") :].splitlines()
    assert "CO2e" in header and any(" kg " in line or " g " in line for line in rows)
    assert "CO2e: the GPUs' energy times the carbon intensity of the electricity, without host and cooling" in ranked
    assert "CO2e" not in text("predict", path)
    assert "CO2e: the GPUs' energy" in text("predict", path, "--carbon-intensity", "380", "--target", "A10G")
    assert "carbon-intensity" in refusal("predict", path, "--carbon-intensity", "0")
    assert "carbon-intensity" in refusal("recommend", path, "--carbon-intensity", "-1")
