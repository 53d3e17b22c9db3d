"""SkyPilot's public price list, its names for clouds and GPUs, and placements as a ``resources:`` block that it launches.

SkyPilot often leaves the form factor out ("A100" is both the PCIe and the SXM4 board), which the cloud or the instance
decides. Where neither does, `Catalog.resolve` reads the name as everywhere, or there is no answer (decision 0044).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import yaml

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.jobs.prices import Instance, checked_instance, counted
from epochcast.regressor import Catalog, Gpu
from epochcast.regressor.errors import InputError as UnknownGpu

if TYPE_CHECKING:
    from epochcast.analyzer.jobs.rank import Placement

# SkyPilot's clouds that rent by the instance; Kubernetes, SSH and Slurm have neither instance types nor prices.
CLOUDS = (
    "aws, azure, cudo, do, fluidstack, gcp, hyperbolic, ibm, lambda, mithril, nebius, oci, paperspace, primeintellect, runpod, "
    "scp, seeweb, shadeform, vast, verda, vsphere, yotta"
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

_REQUIRED = ["InstanceType", "AcceleratorName", "AcceleratorCount", "Price", "Region"]
_NUMBERS = ["Price", "SpotPrice", "vCPUs", "MemoryGiB"]
_ATTRIBUTES = {
    "InstanceType": "name",
    "AcceleratorCount": "count",
    "Region": "region",
    "Price": "usd_per_hour",
    "SpotPrice": "spot_usd_per_hour",
    "vCPUs": "vcpus",
    "MemoryGiB": "memory",
}
# An A10 of Azure is also rented out by the sixth, third and half, with the vCPUs in proportion; some states of the catalog
# count these fractions as whole GPUs.
_AZURE_VCPUS_PER_A10 = 36
_WIDEST_SPREAD = 2


def resources_yaml(placements: Sequence[Placement], job: str, catalog: Catalog) -> str:
    """Return the block, with what is to run in a comment on top.

    Of several placements the first is launched that can be had, in their order (``resources.ordered``): hand in only
    those that are worth falling back on. Of these, what SkyPilot does not know is left out, which a comment says; so is what
    takes another number of instances (``num_nodes``) than the first.

    Raises:
        InputError: SkyPilot has no such cloud or GPU as the first one's.
    """
    best, *others = placements
    candidates, comments = [_candidate(best, catalog)], [job]
    for row in others:
        try:
            if row.instances != best.instances:
                raise InputError(f"{row.title} takes another number of nodes than {best.instances}")
            candidates.append(_candidate(row, catalog))
        except InputError as error:
            comments.append(f"left out: {error}")
    if best.market == "spot":
        comments.append("spot: `sky jobs launch` restarts preempted jobs; `sky launch` does not")
    resources = candidates[0] if len(candidates) == 1 else {"ordered": candidates}
    task = {"resources": resources} if best.instances == 1 else {"num_nodes": best.instances, "resources": resources}
    # No line break or control character of a price file ends a comment.
    lines = ("".join(letter if letter.isprintable() else " " for letter in comment) for comment in comments)
    return "".join(f"# {line}\n" for line in lines) + yaml.safe_dump(task, sort_keys=False, allow_unicode=True)


def _candidate(row: Placement, catalog: Catalog) -> dict[str, Any]:
    instance = row.instance
    cloud = instance.cloud.lower()
    if cloud not in CLOUDS.split(", "):
        raise InputError(f"SkyPilot has no cloud {instance.cloud!r} (of {instance.name}); it has {CLOUDS}; choose by --cloud")
    accelerator = accelerator_name(cloud, instance.name, catalog[instance.gpu])
    if accelerator is None:
        raise InputError(f"SkyPilot has no name for the GPU {instance.gpu!r} (of {instance.name}); start this instance by hand")
    return {
        "infra": cloud if instance.region == "any" else f"{cloud}/{instance.region}",
        "instance_type": instance.name,
        # Google's N1 hosts have no GPU unless it is requested; elsewhere SkyPilot compares this with the instance.
        "accelerators": {accelerator: instance.count},
        "use_spot": row.market == "spot",
    }


def read_skypilot_catalog(
    table: pd.DataFrame, name: str, cloud: str, catalog: Catalog, *, source: str, day: date
) -> tuple[list[Instance], list[str]]:
    """Instances of a ``vms.csv``, and a sentence for each kind of row skipped.

    ``name`` is what sentences call the list, ``cloud`` SkyPilot's name of it (aws, azure, gcp, lambda, ...); ``source`` and
    ``day`` say where and when the file was got, as it says neither. A region's price is the (lower) median of its zones': on
    demand they agree, and the cheapest spot price is often that of a place without capacity, as of AWS's local zones. A price
    of 0, which people fill in where the cloud publishes none (its pull request 50), is read as unknown.

    Raises InputError if the file is no such list, or holds no GPU of the catalogue.
    """
    if missing := [column for column in _REQUIRED if column not in table.columns]:
        raise InputError(
            f"{name} lacks the columns {', '.join(missing)}; it must be a vms.csv of the SkyPilot catalog "
            "(github.com/skypilot-org/skypilot-catalog)"
        )
    rows = table.reindex(columns=[*_REQUIRED, *_NUMBERS[1:], "AvailabilityZone"], fill_value="")
    rows = rows.assign(row=rows.index + 1, AcceleratorCount=pd.to_numeric(rows["AcceleratorCount"], errors="coerce"))
    for column in _NUMBERS:
        rows[column] = _numbers(rows[column], name)
    rows["doubtful"] = rows["SpotPrice"] > rows["Price"]  # of GPUs apart: in a sum the price of the host would hide it
    known = {each: gpu_name(cloud, *each, catalog) for each in zip(rows["InstanceType"], rows["AcceleratorName"], strict=True)}
    rows["gpu"] = [known[each] for each in zip(rows["InstanceType"], rows["AcceleratorName"], strict=True)]
    warnings = _spread_note(rows, name)
    rows = _with_hosts(rows) if cloud == "gcp" else rows[rows["AcceleratorName"] != ""]
    if len(nameless := rows[(rows["InstanceType"] == "") | (rows["Region"] == "")]):
        raise InputError(
            f"row {nameless['row'].iloc[0]} of {name} has no InstanceType or no Region; read Google Cloud's list, whose GPU "
            "rows have none, with --cloud gcp"
        )
    count = rows["AcceleratorCount"]
    part = (cloud == "azure") & (rows["gpu"] == "A10") & (rows["vCPUs"] < count * _AZURE_VCPUS_PER_A10)
    reasons = {
        "for accelerators that the GPU catalogue does not know or cannot tell apart": rows["gpu"].isna(),
        "with spot above on demand, so that one of the two must be wrong": rows["doubtful"]
        | (rows["SpotPrice"] > rows["Price"]),
        "for GPUs without a host in their zone": rows["InstanceType"].isna(),
        "for fractions of a GPU": part | ~(count.between(1, 1e5, inclusive="left") & (count % 1 == 0)),
        "without a price": rows["Price"].isna() & rows["SpotPrice"].isna(),
    }
    rows["why"] = np.select(list(reasons.values()), list(reasons), "")
    skipped = rows[rows["why"] != ""].drop_duplicates("row").groupby("why", sort=False)["AcceleratorName"]
    notes = [f"rows of {name} skipped {why}: {counted(Counter(names))}" for why, names in skipped]
    offers = rows[rows["why"] == ""].groupby(["gpu", "AcceleratorCount", "InstanceType", "Region"])
    if not len(offers):
        raise InputError(f"{name} has no price of a GPU of the catalogue{''.join(f'; {note}' for note in notes)}")
    prices = offers[["Price", "SpotPrice"]].quantile(0.5, interpolation="lower")
    regional = prices.join(offers[["vCPUs", "MemoryGiB"]].first()).reset_index().rename(columns=_ATTRIBUTES)
    regional["memory"] *= 2**30
    regional = regional.astype(object)
    of_list = {"cloud": cloud, "source": source, "date": day}
    instances = [
        checked_instance(of_list | own, f"{own['name']} of {name}")
        for own in regional.where(regional.notna(), None).to_dict("records")
    ]
    return instances, [*notes, *warnings]


def _numbers(texts: pd.Series[str], name: str) -> pd.Series[float]:
    """NaN for empty cells and for 0; raises InputError for what is no number of 0 or more."""
    values = pd.to_numeric(texts.replace("", "0"), errors="coerce")
    for number in np.flatnonzero(~((values >= 0) & np.isfinite(values))):
        raise InputError(
            f"{texts.name} of row {number + 1} of {name} is {texts.iloc[number]!r}; write a plain number above 0, or leave it "
            "empty"
        )
    return values.where(values > 0)


def _spread_note(rows: pd.DataFrame, name: str) -> list[str]:
    """A sentence about GPUs whose on-demand price cannot be one everywhere; regions differ by a third, seldom by half."""
    usd = rows[rows["gpu"].notna()].groupby(["InstanceType", "AcceleratorName", "AcceleratorCount"])["Price"]
    spread = usd.max() > _WIDEST_SPREAD * usd.min()
    wide = sorted(set(spread[spread].index.get_level_values("AcceleratorName")))
    if not wide:
        return []
    return [
        f"on-demand prices of {', '.join(wide)} differ more than {_WIDEST_SPREAD}-fold between regions of {name}, so some may "
        "be of another kind, such as reserved; check the prices you rely on against the cloud's own page"
    ]


def _with_hosts(rows: pd.DataFrame) -> pd.DataFrame:
    """Google Cloud's GPUs, each with the hosts of its zone at the sum of both prices; without any, its InstanceType is NaN."""
    has_gpu, has_host = rows["AcceleratorName"] != "", rows["InstanceType"] != ""
    hosts = rows.loc[~has_gpu, ["InstanceType", *_NUMBERS, "Region", "AvailabilityZone"]]
    hosts = hosts.assign(gpus=hosts["InstanceType"].map(accelerators_of)).explode("gpus").dropna(subset="gpus")
    hosts["AcceleratorName"], hosts["AcceleratorCount"] = hosts["gpus"].str[0], hosts.pop("gpus").str[1].astype(float)
    # The region too: a list without zones would else price every host with the GPU of its last region.
    place = ["AcceleratorName", "AcceleratorCount", "Region", "AvailabilityZone"]
    gpus = rows[has_gpu & ~has_host].drop(columns=["InstanceType", "vCPUs", "MemoryGiB"])
    paired = hosts.merge(gpus, how="right", on=place, suffixes=("", "_of_gpu"))
    for column in ("Price", "SpotPrice"):  # the list has five decimals; a sum of two has no more
        paired[column] = (paired[column] + paired[f"{column}_of_gpu"]).round(5)
    return pd.concat([rows[has_gpu & has_host], paired])


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
