"""The SkyPilot catalog's price lists, in the shape of each cloud's; figures here are made up."""

from datetime import date
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.jobs.prices import Instance, read_price_list
from epochcast.analyzer.jobs.skypilot import accelerators_of, gpu_name, read_skypilot_catalog
from epochcast.regressor import load_catalog

CATALOG = load_catalog()
DAY = date(2026, 5, 1)
AWS = """InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,Region,AvailabilityZone,Arch
c9.large,,,2.0,4.0,,0.11,0.05,us-east-1,use1-az1,x86_64
g4dn.xlarge,T4,1.0,4.0,16.0,"{'Gpus': [{'Name': 'T4', 'Count': 1}]}",0.6,0.25,us-east-1,use1-az1,x86_64
g4dn.xlarge,T4,1.0,4.0,16.0,"{'Gpus': [{'Name': 'T4', 'Count': 1}]}",0.6,0.24,us-east-1,use1-az2,x86_64
g4dn.xlarge,T4,1.0,4.0,16.0,"{'Gpus': [{'Name': 'T4', 'Count': 1}]}",0.6,0.01,us-east-1,use1-lax1-az1,x86_64
g4dn.xlarge,T4,1.0,4.0,16.0,"{'Gpus': [{'Name': 'T4', 'Count': 1}]}",0.7,,eu-west-1,euw1-az1,x86_64
p5.48xlarge,H100,8.0,192.0,2048.0,,60.0,,us-east-1,use1-az1,x86_64
g5g.xlarge,T4g,1.0,4.0,8.0,,0.4,0.2,us-east-1,use1-az1,arm64
g4ad.xlarge,Radeon Pro V520,1.0,4.0,16.0,,0.4,0.2,us-east-1,use1-az1,x86_64
g6f.large,L4,0.125,2.0,8.0,,0.2,0.1,us-east-1,use1-az1,x86_64
g6.xlarge,L4,1.0,4.0,16.0,,0.0,0,us-east-1,use1-az1,x86_64
g6.2xlarge,L4,1.0,8.0,32.0,,0.9,1.2,us-east-1,use1-az1,x86_64
g6.4xlarge,L4,1.0,16.0,64.0,,,0.5,us-east-1,use1-az1,x86_64
"""
GCP = """InstanceType,vCPUs,MemoryGiB,AcceleratorName,AcceleratorCount,GpuInfo,Region,AvailabilityZone,Price,SpotPrice
a2-highgpu-2g,24.0,170.0,,,,us-central1,us-central1-a,1.5,0.7
a3-edgegpu-8g,208.0,1872.0,,,,us-central1,us-central1-a,9.5,5.1
g2-standard-24,24.0,96.0,,,,us-central1,us-central1-a,0.9,0.45
n1-standard-8,8.0,30.0,,,,us-central1,us-central1-a,0.4,0.1
n1-standard-8,8.0,30.0,,,,us-central1,us-central1-b,0.4,0.1
n1-standard-16,16.0,60.0,,,,us-central1,us-central1-b,0.8,
n1-highmem-8,8.0,52.0,,,,us-central1,us-central1-a,0.5,0.2
,,,A100,1,{'Gpus': [{'MemoryInfo': {'SizeInMiB': 40960}}]},us-central1,us-central1-a,3.0,1.5
,,,A100,2,{'Gpus': [{'MemoryInfo': {'SizeInMiB': 40960}}]},us-central1,us-central1-a,6.0,3.0
,,,L4,2,{'Gpus': [{'MemoryInfo': {'SizeInMiB': 24576}}]},us-central1,us-central1-a,1.2,1.3
,,,T4,1,{'Gpus': [{'MemoryInfo': {'SizeInMiB': 16384}}]},us-central1,us-central1-a,0.35,0.2
,,,T4,2,{'Gpus': [{'MemoryInfo': {'SizeInMiB': 16384}}]},us-central1,us-central1-b,0.7,0.4
,,,P100,1,{'Gpus': [{'MemoryInfo': {'SizeInMiB': 16384}}]},europe-west4,europe-west4-a,1.5,0.2
,,,tpu-v6e-1,1,tpu-v6e-1,us-central1,us-central1-a,2.7,0.6
"""
AZURE = """InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,Region,Generation
Standard_NC6s_v3,V100,1,6.0,112,V100,3.1,0.5,eastus,"V1,V2"
Standard_NC24ads_A100_v4,A100-80GB,1,24.0,220,A100-80GB,3.7,0.9,eastus,V2
Standard_ND96asr_v4,A100,8,96.0,900,A100,27.2,5.4,eastus,V2
Standard_NC40ads_H100_v5,H100,1,40.0,320,H100,7.0,1.7,eastus,V2
Standard_NV12ads_A10_v5,A10,1,12.0,110,A10,0.9,0.2,eastus,"V1,V2"
Standard_NV6ads_A10_v5,A10,0.167,6.0,55,A10,0.5,0.1,eastus,"V1,V2"
Standard_NV36ads_A10_v5,A10,1,36.0,440,A10,3.2,0.8,eastus,"V1,V2"
Standard_NV72ads_A10_v5,A10,2,72.0,880,A10,6.5,1.6,eastus,"V1,V2"
"""
LAMBDA = """InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,Region,GpuInfo,SpotPrice
cpu_4x_general,,,4.0,16.0,0.2,us-east-1,,
gpu_1x_a10,A10,1.0,30.0,200.0,0.8,us-east-1,"{'Gpus': [{'Name': 'A10'}]}",
gpu_1x_h100_pcie,H100,1.0,26.0,200.0,2.5,us-east-1,"{'Gpus': [{'Name': 'H100'}]}",
gpu_8x_h100_sxm5,H100,8.0,208.0,1800.0,24.0,us-east-1,"{'Gpus': [{'Name': 'H100'}]}",
gpu_8x_a100,A100,8.0,124.0,1800.0,11.0,us-east-1,"{'Gpus': [{'Name': 'A100'}]}",
gpu_1x_a6000,A6000,1.0,14.0,100.0,0.9,us-east-1,"{'Gpus': [{'Name': 'A6000'}]}",
"""


def _read(folder: Path, text: str, cloud: str, *regions: str) -> tuple[dict[tuple[str, str, int], Instance], list[str]]:
    path = folder / "vms.csv"
    path.write_text(text, encoding="utf-8")
    instances, notes = read_skypilot_catalog(read_price_list(path), str(path), cloud, CATALOG, source="a page", day=DAY)
    instances = [one for one in instances if not regions or one.region in regions]
    assert all(one.cloud == cloud and one.source == "a page" and one.date == DAY for one in instances)
    return {(one.name, one.gpu, one.count): one for one in instances}, notes


@pytest.mark.parametrize("zones", [True, False])
def test_a_google_host_gets_the_gpu_of_its_own_region_even_in_a_list_without_zones(tmp_path: Path, zones: bool) -> None:
    rows = [
        "InstanceType,AcceleratorName,AcceleratorCount,Price,SpotPrice,Region,AvailabilityZone",
        *("n1-standard-8,,,0.4,0.1,us-central1,us-central1-a", ",T4,1,0.3,0.1,us-central1,us-central1-a"),
        *("n1-standard-8,,,0.5,0.2,europe-west4,europe-west4-a", ",T4,1,0.4,0.2,europe-west4,europe-west4-a"),
    ]
    text = "\n".join(row if zones else row.rpartition(",")[0] for row in rows)
    for region, usd, spot in (("us-central1", 0.7, 0.2), ("europe-west4", 0.9, 0.4)):
        one = _read(tmp_path, text, "gcp", region)[0]["n1-standard-8", "T4", 1]
        assert (one.usd_per_hour, one.spot_usd_per_hour) == pytest.approx((usd, spot))
    found, _ = read_skypilot_catalog(read_price_list(tmp_path / "vms.csv"), "it", "gcp", CATALOG, source="a page", day=DAY)
    assert {one.region: one.usd_per_hour for one in found} == pytest.approx({"us-central1": 0.7, "europe-west4": 0.9})


def test_aws_has_one_row_a_zone_and_whole_instances(tmp_path: Path) -> None:
    found, notes = _read(tmp_path, AWS, "aws", "us-east-1")
    assert set(found) == {("g4dn.xlarge", "T4", 1), ("p5.48xlarge", "H100 SXM5", 8), ("g6.4xlarge", "L4", 1)}
    t4 = found["g4dn.xlarge", "T4", 1]
    assert (t4.usd_per_hour, t4.spot_usd_per_hour, t4.vcpus, t4.memory) == (0.6, 0.24, 4, 16 * 2**30)
    assert found["p5.48xlarge", "H100 SXM5", 8].spot_usd_per_hour is None
    assert found["g6.4xlarge", "L4", 1].usd_per_hour is None
    reasons = "\n".join(notes)
    assert "T4g (1)" in reasons and "Radeon Pro V520 (1)" in reasons
    for why in ("for fractions of a GPU", "without a price", "with spot above on demand"):
        assert f"skipped {why}" in reasons
    assert len(_read(tmp_path, AWS, "aws")[0]) == 3
    instances, _ = read_skypilot_catalog(read_price_list(tmp_path / "vms.csv"), "it", "aws", CATALOG, source="a page", day=DAY)
    assert sorted(one.region for one in instances if one.gpu == "T4") == ["eu-west-1", "us-east-1"]


def test_gcp_prices_the_gpu_apart_from_its_host(tmp_path: Path) -> None:
    found, notes = _read(tmp_path, GCP, "gcp", "us-central1")
    assert set(found) == {("a2-highgpu-2g", "A100 SXM4 40GB", 2), ("n1-standard-8", "T4", 1), ("n1-standard-16", "T4", 2)}
    a100 = found["a2-highgpu-2g", "A100 SXM4 40GB", 2]
    assert (a100.usd_per_hour, a100.spot_usd_per_hour, a100.vcpus, a100.memory) == (7.5, 3.7, 24, 170 * 2**30)
    t4 = found["n1-standard-8", "T4", 1]
    assert (t4.usd_per_hour, t4.spot_usd_per_hour) == (0.75, 0.3)
    assert (found["n1-standard-16", "T4", 2].usd_per_hour, found["n1-standard-16", "T4", 2].spot_usd_per_hour) == (1.5, None)
    reasons = "\n".join(notes)
    assert "skipped for GPUs without a host in their zone: A100 (1), P100 (1)" in reasons
    assert "tpu-v6e-1 (1)" in reasons and "with spot above on demand, so that one of the two must be wrong: L4 (1)" in reasons


def test_gpus_without_any_host_are_no_answer(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no price of a GPU of the catalogue; rows of .* without a host in their zone: P100"):
        _read(tmp_path, "\n".join(line for line in GCP.splitlines() if "us-central1" not in line), "gcp")


def test_azure_rents_out_parts_of_an_a10(tmp_path: Path) -> None:
    found, notes = _read(tmp_path, AZURE, "azure")
    assert {(gpu, count) for _, gpu, count in found} == {
        ("V100 PCIe 16GB", 1),
        ("A100 PCIe 80GB", 1),
        ("A100 SXM4 40GB", 8),
        ("A10", 1),
        ("A10", 2),
        ("H100 NVL", 1),
    }
    assert ("Standard_NV36ads_A10_v5", "A10", 1) in found
    assert any("fractions of a GPU: A10 (2)" in note for note in notes)


def test_lambda_names_the_form_in_the_instance(tmp_path: Path) -> None:
    found, notes = _read(tmp_path, LAMBDA, "lambda")
    assert set(found) == {
        ("gpu_1x_a10", "A10", 1),
        ("gpu_1x_h100_pcie", "H100 PCIe", 1),
        ("gpu_8x_h100_sxm5", "H100 SXM5", 8),
        ("gpu_8x_a100", "A100 SXM4 40GB", 8),
        ("gpu_1x_a6000", "RTX A6000", 1),
    }
    assert not notes


@pytest.mark.parametrize(
    ("cloud", "instance", "accelerator", "gpu"),
    [
        ("aws", "p3.2xlarge", "V100", "V100 SXM2 16GB"),
        ("aws", "p5en.48xlarge", "H200", "H200 SXM"),
        ("gcp", "", "P100", "P100 PCIe 16GB"),
        ("runpod", "1x_H100_SECURE", "H100", "H100 PCIe"),
        ("runpod", "1x_H100-NVL_SECURE", "H100-NVL", "H100 NVL"),
        ("runpod", "1x_MI300X_SECURE", "MI300X", "MI300X"),
        ("azure", "Standard_NCC40ads_H100_v5", "H100", "H100 NVL"),
        ("azure", "Standard_ND96isr_H100_v5", "H100", "H100 SXM5"),
        ("runpod", "1x_V100-16GB-SXM2_SECURE", "V100-16GB-SXM2", "V100 SXM2 16GB"),
        ("fluidstack", "H100_1x", "H100", None),
        ("vast", "1x-A100", "A100", None),
        ("lambda", "gpu_1x_rtx6000", "RTX6000", None),
    ],
)
def test_the_form_comes_from_cloud_and_instance_or_there_is_none(
    cloud: str, instance: str, accelerator: str, gpu: str | None
) -> None:
    assert gpu_name(cloud, instance, accelerator, CATALOG) == gpu


@pytest.mark.parametrize(
    ("host", "gpus"),
    [
        ("a2-highgpu-4g", [("A100", 4)]),
        ("a2-ultragpu-1g", [("A100-80GB", 1)]),
        ("a3-megagpu-8g", [("H100-MEGA", 8)]),
        ("a3-edgegpu-8g", []),
        ("g2-standard-24", [("L4", 2)]),
        ("n1-standard-4", []),
        ("n1-standard-32", [("K80", 4), ("P4", 4), ("P100", 4), ("T4", 4), ("V100", 4)]),
        ("n1-highmem-8", []),
    ],
)
def test_what_is_priced_with_a_host(host: str, gpus: list[tuple[str, int]]) -> None:
    assert accelerators_of(host) == gpus


def test_an_on_demand_price_that_is_none_stands_out_between_regions(tmp_path: Path) -> None:
    text = AWS + "p5.48xlarge,H100,8.0,192.0,2048.0,,25.0,,eu-west-1,euw1-az1,x86_64\n"
    _, notes = _read(tmp_path, text, "aws", "us-east-1")
    assert any(note.startswith("on-demand prices of H100 differ more than 2-fold between regions") for note in notes)
    assert not any("2-fold" in note for note in _read(tmp_path, AWS, "aws")[1])
    tpus = GCP + ",,,tpu-v6e-1,1,tpu-v6e-1,us-east1,us-east1-d,700.0,700.0\n"
    assert not any("2-fold" in note for note in _read(tmp_path, tpus, "gcp")[1])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (AWS.replace("0.6,0.25", "-0.6,0.25"), "Price of row 2 of {path} is '-0.6'"),
        (AWS.replace("0.6,0.25", "0.6,cheap"), "SpotPrice of row 2 of {path} is 'cheap'"),
        ("cloud,instance\naws,x\n", "lacks the columns InstanceType, AcceleratorName, AcceleratorCount, Price, Region"),
        (AWS.splitlines()[0] + "\n", "has no price of a GPU of the catalogue"),
        (GCP, "row 8 of {path} has no InstanceType or no Region; read Google Cloud's list"),
    ],
)
def test_bad_lists_are_refused_in_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        _read(tmp_path, text, "aws")
    assert says.format(path=tmp_path / "vms.csv") in str(caught.value)
    assert "\n" not in str(caught.value)


_PRICES = st.sampled_from(["", "0", "0.0", "nan", "-1"]) | st.floats(-1, 100).map(str)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(["T4", "V100", "A6000"]), st.sampled_from("ab"), _PRICES, _PRICES), max_size=5))
def test_no_price_of_zero_or_less_ever_comes_out(tmp_path: Path, rows: list[tuple[str, str, str, str]]) -> None:
    host = "InstanceType,AcceleratorName,AcceleratorCount,Price,SpotPrice,Region,AvailabilityZone\n"
    for zone in "ab":
        host += f"n1-standard-8,,,0.4,0.1,r,{zone}\n"
    for cloud, name in (("aws", "p3.2xlarge"), ("gcp", "")):
        lines = "".join(f"{name},{gpu},1,{usd},{spot},r,{zone}\n" for gpu, zone, usd, spot in rows)
        try:
            found, _ = _read(tmp_path, host + lines, cloud)
        except InputError:
            continue
        for one in found.values():
            prices = [price for price in (one.usd_per_hour, one.spot_usd_per_hour) if price is not None]
            assert prices and all(0 < price < 1e6 for price in prices)
