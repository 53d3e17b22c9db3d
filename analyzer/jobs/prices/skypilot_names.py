"""SkyPilot's names: its clouds, and its accelerators from and to GPUs of the catalogue, and which accelerators a host has.

SkyPilot often leaves the form factor out ("A100" is both the PCIe and the SXM4 board), which the cloud or the instance
decides. Where neither does, `Catalog.resolve` reads the name as everywhere, or there is no answer (decision 0044).
"""

from __future__ import annotations

import re

from epochcast.regressor import Catalog, Gpu
from epochcast.regressor.errors import InputError as UnknownGpu

# SkyPilot's clouds that rent by the instance; Kubernetes, SSH and Slurm have neither instance types nor prices.
CLOUDS = (
    "aws",
    "azure",
    "cudo",
    "do",
    "fluidstack",
    "gcp",
    "hyperbolic",
    "ibm",
    "lambda",
    "mithril",
    "nebius",
    "oci",
    "paperspace",
    "primeintellect",
    "runpod",
    "scp",
    "seeweb",
    "shadeform",
    "vast",
    "verda",
    "vsphere",
    "yotta",
)

# (cloud, beginning of the instance's name, accelerator) -> GPU; the first that fits. Instance families from the clouds' own
# pages, forms as nvidia-smi reports them there. GCP's rows of GPUs have no instance.
_BY_INSTANCE = (
    ("aws", "p3", "V100", "V100 SXM2 16GB"),
    ("aws", "p3dn", "V100-32GB", "V100 SXM2 32GB"),
    ("aws", "p4d", "A100", "A100 SXM4 40GB"),
    ("aws", "p4de", "A100-80GB", "A100 SXM4 80GB"),
    ("aws", "p5", "H100", "H100 SXM5"),
    ("aws", "p5", "H200", "H200 SXM"),
    ("azure", "Standard_NC", "V100", "V100 PCIe 16GB"),
    ("azure", "Standard_ND40rs_v2", "V100-32GB", "V100 SXM2 32GB"),
    ("azure", "Standard_ND", "A100", "A100 SXM4 40GB"),
    ("azure", "Standard_ND", "A100-80GB", "A100 SXM4 80GB"),
    ("azure", "Standard_NC", "A100-80GB", "A100 PCIe 80GB"),
    ("azure", "Standard_ND", "H100", "H100 SXM5"),
    ("azure", "Standard_NC", "H100", "H100 NVL"),
    ("azure", "Standard_ND", "H200", "H200 SXM"),
    ("gcp", "", "V100", "V100 SXM2 16GB"),
    ("gcp", "", "A100", "A100 SXM4 40GB"),
    ("gcp", "", "A100-80GB", "A100 SXM4 80GB"),
    ("gcp", "", "H100", "H100 SXM5"),
    ("gcp", "", "H200", "H200 SXM"),
    ("lambda", "gpu_8x_v100", "V100", "V100 SXM2 16GB"),
    ("lambda", "gpu_8x_a100", "A100", "A100 SXM4 40GB"),
    # RunPod has the other form under a name of its own.
    ("runpod", "", "A100-80GB", "A100 PCIe 80GB"),
    ("runpod", "", "H100", "H100 PCIe"),
)

# Lambda (and others after it) end an instance's name in the form of its GPUs: gpu_1x_h100_pcie.
_FORM = re.compile(r"_(pcie|sxm)\d?$")
_BY_FORM = {
    ("A100", "sxm"): "A100 SXM4 40GB",
    ("A100", "pcie"): "A100 PCIe 40GB",
    ("A100-80GB", "sxm"): "A100 SXM4 80GB",
    ("A100-80GB", "pcie"): "A100 PCIe 80GB",
    ("H100", "sxm"): "H100 SXM5",
    ("H100", "pcie"): "H100 PCIe",
}

# Where a cloud's GPU, or one instance of it, has another name than elsewhere.
_ACCELERATORS_OF_CLOUD = {
    ("azure", "H100 NVL"): "H100",
    ("gcp", "a3-megagpu-8g"): "H100-MEGA",
    ("runpod", "A100 SXM4 80GB"): "A100-80GB-SXM",
    ("runpod", "H100 SXM5"): "H100-SXM",
    ("runpod", "H200 SXM"): "H200-SXM",
    ("runpod", "V100 PCIe 16GB"): "V100-16GB-PCIe",
    ("runpod", "V100 SXM2 16GB"): "V100-16GB-SXM2",
    ("runpod", "V100 SXM2 32GB"): "V100-32GB-SXM2",
}

# Instances of Google Cloud from SkyPilot's two kinds of rows: hosts without their GPUs, and GPUs without a host. Paired, in
# the same zone, are those in this table and ``g2-standard-V`` with as many L4 as its V virtual CPUs come with. K80, P4, P100,
# T4 and V100 can be attached to N1 machines of many sizes; here to ``n1-standard`` with 8 virtual CPUs per GPU, which every
# limit allows (docs.cloud.google.com/compute/docs/gpus). Not paired: A3 Edge, whose GPUs have another price, and G4.
_FIXED = {
    "a2-highgpu": "A100",
    "a2-megagpu": "A100",
    "a2-ultragpu": "A100-80GB",
    "a3-highgpu": "H100",
    "a3-megagpu": "H100-MEGA",
    "a3-ultragpu": "H200",
    "a4-highgpu": "B200",
}
_FIXED_NAME = re.compile(r"(a\d-[a-z]+)-(\d+)g")
_L4_BY_VCPUS = {4: 1, 8: 1, 12: 1, 16: 1, 24: 2, 32: 1, 48: 4, 96: 8}
_G2_NAME = re.compile(r"g2-standard-(\d+)")
_ATTACHED = ("K80", "P4", "P100", "T4", "V100")
_VCPUS_PER_ATTACHED = 8
_N1_NAME = re.compile(r"n1-standard-(\d+)")


def gpu_name(cloud: str, instance: str, accelerator: str, catalog: Catalog) -> str | None:
    """The catalogue's name of an accelerator of SkyPilot's; None where the catalogue has none, or where it could be several."""
    form = _FORM.search(instance)
    name = _BY_FORM.get((accelerator, form[1])) if form else None
    if name is None:
        fits = (row for row in _BY_INSTANCE if (row[0], row[2]) == (cloud, accelerator) and instance.startswith(row[1]))
        name = next((gpu for *_, gpu in fits), None)
    try:
        return catalog.resolve(name or accelerator).name
    except UnknownGpu:
        return None


def accelerator_name(cloud: str, instance: str, gpu: Gpu) -> str | None:
    """SkyPilot's name of a GPU on that instance; None where SkyPilot has none."""
    of_cloud = _ACCELERATORS_OF_CLOUD.get((cloud, instance)) or _ACCELERATORS_OF_CLOUD.get((cloud, gpu.name))
    return of_cloud or gpu.skypilot_name


def accelerators_of(host: str) -> list[tuple[str, int]]:
    """What is priced with a host of this name: (SkyPilot's accelerator name, how many); several for N1, none for most."""
    if (fixed := _FIXED_NAME.fullmatch(host)) and fixed[1] in _FIXED:
        return [(_FIXED[fixed[1]], int(fixed[2]))]
    if (g2 := _G2_NAME.fullmatch(host)) and int(g2[1]) in _L4_BY_VCPUS:
        return [("L4", _L4_BY_VCPUS[int(g2[1])])]
    if n1 := _N1_NAME.fullmatch(host):
        gpus, rest = divmod(int(n1[1]), _VCPUS_PER_ATTACHED)
        return [(name, gpus) for name in _ATTACHED] if gpus and not rest else []
    return []
