"""Placements as a ``resources:`` block that SkyPilot launches as it is (the SkyPilot YAML specification, "resources")."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.jobs.placement import Placement
from epochcast.analyzer.jobs.prices.skypilot_names import CLOUDS, accelerator_name
from epochcast.regressor import Catalog


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
