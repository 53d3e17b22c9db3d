"""Recommendations as a ``resources:`` block that SkyPilot launches as it is (the SkyPilot YAML specification, "resources")."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from ...regressor.estimate import Estimate
from ..errors import InputError
from ..instances import Instance
from .recommendation import Recommendation

# SkyPilot's clouds that rent by the instance; Kubernetes, SSH and Slurm have neither instance types nor prices.
_CLOUDS = (
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

# Catalogue name: SkyPilot's `AcceleratorName`, which tells memory apart but, as a rule, not SXM from PCIe.
_ACCELERATORS = {
    "K80": "K80",
    "M60": "M60",
    "P4": "P4",
    "P40": "P40",
    "P100 PCIe 16GB": "P100",
    "P100 SXM2 16GB": "P100",
    "V100 PCIe 16GB": "V100",
    "V100 PCIe 32GB": "V100-32GB",
    "V100 SXM2 16GB": "V100",
    "V100 SXM2 32GB": "V100-32GB",
    "T4": "T4",
    "A10": "A10",
    "A10G": "A10G",
    "A30": "A30",
    "A100 PCIe 40GB": "A100",
    "A100 SXM4 40GB": "A100",
    "A100 PCIe 80GB": "A100-80GB",
    "A100 SXM4 80GB": "A100-80GB",
    "L4": "L4",
    "L40": "L40",
    "L40S": "L40S",
    "RTX 6000 Ada": "RTX6000-Ada",
    "H100 PCIe": "H100",
    "H100 SXM5": "H100",
    "H200 SXM": "H200",
    "B200 SXM": "B200",
    "RTX 3090": "RTX3090",
    "RTX 4090": "RTX4090",
}

# Where a cloud's GPU, or one instance of it, has another name than elsewhere.
_EXCEPTIONS = {
    ("gcp", "a3-megagpu-8g"): "H100-MEGA",
    ("runpod", "A100 SXM4 80GB"): "A100-80GB-SXM",
    ("runpod", "H100 SXM5"): "H100-SXM",
    ("runpod", "H200 SXM"): "H200-SXM",
    ("runpod", "V100 PCIe 16GB"): "V100-16GB-PCIe",
    ("runpod", "V100 SXM2 16GB"): "V100-16GB-SXM2",
    ("runpod", "V100 SXM2 32GB"): "V100-32GB-SXM2",
}


def resources_yaml(recommendations: Sequence[Recommendation], job: str) -> str:
    """Return the block, with what is expected of each instance in comments on top.

    Of several recommendations the first is launched that can be had, in their order (``resources.ordered``): hand in only
    those that are worth falling back on. Of these, what SkyPilot does not know is left out, which a comment says. ``job`` says
    in the first comment what is to run.

    Raises:
        InputError: SkyPilot has no such cloud or GPU as the first one's, or there is no recommendation.
    """
    if not recommendations:
        raise InputError("no instance keeps the limits, so there is nothing that SkyPilot could launch; loosen them")
    candidates = [_candidate(recommendations[0])]
    comments = [f"{job}; expected, with 90 % intervals:", _expected(recommendations[0])]
    for row in recommendations[1:]:
        try:
            candidates.append(_candidate(row))
        except InputError as error:
            comments.append(f"left out: {error}")
        else:
            comments.append(_expected(row))
    if any(row.market == "spot" for row in recommendations):
        comments.append("spot: `sky jobs launch` starts anew what was preempted, `sky launch` does not")
    resources = candidates[0] if len(candidates) == 1 else {"ordered": candidates}
    block = yaml.safe_dump({"resources": resources}, sort_keys=False, allow_unicode=True)
    return "".join(f"# {_one_line(comment)}\n" for comment in comments) + block


def _candidate(row: Recommendation) -> dict[str, Any]:
    instance = row.instance
    cloud = instance.cloud.lower()
    if cloud not in _CLOUDS:
        known = ", ".join(_CLOUDS)
        raise InputError(f"SkyPilot has no cloud {instance.cloud!r} (of {instance.name}); it has {known}; choose by --cloud")
    return {
        "infra": cloud if instance.region == "any" else f"{cloud}/{instance.region}",
        "instance_type": instance.name,
        # Google's N1 hosts have no GPU until one is asked for; elsewhere SkyPilot compares this with the instance.
        "accelerators": {_accelerator(cloud, instance): instance.count},
        "use_spot": row.market == "spot",
    }


def _accelerator(cloud: str, instance: Instance) -> str:
    for key in ((cloud, instance.name), (cloud, instance.gpu)):
        if key in _EXCEPTIONS:
            return _EXCEPTIONS[key]
    if instance.gpu not in _ACCELERATORS:
        raise InputError(f"SkyPilot has no name for the GPU {instance.gpu!r} (of {instance.name}); start this one by hand")
    return _ACCELERATORS[instance.gpu]


def _expected(row: Recommendation) -> str:
    instance = row.instance
    if row.seconds is None or row.usd is None:
        cost = f"{_figure(row.ratio)} times the time on the source GPU"
    else:
        cost = f"{_interval(row.seconds, 's')}, {_interval(row.usd, 'USD')}"
    price = f"{row.market} {row.usd_per_hour:g} USD/h by {instance.source} of {instance.date.isoformat()}"
    doubt = "; whether the job fits into its memory is not known" if row.fits is None else ""
    return f"{instance.cloud} {instance.name} ({instance.count} x {instance.gpu}): {cost}; {price}{doubt}"


def _interval(estimate: Estimate, unit: str) -> str:
    return f"{_figure(estimate.value)} {unit} ({_figure(estimate.low)} to {_figure(estimate.high)})"


def _figure(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _one_line(text: str) -> str:
    """No line break or control character of a price file ends the comment."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
