"""From a trace to a profile: detect the epochs, then summarise each metric over them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from ..detector import Detection, detect
from ..regressor import Catalog, Profile
from .errors import InputError
from .trace import Trace, read_trace


def read_profile(path: str, catalog: Catalog, gpu: str | None = None) -> Profile:
    """The profile in a JSON file, or the one made of a trace (Parquet, CSV, ``-``) on the GPU named in it or by ``gpu``.

    Raises InputError for a file that is neither, and for a trace of no known GPU.
    """
    if not path.endswith(".json"):
        return profile_of(read_trace(path), catalog, gpu)[0]
    if gpu is not None:
        raise InputError(f"{path!r} is a profile and says its GPU itself; leave --gpu out")
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"no such profile file: {path!r}") from None
    except (OSError, ValueError, RecursionError) as error:  # ValueError: not UTF-8, not JSON, or too long an integer
        raise InputError(f"{path!r} is not a readable profile: {error}") from error
    return Profile.from_json(content)


def profile_of(trace: Trace, catalog: Catalog, gpu: str | None = None) -> tuple[Profile, Detection]:
    """Detect the epochs of ``trace`` and summarise its metrics over them (paper section III-C, "Defining Input Features").

    With neither epochs nor steps the profile spans the whole trace and has no seconds: it still gives ratios between GPUs.
    """
    name = trace.gpu if gpu is None else gpu
    if name is None:
        raise InputError("the trace does not say which GPU it was recorded on; name it with --gpu")
    if trace.source == "host" and gpu is None:
        raise InputError(f"the trace is of a CPU ({name}), and predictions start from a GPU's telemetry; record on a GPU")
    device = catalog.resolve(name)
    found = detect(trace.time, trace.metrics())
    spans = [(epoch.start, epoch.end) for epoch in found.epochs]
    profile = Profile.from_samples(device.name, trace.time, trace.metrics(), spans, simulated=trace.simulated)
    if found.verdict == "steps":  # steps have a length but no boundaries: the statistics span the whole trace
        profile = replace(profile, epoch_s=found.step_s, unit="step")
    return profile, found
