"""The block for SkyPilot: names that SkyPilot knows, one instance or an ordered list, and comments that tell what is expected.

The expected names are those of SkyPilot 0.14.1, which parsed and planned such blocks.
"""

import re
from dataclasses import replace
from datetime import date

import pytest
import yaml

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.jobs.prices import Instance, load_instances
from epochcast.analyzer.jobs.rank import Placement
from epochcast.analyzer.jobs.skypilot import gpu_name, resources_yaml
from epochcast.regressor import Prediction, load_catalog
from epochcast.regressor.prediction import Estimate

CATALOG = load_catalog()
JOB = "90 epochs of a job seen on T4"


def row(name: str, gpu: str, cloud: str = "aws", region: str = "us-east-1", count: int = 1, **more: object) -> Placement:
    instance = Instance(cloud, name, gpu, count, region, 3.06, "a price page", date(2026, 2, 9))
    seconds = Estimate(7200.0, 6000.0, 9000.0)
    prediction = Prediction(gpu, 0.5, 7200.0, 6000.0, 9000.0, "test", 0.42, 0.62, "speeds", 1.0, (), gpus=count)
    return replace(Placement(instance, "on-demand", 3.06, prediction, seconds, True, True), **more)  # type: ignore[arg-type]


def test_one_instance_is_a_plain_block() -> None:
    assert resources_yaml([row("p3.2xlarge", "V100 SXM2 16GB")], JOB, CATALOG) == (
        "# 90 epochs of a job seen on T4\n"
        "resources:\n"
        "  infra: aws/us-east-1\n"
        "  instance_type: p3.2xlarge\n"
        "  accelerators:\n"
        "    V100: 1\n"
        "  use_spot: false\n"
    )


def test_a_job_of_several_instances_is_launched_on_so_many_nodes() -> None:
    rows = [row("g5.12xlarge", "A10G", count=4, instances=2), row("g5.48xlarge", "A10G", count=8)]
    text = resources_yaml(rows, JOB, CATALOG)
    assert yaml.safe_load(text)["num_nodes"] == 2
    assert yaml.safe_load(text)["resources"]["accelerators"] == {"A10G": 4}
    assert "left out: aws g5.48xlarge (8 x A10G) takes another number of nodes than 2" in text


def test_several_instances_are_tried_in_their_order() -> None:
    rows = [row("g5.xlarge", "A10G"), row("gpu_1x_a10", "A10", "lambda", "any"), row("g6.xlarge", "L4")]
    text = resources_yaml(rows, JOB, CATALOG)
    resources = yaml.safe_load(text)["resources"]
    assert list(resources) == ["ordered"]
    assert [one["infra"] for one in resources["ordered"]] == ["aws/us-east-1", "lambda", "aws/us-east-1"]
    assert [one["instance_type"] for one in resources["ordered"]] == ["g5.xlarge", "gpu_1x_a10", "g6.xlarge"]
    assert [one["use_spot"] for one in resources["ordered"]] == [False] * 3
    assert "# spot: `sky jobs launch`" in resources_yaml([row("g6.xlarge", "L4", market="spot")], JOB, CATALOG)


@pytest.mark.parametrize(
    ("cloud", "name", "gpu", "count", "accelerator"),
    [
        ("aws", "p4d.24xlarge", "A100 SXM4 40GB", 8, "A100"),
        ("aws", "p4de.24xlarge", "A100 SXM4 80GB", 8, "A100-80GB"),
        ("aws", "p5.4xlarge", "H100 SXM5", 1, "H100"),
        ("aws", "p3dn.24xlarge", "V100 SXM2 32GB", 8, "V100-32GB"),
        ("gcp", "n1-highmem-8", "P100 PCIe 16GB", 1, "P100"),
        ("gcp", "a3-highgpu-8g", "H100 SXM5", 8, "H100"),
        ("gcp", "a3-megagpu-8g", "H100 SXM5", 8, "H100-MEGA"),
        ("azure", "Standard_NC24ads_A100_v4", "A100 PCIe 80GB", 1, "A100-80GB"),
        ("lambda", "gpu_1x_h100_pcie", "H100 PCIe", 1, "H100"),
        ("runpod", "1x_H100-SXM_SECURE", "H100 SXM5", 1, "H100-SXM"),
        ("RunPod", "1x_A100-80GB-SXM_SECURE", "A100 SXM4 80GB", 1, "A100-80GB-SXM"),
    ],
)
def test_gpus_have_the_names_that_skypilot_knows_in_that_cloud(
    cloud: str, name: str, gpu: str, count: int, accelerator: str
) -> None:
    resources = yaml.safe_load(resources_yaml([row(name, gpu, cloud, count=count)], JOB, CATALOG))["resources"]
    assert resources["accelerators"] == {accelerator: count}
    assert gpu_name(cloud.lower(), name, accelerator, CATALOG) == gpu  # as the importer reads it back


def test_every_shipped_instance_becomes_a_block_of_documented_fields() -> None:
    instances, _ = load_instances(None, CATALOG)
    rows = [replace(row("x", "T4"), instance=instance) for instance in instances]
    candidates = yaml.safe_load(resources_yaml(rows, JOB, CATALOG))["resources"]["ordered"]
    assert len(candidates) == len(instances) > 20
    for candidate in candidates:
        assert set(candidate) == {"infra", "instance_type", "accelerators", "use_spot"}
        assert re.fullmatch(r"(aws|azure|gcp|lambda|runpod)(/[a-z0-9-]+)?", candidate["infra"])
    for instance, candidate in zip(instances, candidates, strict=True):
        if "skypilot-catalog" in instance.source:
            (accelerator,) = candidate["accelerators"]
            assert gpu_name(instance.cloud, instance.name, accelerator, CATALOG) == instance.gpu


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (row("ecs.gn6v", "V100 SXM2 16GB", "alibaba"), "has no cloud 'alibaba' .of ecs.gn6v.; it has aws, azure"),
        (row("titan", "TITAN Xp"), "has no name for the GPU 'TITAN Xp' .of titan."),
    ],
)
def test_what_skypilot_does_not_know_is_named(bad: Placement, message: str) -> None:
    with pytest.raises(InputError, match=message):
        resources_yaml([bad, row("g5.xlarge", "A10G")], JOB, CATALOG)
    text = resources_yaml([row("g5.xlarge", "A10G"), bad], JOB, CATALOG)
    assert re.search(f"# left out: SkyPilot {message}", text)
    assert yaml.safe_load(text)["resources"]["instance_type"] == "g5.xlarge"


def test_texts_of_a_price_file_cannot_leave_their_place() -> None:
    hostile = row("a: b\n- c", "T4", region="us\n  use_spot: true")
    parsed = yaml.safe_load(resources_yaml([hostile], "a job\nrun: rm", CATALOG))
    assert list(parsed) == ["resources"]
    assert parsed["resources"]["instance_type"] == "a: b\n- c"
    assert parsed["resources"]["use_spot"] is False
