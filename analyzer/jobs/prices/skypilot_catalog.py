"""Instances from the SkyPilot catalog, the best-kept public price list: one ``vms.csv`` per cloud.

github.com/skypilot-org/skypilot-catalog, ``catalogs/vN/CLOUD/vms.csv``. Its columns are InstanceType, AcceleratorName,
AcceleratorCount, vCPUs, MemoryGiB, Price, SpotPrice, Region and AvailabilityZone; both prices are USD per hour of the whole
instance, except on Google Cloud (see `skypilot_names`). One row is one zone.
"""

from __future__ import annotations

from collections import Counter
from datetime import date

import numpy as np
import pandas as pd

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.jobs.prices.instance import Instance
from epochcast.analyzer.jobs.prices.price_table import checked_instance, counted
from epochcast.analyzer.jobs.prices.skypilot_names import accelerators_of, gpu_name
from epochcast.regressor import Catalog

_REQUIRED = ["InstanceType", "AcceleratorName", "AcceleratorCount", "Price", "Region"]
_NUMBERS = ["Price", "SpotPrice", "vCPUs", "MemoryGiB"]
# An A10 of Azure is also rented out by the sixth, third and half, with the vCPUs in proportion; some states of the catalog
# count these fractions as whole GPUs.
_AZURE_VCPUS_PER_A10 = 36
_WIDEST_SPREAD = 2


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
    regional = prices.join(offers[["vCPUs", "MemoryGiB"]].first()).reset_index().astype(object)
    instances = []
    for cells in regional.where(regional.notna(), None).to_dict("records"):
        own = {
            "cloud": cloud,
            "name": cells["InstanceType"],
            "gpu": cells["gpu"],
            "count": int(cells["AcceleratorCount"]),
            "region": cells["Region"],
            "usd_per_hour": cells["Price"],
            "spot_usd_per_hour": cells["SpotPrice"],
            "vcpus": cells["vCPUs"],
            "memory": None if cells["MemoryGiB"] is None else cells["MemoryGiB"] * 2**30,
            "source": source,
            "date": day,
        }
        instances.append(checked_instance(own, f"{own['name']} of {name}"))
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
