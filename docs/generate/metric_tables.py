"""The reference of metrics: the agent's catalogue, what it exports of itself, and the analyzer's table."""

import time
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from markdown import code, head, table
from prometheus_client import Metric

from epochcast.agent import catalog, exposition, processes
from epochcast.agent.config import Config
from epochcast.agent.push.pusher import PushCollector
from epochcast.analyzer.live import metrics as metric_catalog

# A node without devices and a pusher that has sent nothing: their families are there all the same, without values.
_CLOCK = SimpleNamespace(monotonic=time.monotonic)
_NODE: Any = SimpleNamespace(
    samplers=(), sources={}, stores=(), choices=(), expected=0, present=0, driver_failure=("", ""), clock=_CLOCK
)
_WATCHER: Any = SimpleNamespace(processes=tuple, errors=0, look_seconds=0.0)
_BACKLOG = SimpleNamespace(dropped=0, samples=0, capacity=0)
_SENDER = SimpleNamespace(sent=0, rejected=0, requests={}, retries=0, last_success=None)
_PUSHER: Any = SimpleNamespace(backlog=_BACKLOG, sender=_SENDER, late_samples=0, lost_rows=0)

_OF_A_RATIO = """A gauge can have four families: `last`, its newest value; `avg`, `min` and `max` over aligned windows (five
seconds unless set), which end in `_avg`, `_min`, `_max`. A ratio can have `seconds` as well (`_seconds_total`), its integral
over time: `rate()` of it is the exact mean for any number of scrapers at any interval. The table has those that are shown by
default; the setting `families` shows others. What has no value now has no line. All carry the labels `gpu`, `uuid`, `name`."""


def page() -> str:
    """docs/reference/metrics.md."""
    introduction = (
        "Base units everywhere: seconds, ratios from 0 to 1, bytes, watts, hertz, joules, °C. The sources that read\n"
        "them are in [the agent](../agent.md#sources)."
    )
    agent = (
        exposition.DeviceCollector(_NODE, Config()),
        exposition.AgentCollector(_NODE),
        processes.ProcessCollector(_WATCHER),
        PushCollector(_PUSHER),
    )
    parts = [
        head(
            "Metrics", "For SREs: everything on /metrics of the agent, of a node's analyzer and of the service.", introduction
        ),
        "## Of a GPU, by the agent",
        _OF_A_RATIO,
        _catalog(),
        "## Of the agent itself",
        "Those of processes are there with `processes` in the configuration, those of remote write with `push.url`.",
        _families(family for collector in agent for family in collector.collect()),
        "## Of epochs, jobs and predictions, by the analyzer",
        metric_catalog.markdown(),
    ]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _catalog() -> str:
    header = ["column", "paper", "unit", "tier", "DCGM", "GPM", "on `/metrics`", "shown", "what it is"]
    rows = []
    for metric in catalog.catalog().values():
        numbers = ["" if number is None else str(number) for number in (metric.dcgm, metric.gpm)]
        page = code(metric.prometheus + "_total" * (metric.kind == "counter"))
        row = [code(metric.name), metric.paper or "", metric.unit, metric.tier, *numbers, page]
        rows.append([*row, ", ".join(metric.shown), metric.help])
    return table(header, rows)


def _families(families: Iterable[Metric]) -> str:
    suffixes = {"counter": "_total", "info": "_info"}
    rows = []
    for family in families:
        suffix = suffixes.get(family.type, "")
        name = family.name if family.name.endswith(suffix) else family.name + suffix
        rows.append([code(name), family.type, ", ".join(getattr(family, "_labelnames", ())), family.documentation])
    return table(["metric", "kind", "labels", "what it is"], rows)
