"""What people type for a GPU, and what becomes of it: SkyPilot's, clouds', drivers' and shops' spellings (decision 0044)."""

from dataclasses import replace

import pytest

from epochcast.regressor import Catalog, InputError, load_catalog

UNDERSTOOD = {
    # SkyPilot (catalogs/v7/common/accelerators.csv)
    "A10G:1": "A10G",
    "A100-80GB": "A100 SXM4 80GB",
    "A100-80GB-SXM": "A100 SXM4 80GB",
    "B200": "B200 SXM",
    "H100-MEGA": "H100 SXM5",
    "H100-NVL": "H100 NVL",
    "H100-SXM": "H100 SXM5",
    "H200": "H200 SXM",
    "H200-SXM": "H200 SXM",
    "P100": "P100 PCIe 16GB",
    "RTX3090": "RTX 3090",
    "RTX6000-Ada": "RTX 6000 Ada",
    "RTXA5000": "RTX A5000",
    "T4:1": "T4",
    "V100-32GB": "V100 SXM2 32GB",
    "V100-16GB-PCIe": "V100 PCIe 16GB",
    "V100-16GB-SXM2": "V100 SXM2 16GB",
    "V100-32GB-SXM2": "V100 SXM2 32GB",
    # Google Cloud: Compute Engine and GKE, and Vertex AI
    "nvidia-tesla-k80": "K80",
    "nvidia-tesla-p100": "P100 PCIe 16GB",
    "nvidia-tesla-v100": "V100 SXM2 16GB",
    "nvidia-tesla-t4": "T4",
    "nvidia-tesla-a100": "A100 SXM4 40GB",
    "nvidia-a100-80gb": "A100 SXM4 80GB",
    "nvidia-l4": "L4",
    "nvidia-h100-80gb": "H100 SXM5",
    "nvidia-h100-mega-80gb": "H100 SXM5",
    "nvidia-h200-141gb": "H200 SXM",
    "nvidia-b200": "B200 SXM",
    "nvidia-rtx-pro-6000": "RTX PRO 6000 Blackwell Server",
    "NVIDIA_TESLA_A100": "A100 SXM4 40GB",
    "NVIDIA_H100_80GB": "H100 SXM5",
    # NVML, dcgm-exporter (modelName), the label nvidia.com/gpu.product, RunPod, Vast, Lambda, AWS's families
    "NVIDIA-A100-80GB-PCIe": "A100 PCIe 80GB",
    "NVIDIA-H100-80GB-HBM3": "H100 SXM5",
    "Tesla-V100-SXM2-32GB": "V100 SXM2 32GB",
    "RTX_4090": "RTX 4090",
    "NVIDIAA10G": "A10G",
    "TeslaP100-PCIE-16GB": "P100 PCIe 16GB",
    "A100 (40 GB SXM4)": "A100 SXM4 40GB",
    "H100 (80 GB SXM5)": "H100 SXM5",
    # people
    "a100 40gb": "A100 SXM4 40GB",
    "L4 24GB": "L4",
    "T4-16GB": "T4",
    "RTX 4090 24 GB": "RTX 4090",
    "1x T4": "T4",
}

REFUSED = {
    "H100": "ambiguous; write 'H100 SXM5', 'H100 PCIe' or 'H100 NVL' (AWS and Google Cloud rent the first)",
    "NVIDIA H100 80GB": "ambiguous; write 'H100 SXM5' or 'H100 PCIe' (AWS and",
    "A100": "ambiguous; write 'A100 SXM4 40GB', 'A100 PCIe 40GB', 'A100 PCIe 80GB' or 'A100 SXM4 80GB' (AWS and",
    "A100_SXM4": "ambiguous; write 'A100 SXM4 40GB' or 'A100 SXM4 80GB'",
    "V100": "ambiguous; write 'V100 SXM2 16GB', ",
    "V100 SXM2": "ambiguous; write 'V100 SXM2 16GB' or 'V100 SXM2 32GB'",
    "Tesla_V100": "ambiguous; write 'V100 SXM2 16GB', ",
    "V100-16GB": "ambiguous; write 'V100 SXM2 16GB' or 'V100 PCIe 16GB' (AWS and",
    "V100:8": "GPU name 'V100' is ambiguous",
    "A10G:8": "write 'A10G', and give the number with predict --target-gpus",
    "A100-80GB:4": "write 'A100-80GB', and give the number",
    "8x A10G": "write 'A10G', and give the number",
    "A10G x4": "write 'A10G', and give the number",
    "L4:0": "write 'L4', and give the number",
    "L4:0.5": "write 'L4', and give the number",
    "p4d.24xlarge": "is an instance; write its GPU, 'A100 SXM4 40GB', or compare instances with epochcast recommend",
    "p6-b200.48xlarge": "is an instance; write its GPU, 'B200 SXM'",
    "Standard_NC24ads_A100_v4": "is an instance; write the name of its GPU",
    "a2-highgpu-1g": "is an instance; write the name of its GPU",
    "gpu_8x_h100_sxm5": "is an instance; write the name of its GPU",
    "NVIDIA A100-SXM4-40GB MIG 1g.5gb": "is a part of a GPU (MIG)",
    "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb": "is a part of a GPU (MIG)",
    "RTX6000": "did you mean 'RTX 6000 Ada' or 'Quadro RTX 6000'?",
    "RTX 3080 12GB": "did you mean 'RTX 3080'",
    "NVIDIA GeForce RTX 4090 Laptop GPU": "did you mean 'RTX 4090'",
    "T4g": "did you mean 'T4'?",
    "A10Q": "unknown GPU 'A10Q'; did you mean 'A10', 'A10G' or ",
    "H10O": "did you mean 'H100 PCIe', 'H100 SXM5' or 'H100 NVL'?",
    "nope": "epochcast gpus lists the names",
    "GTX 970": "epochcast gpus lists the names",
    "H100-NVLINK": "did you mean 'H100 NVL'",
    "Radeon Pro V520": "unknown GPU",
    "tpu-v6e-1": "unknown GPU",
    "": "epochcast gpus lists the names (your own GPU: --gpus FILE, a TOML file with a table [[gpu]] with name, ",
}


def test_spellings_are_understood(catalog: Catalog) -> None:
    assert {name: catalog.resolve(name).name for name in UNDERSTOOD} == UNDERSTOOD


def test_spellings_are_refused_in_one_sentence_that_says_what_to_write(catalog: Catalog) -> None:
    for name, sentence in REFUSED.items():
        with pytest.raises(InputError) as refusal:
            catalog.resolve(name)
        assert sentence in str(refusal.value), name
        assert "\n" not in str(refusal.value), name


def test_a_name_without_the_gpus_that_it_stands_for_is_unknown() -> None:
    few = Catalog([load_catalog()["T4"]])
    with pytest.raises(InputError, match="unknown GPU 'nvidia-tesla-v100'"):
        few.resolve("nvidia-tesla-v100")


def test_a_name_of_ones_own_may_look_like_a_count(catalog: Catalog) -> None:
    mine = replace(catalog["T4"], name="Lab:2", nvml_name=None, aliases=())
    assert Catalog([mine]).resolve("Lab:2") is mine
