"""Answers to jobs of one GPU and of several: what they are compared with, and what is said of that."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.jobs.advisor import Advisor
from epochcast.analyzer.jobs.job import Job, answer_job
from epochcast.analyzer.jobs.prices import Rented, rented
from epochcast.analyzer.jobs.questions import JobQuestion
from epochcast.analyzer.jobs.sources import Source
from epochcast.analyzer.jobs.watched import JobPlan
from epochcast.analyzer.telemetry.gpu_report import GpuDevice
from epochcast.regressor import Gpu, LatencyPredictor, Profile, load_catalog

from .made_reports import profile_of, where


def predicted(advisor: Advisor, profiles: Sequence[Profile | Source], **question: Any) -> Job:
    return advisor.answer(profiles, JobQuestion(**question))


def recommended(advisor: Advisor, profiles: Sequence[Profile | Source], *, on: Rented | None = None, **question: Any) -> Any:
    return where(advisor.answer(profiles, JobQuestion(**question), recommend=True, on=on))


def test_targets_and_unknown_names(advisor: Advisor) -> None:
    answer = predicted(advisor, [profile_of("T4", 30.0)], targets=["NVIDIA A10G", "t4"])
    assert [one.gpu for one in answer.predictions] == ["A10G", "T4"]
    with pytest.raises(ValueError, match="unknown GPU 'A11'"):
        predicted(advisor, [profile_of("T4", 30.0)], targets=["A11"])
    with pytest.raises(InputError, match="at least one GPU"):
        predicted(advisor, [])


def test_a_gpu_that_only_its_trace_knows(advisor: Advisor) -> None:
    gpu: Gpu = replace(load_catalog()["T4"], name="T4 of ours", nvml_name=None, aliases=())
    source = Source(name="GPU 0", profile=replace(profile_of("T4", 30.0), gpu=gpu.name), gpu=gpu)
    answer = predicted(advisor, [source])
    assert answer.here.profile.gpu == "T4 of ours" and {"T4 of ours", "A10G"} <= {one.gpu for one in answer.predictions}
    ranked = recommended(advisor, [source])
    assert ranked.current is None and ranked.savings is None
    assert any("no instance in the price table has the job's GPU" in note for note in ranked.notes)


def test_eight_gpus_are_priced_by_whole_instances(advisor: Advisor) -> None:
    one, eight = (recommended(advisor, [profile_of("T4", 30.0)] * n, clouds=["aws"], machines=n) for n in (1, 8))
    rows = {(row.instance.name, row.instance.region): row for row in eight.placements}
    assert rows["g5.12xlarge", "us-east-1"].instances == 2 and rows["g5.48xlarge", "us-east-1"].instances == 1
    assert rows["g5.12xlarge", "us-east-1"].usd_per_hour == pytest.approx(2 * 5.672)
    assert rows["g5.xlarge", "us-east-1"].usd_per_hour == pytest.approx(8 * 1.006)
    single = {(row.instance.name, row.instance.region): row for row in one.placements}
    assert single["g5.12xlarge", "us-east-1"].usd_per_hour == pytest.approx(5.672), "its idle GPUs are paid for"
    assert eight.current and (eight.current.instances, eight.current.gpus) == (8, 8)
    assert not any("scale on another kind" in note for note in one.notes)


def test_a_job_in_one_machine_stays_in_one_and_takes_all_of_its_gpus(advisor: Advisor) -> None:
    eight = recommended(advisor, [profile_of("A10G", 30.0)] * 8)
    assert {row.instances for row in eight.placements} == {1}
    assert {row.gpus for row in eight.placements} >= {1, 4, 8}
    assert all(row.gpus == row.instance.count for row in eight.placements)
    rows = {(row.instance.name, row.instance.region): row for row in eight.placements}
    all_of_it, half = rows["g5.48xlarge", "us-east-1"], rows["g5.12xlarge", "us-east-1"]
    assert all_of_it.prediction.ratio == 1.0 and 1.7 < half.prediction.ratio < 2, "half as many GPUs, and less to exchange"
    assert half.prediction.ratio_high / half.prediction.ratio_low > 1.4
    assert "4 GPUs instead of 8" in half.prediction.why
    assert any("8 GPUs now and would use all GPUs of an instance" in note for note in eight.notes)
    assert eight.current and (eight.current.instance.name, eight.current.instances) == ("g5.48xlarge", 1)


def test_a_job_of_one_gpu_is_spread_where_it_is_data_parallel(advisor: Advisor) -> None:
    one, many = (recommended(advisor, [profile_of("T4", 30.0)], data_parallel=yes) for yes in (False, True))
    assert {row.gpus for row in one.placements} == {1} and {row.gpus for row in many.placements} >= {1, 4, 8}
    fastest = [min(row.prediction.ratio for row in answer.placements) for answer in (one, many)]
    assert fastest[1] < fastest[0] / 4


def test_savings_are_against_what_the_job_runs_on(advisor: Advisor) -> None:
    on = rented("T4", 1, advisor.instances, plan=JobPlan(instance="g4dn.8xlarge", region="us-east-1"))
    answer = recommended(advisor, [profile_of("T4", 36.0)], epochs=1000, on=on)
    assert answer.current and not answer.on.assumed and answer.current.usd_per_hour == 2.176
    assert answer.limits.clouds == ("aws",), "the same cloud, as nobody says any other"
    best = answer.verdict.best
    assert best and best.usd and best.seconds and answer.savings and answer.verdict.action == "move"
    assert answer.savings.cost_ratio == pytest.approx(1 - best.usd.value / (36_000 / 3600 * 2.176), rel=0.02)
    assert answer.savings.time_ratio == pytest.approx(1 - best.seconds.value / 36_000, abs=1e-3)
    short = recommended(advisor, [profile_of("T4", 36.0)], on=on)
    assert short.verdict.action == "stay" and short.savings.cost_ratio == 0, "switching costs more than an epoch saves"
    ratios = recommended(advisor, [profile_of("T4", None)], on=on)
    assert ratios.verdict.action == "measure" and ratios.verdict.best.usd is None
    anywhere = recommended(advisor, [profile_of("T4", 36.0)], on=on, clouds=["any"])
    assert len({row.instance.cloud for row in anywhere.placements}) > 1


def test_the_present_price_can_be_said(advisor: Advisor) -> None:
    answer = recommended(advisor, [profile_of("T4", 36.0)], epochs=1000, usd_per_hour_now=0.05)
    assert not answer.on.assumed and answer.current.usd.value == pytest.approx(0.05 * 36_000 / 3600, rel=0.02)
    assert answer.verdict.text == "Stay on the present instance (T4): nothing else is more than 5 % cheaper"


def test_a_job_on_a_part_of_a_machine_pays_for_its_part(advisor: Advisor) -> None:
    """Four jobs of one GPU on a machine of eight: each pays an eighth."""
    on = rented("H200 SXM", 1, advisor.instances, plan=JobPlan(instance="p5en.48xlarge"))
    answer = recommended(advisor, [profile_of("H200 SXM", 36.0)], on=on)
    assert on.share == 1 / 8 and answer.current.usd_per_hour == pytest.approx(on.instance.usd_per_hour / 8)
    assert any("pays for its 1 of the 8 GPUs of p5en.48xlarge" in note for note in answer.notes)


def test_full_instances_are_left_out_and_what_would_be_best_is_said(advisor: Advisor) -> None:
    on = rented("T4", 1, advisor.instances, plan=JobPlan(instance="g4dn.8xlarge", region="us-east-1"))
    every = recommended(advisor, [profile_of("T4", 36.0)], epochs=1000, on=on)
    best = every.verdict.best
    free = {each.offer: 3 for each in advisor.instances} | {best.instance.offer: 0}
    source = Source(name="T4", profile=profile_of("T4", 36.0), gpu=advisor.catalog["T4"])
    predictor, question = LatencyPredictor.load(catalog=advisor.catalog), JobQuestion(epochs=1000)
    answer = where(answer_job([source], predictor, advisor.instances, question, recommend=True, on=on, free=free))
    assert answer.verdict.best != best and best.instance.offer not in {row.instance.offer for row in answer.placements}
    assert [each.reason for each in answer.left_out if each.instance == best.instance] == ["full"]
    assert any(note.startswith(f"if it were free, {best.instance.name}") for note in answer.notes)


def test_an_inventory_is_read_again_when_it_changes(advisor: Advisor, tmp_path: Path) -> None:
    file = tmp_path / "inventory.csv"
    file.write_text("instance,region,free,usd_per_hour\ng5.xlarge,us-east-1,2,0.40\ng4dn.xlarge,us-east-1,0,\n")
    own = Advisor.load(inventory=file)

    def ranked() -> dict[str, float]:
        rows = where(own.answer([profile_of("T4", 36.0)], JobQuestion(), recommend=True)).placements
        return {row.instance.name: row.usd_per_hour for row in rows}

    assert ranked() == {"g5.xlarge": 0.40}
    file.write_text("instance,region,free\ng4dn.xlarge,us-east-1,1\n")
    os.utime(file, (1, 1))
    own.renew_inventory()
    assert ranked() == {"g4dn.xlarge": 0.526}
    file.write_text("instance,region,free\ng4dn.xlarge,us-east-1,some\n")
    own.renew_inventory()
    assert ranked() == {"g4dn.xlarge": 0.526}, "what cannot be read leaves the last"
    with pytest.raises(InputError, match=r"free of row 1 of .* is 'some'; give a whole number"):
        Advisor.load(inventory=file)
    file.write_text("instance,region,free\nx9.huge,us-east-1,1\n")
    with pytest.raises(InputError, match=r"row 1 of .* is 'x9.huge' in 'us-east-1', which the price table does not list"):
        Advisor.load(inventory=file)


def test_a_job_on_two_models_says_what_is_priced(advisor: Advisor) -> None:
    answer = recommended(advisor, [profile_of("T4", 31.0), profile_of("A10G", 30.0)], machines=2)
    assert answer.current and answer.current.instance.gpu == "T4" and answer.current.instances == 2
    assert any("all GPUs of the job as T4" in note for note in answer.notes)
    with pytest.raises(InputError, match="ratios to different GPUs cannot be compared"):
        recommended(advisor, [profile_of("T4", None), profile_of("A10G", None)])


def test_settings_that_no_instance_fits_are_refused_at_the_start(advisor: Advisor) -> None:
    with pytest.raises(InputError, match="no instance of the price table has cloud 'awz'"):
        Advisor.load(JobQuestion(clouds=["awz"]))


@pytest.mark.parametrize(
    ("plan", "device", "expected", "assumed"),
    [
        (None, {}, ("aws", "g4dn.xlarge"), True),
        (None, {"instance": "g4dn.xlarge", "cloud": "aws", "region": "us-west-2"}, ("aws", "g4dn.xlarge"), False),
        (JobPlan(instance="g4dn.8xlarge"), {"instance": "g4dn.xlarge", "cloud": "aws"}, ("aws", "g4dn.8xlarge"), False),
        (None, {"cloud": "gcp"}, ("gcp", "n1-standard-8"), True),
        (JobPlan(cloud="moon"), {}, ("aws", "g4dn.xlarge"), True),
        (None, {"instance": "p4d.24xlarge", "cloud": "aws"}, ("aws", "g4dn.xlarge"), True),
        (None, {"instance": "mine.large"}, ("aws", "g4dn.xlarge"), True),
        (None, {"instance": "g4dn.xlarge", "region": "eu-north-1"}, ("aws", "g4dn.xlarge"), False),
    ],
)
def test_what_a_job_is_rented_on(
    advisor: Advisor, plan: JobPlan | None, device: dict[str, str], expected: tuple[str, str], assumed: bool
) -> None:
    found = rented("T4", 1, advisor.instances, plan=plan, devices=[GpuDevice("GPU-a", "0", "Tesla T4", "n", **device)])  # type: ignore[arg-type]
    assert found.instance is not None
    assert (found.instance.cloud, found.instance.name, found.assumed) == (*expected, assumed)
    unknown = plan is not None and plan.cloud == "moon"
    assert bool(found.notes) == (assumed and (unknown or bool(device.get("instance"))))


def test_what_is_assumed_in_place_of_what_was_said_is_told_without_contradiction(advisor: Advisor) -> None:
    profile = profile_of("T4", 36.0)
    said = [GpuDevice("GPU-a", "0", "Tesla T4", "n", instance="g4dn.9xlarge", cloud="aws")]
    answer = recommended(advisor, [profile], on=rented("T4", 1, advisor.instances, devices=said))
    assert answer.current and answer.on.assumed and answer.savings
    notes = " | ".join(answer.notes)
    assert (
        "reported to run on g4dn.9xlarge, but the price table does not list it: the cheapest instance with T4 is used" in notes
    )
    assert "compared with aws g4dn.xlarge, the cheapest with the job's GPU" in notes


def test_nothing_is_assumed_that_has_other_machines_than_the_job(advisor: Advisor) -> None:
    profiles = [profile_of("T4", 36.0)] * 4
    said = [GpuDevice("GPU-a", "0", "Tesla T4", "n", instance="g4dn.12xlarge", cloud="aws")]
    for on in (None, rented("T4", 4, advisor.instances, devices=said)):
        answer = recommended(advisor, profiles, on=on)
        assert answer.placements and answer.current is None and answer.savings is None
        notes = " | ".join(answer.notes)
        assert "no instance in the price table has 4 T4, as the job's node has" in notes
        assert ("reported to run on g4dn.12xlarge, but the price table does not list it" in notes) == (on is not None)
        assert "is used" not in notes and "compared with" not in notes
    assert recommended(advisor, profiles, machines=4).current


def test_what_is_assumed_is_cheapest_for_all_gpus_of_the_job(advisor: Advisor) -> None:
    aws = JobPlan(cloud="aws")
    one, six = (rented("A10G", n, advisor.instances, plan=aws, machines=n).instance for n in (1, 6))
    assert one and one.name == "g5.xlarge"
    assert six and six.name == "g5.xlarge", "6 x 1.006 is less than 2 x 5.672 and 16.288"
    v100 = [
        one for one in advisor.instances if one.gpu == "V100 SXM2 16GB" and one.cloud == "gcp" and one.region == "us-central1"
    ]
    dear_alone = rented(
        "V100 SXM2 16GB", 8, [replace(one, usd_per_hour=4.0 if one.count == 1 else 20.0) for one in v100], machines=8
    )
    assert dear_alone.instance and dear_alone.instance.count == 8, "8 x 4 is more than 20"


def test_a_current_instance_without_a_price_in_the_market_takes_the_other(advisor: Advisor) -> None:
    plan = JobPlan(instance="Standard_NC24ads_A100_v4")
    found = rented("A100 PCIe 80GB", 1, advisor.instances, plan=plan, market="spot")
    assert found.instance is not None and found.market == "on-demand"
    answer = recommended(advisor, [profile_of("A100 PCIe 80GB", 30.0)], on=found, market="spot")
    assert any("Standard_NC24ads_A100_v4 has no spot price" in note for note in answer.notes)
