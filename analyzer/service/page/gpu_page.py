"""What the page of a GPU shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from epochcast.analyzer.jobs.watched import WatchedGpu
from epochcast.analyzer.service.page import states
from epochcast.analyzer.service.page.job_page import ReadEpochs, no_epochs
from epochcast.analyzer.service.page.plots import epoch_plot
from epochcast.analyzer.words import count, number
from epochcast.regressor.profile import RATIOS, Profile

if TYPE_CHECKING:
    from epochcast.analyzer.service.analysis import Snapshot

_MOST_EPOCHS = 500

# Metrics are in base units; the table shows them in those that people compare. (ending of the name, unit, base units in it)
_SHOWN_IN = (
    ("power", "W", 1.0),
    ("power_average", "W", 1.0),
    ("power_limit", "W", 1.0),
    ("_clock", "MHz", 1e6),
    ("memory_total", "GiB", 2.0**30),
    ("memory_bandwidth", "GB/s", 1e9),
    ("temperature", "°C", 1.0),
    ("_used", "GiB", 2.0**30),
    ("_free", "GiB", 2.0**30),
    ("_tx", "MB/s", 1e6),
    ("_rx", "MB/s", 1e6),
)


def gpu_page(gpu: WatchedGpu, snapshot: Snapshot, read_epochs: ReadEpochs, now: float) -> dict[str, Any]:
    """Return what the template shows of ``gpu`` at ``now`` [unix s]."""
    state = states.of_gpu(gpu, now)
    report = snapshot.reports.get(gpu.uuid)
    epochs = read_epochs(gpu.uuid, limit=_MOST_EPOCHS, profiles=False)
    of_job = [epoch for epoch in epochs if gpu.job_since is not None and epoch.start >= gpu.job_since - 1]
    device = None if report is None else report.device
    profile = None if report is None else report.profile
    return {
        "now": now,
        "snapshot": snapshot,
        "gpu": gpu,
        "state": state,
        "unit": gpu.detection.unit or "epoch",
        "job": snapshot.jobs.get(gpu.job or ""),
        "plot": None if gpu.job_since is None else epoch_plot({gpu.uuid: of_job}, since=gpu.job_since),
        "no_epochs": no_epochs(gpu.detection.verdict, state),
        "metrics": [] if profile is None else [_row(name, values) for name, values in profile.metrics.items()],
        "profile_says": "" if profile is None else _profile_says(profile),
        "rented": "" if device is None else ", ".join(filter(None, (device.instance, device.cloud, device.region))),
        "facts": [] if device is None else [_fact(name, value) for name, value in sorted(device.static.items())],
    }


def _profile_says(profile: Profile) -> str:
    over = count(profile.epochs, profile.unit or "epoch") if profile.epochs else "all of its work"
    left_out = [
        *(["the first epoch"] if profile.first_epoch_excluded else []),
        *([count(profile.stalls, "stall")] if profile.stalls else []),
    ]
    without = f", without {' and '.join(left_out)}" if left_out else ""
    return f"Statistics over {over}{without}. Predictions use this profile."


def _row(name: str, values: Any) -> dict[str, str]:
    """A metric of a profile, as text."""
    unit, of = _shown_in(name)
    texts = {key: number(values[key] / of) for key in ("mean", "min", "p50", "max")}
    return {"name": name.replace("_", " "), "unit": unit, **texts}


def _fact(name: str, attribute: Any) -> tuple[str, str]:
    """A static attribute: a value, or a table with one."""
    value = attribute.get("value") if isinstance(attribute, Mapping) else attribute
    unit, of = _shown_in(name)
    shown = number(value / of) if unit and isinstance(value, int | float) else value
    return name.replace("_", " "), f"{shown} {unit}".strip()


def _shown_in(name: str) -> tuple[str, float]:
    """The unit that a metric or an attribute is shown in, and how many base units it has."""
    if name in RATIOS:
        return "%", 0.01
    return next(((unit, of) for ending, unit, of in _SHOWN_IN if name.endswith(ending)), ("", 1.0))
