"""Placements as a ``resources:`` block that SkyPilot launches as it is (the SkyPilot YAML specification, "resources")."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.jobs.placement import Placement
from epochcast.analyzer.jobs.prices.skypilot_names import CLOUDS, accelerator_name
from epochcast.analyzer.words import money, number, time_unit
from epochcast.regressor import Catalog


def resources_yaml(placements: Sequence[Placement], job: str, catalog: Catalog) -> str:
    """Return the block, with what is expected of each instance in comments on top.

    Of several placements the first is launched that can be had, in their order (``resources.ordered``): hand in only
    those that are worth falling back on. Of these, what SkyPilot does not know is left out, which a comment says; so is what
    takes another number of instances (``num_nodes``) than the first. ``job`` says in the first comment what is to run.

    Raises:
        InputError: SkyPilot has no such cloud or GPU as the first one's, or there is no placement.
    """
    if not placements:
        raise InputError("no instance meets the limits, so there is nothing for SkyPilot to launch; loosen them")
    candidates = [_candidate(placements[0], catalog)]
    comments = [f"{job}; expected, with 90 % intervals:", _expected(placements[0])]
    nodes = placements[0].instances
    for row in placements[1:]:
        if row.instances != nodes:
            comments.append(f"left out: {row.instance.cloud} {row.instance.name} takes {row.instances} nodes, not {nodes}")
            continue
        try:
            candidates.append(_candidate(row, catalog))
        except InputError as error:
            comments.append(f"left out: {error}")
        else:
            comments.append(_expected(row))
    if any(row.market == "spot" for row in placements):
        comments.append("spot: `sky jobs launch` restarts preempted jobs; `sky launch` does not")
    resources = candidates[0] if len(candidates) == 1 else {"ordered": candidates}
    task = {"resources": resources} if nodes == 1 else {"num_nodes": nodes, "resources": resources}
    block = yaml.safe_dump(task, sort_keys=False, allow_unicode=True)
    return "".join(f"# {_one_line(comment)}\n" for comment in comments) + block


def _candidate(row: Placement, catalog: Catalog) -> dict[str, Any]:
    instance = row.instance
    cloud = instance.cloud.lower()
    if cloud not in CLOUDS:
        known = ", ".join(CLOUDS)
        raise InputError(f"SkyPilot has no cloud {instance.cloud!r} (of {instance.name}); it has {known}; choose by --cloud")
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


def _expected(row: Placement) -> str:
    instance = row.instance
    if row.seconds is None or row.usd is None:
        cost = f"{number(row.prediction.ratio)} times the time on the source GPU"
    else:
        seconds, usd = row.seconds, row.usd
        unit = time_unit([seconds.value])
        cost = (
            f"{unit.of(seconds.value)} {unit.name} ({unit.of(seconds.low)} to {unit.of(seconds.high)}), "
            f"{money(usd.value)} ({money(usd.low)} to {money(usd.high)})"
        )
    price = f"{row.market} ${row.usd_per_hour:g}/h by {instance.source} of {instance.date.isoformat()}"
    doubt = "; unknown whether the job fits into its memory" if row.fits is None else ""
    name = f"{f'{row.instances} x ' * (row.instances > 1)}{instance.name}"
    return f"{instance.cloud} {name} ({instance.count} x {instance.gpu}): {cost}; {price}{doubt}"


def _one_line(text: str) -> str:
    """No line break or control character of a price file ends the comment."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
