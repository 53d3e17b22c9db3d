"""``/metrics`` as text: the families of a registry, put into lines once per newest sample, for any number of requests."""

import gzip
import math
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder

from epochcast.agent.node import Node
from epochcast.agent.ticks_first import ticks_first

# Without news a page is repeated this long (seconds): a device that falls silent must leave it.
LONGEST_LIFE_S = 0.5
# Level 1 makes a page a seventh as large; level 9 takes ten times as long to make it a sixth smaller still.
GZIP_LEVEL = 1
SPECIAL = {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}
TEXT_TYPES = {"info": "gauge", "unknown": "untyped", "stateset": "gauge"}


class MetricsPage:
    """The newest page in each requested form. Nothing is kept per scraper."""

    def __init__(self, node: Node, registry: CollectorRegistry) -> None:
        self._node = node
        self._registry = registry
        self._pages: dict[tuple[bool, bool], bytes] = {}
        self._of: object = None
        self._since = -math.inf
        self._lock = threading.Lock()

    def content_type(self, accept: str) -> str:
        """Return the form that a client with this Accept header gets: OpenMetrics or Prometheus' own text."""
        # The encoder that comes with it takes two to three times as long as `lines`.
        _, kind = choose_encoder(accept)
        return kind

    def render(self, content_type: str, zipped: bool, names: Collection[str] = ()) -> bytes:
        """Return the page; ``names`` (of samples, as in ``?name[]=``) leaves out all others."""
        openmetrics = content_type.startswith("application/openmetrics-text")
        if names:
            return self._fresh(openmetrics, zipped, frozenset(names))
        samplers = self._node.samplers
        of = (samplers, [sampler.last_sample_time for sampler in samplers])
        # Scrapers that come at the same time wait for the first one's page instead of each making it.
        with self._lock:
            now = self._node.clock.monotonic()
            if of != self._of or now - self._since > LONGEST_LIFE_S:
                self._pages, self._of, self._since = {}, of, now
            key = openmetrics, zipped
            if key not in self._pages:
                self._pages[key] = self._fresh(openmetrics, zipped, None)
            return self._pages[key]

    def _fresh(self, openmetrics: bool, zipped: bool, names: Collection[str] | None) -> bytes:
        page = "".join(lines(ticks_first.between(self._registry.collect()), openmetrics, names)).encode()
        return gzip.compress(page, GZIP_LEVEL) if zipped else page


def lines(families: Iterable[Metric], openmetrics: bool = False, names: Collection[str] | None = None) -> Iterator[str]:
    """Yield the lines of families without timestamps, exemplars or native histograms; ``names`` leaves out other samples.

    The same page as prometheus_client's ``generate_latest``, but that a label set is put into text once, not once per line
    (a device's samples share theirs), and that ``_created`` samples are left to OpenMetrics, which alone knows them.
    """
    # By identity: as long as the page is put together, `kept` keeps the label sets alive.
    texts: dict[int, str] = {}
    kept: list[Mapping[str, str]] = []
    for family in families:
        samples = family.samples
        if names is not None:
            samples = [sample for sample in samples if sample.name in names]
            if not samples:
                continue
        if not openmetrics and family.type not in ("gauge", "info"):
            samples = [sample for sample in samples if not sample.name.endswith("_created")]
        yield _head(family, openmetrics)
        for name, labels, value, *_ in samples:
            text = texts.get(id(labels))
            if text is None:
                text = texts[id(labels)] = _labels(labels)
                kept.append(labels)
            number = repr(float(value))
            yield f"{name}{text} {SPECIAL.get(number, number)}\n"
    if openmetrics:
        yield "# EOF\n"


def _head(family: Metric, openmetrics: bool) -> str:
    name, kind = family.name, family.type
    if openmetrics:
        return f"# HELP {name} {_escaped(family.documentation)}\n# TYPE {name} {kind}\n"
    name += {"counter": "_total", "info": "_info"}.get(kind, "")
    help_text = family.documentation.replace("\\", r"\\").replace("\n", r"\n")
    return f"# HELP {name} {help_text}\n# TYPE {name} {TEXT_TYPES.get(kind, kind)}\n"


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join([f'{name}="{_escaped(value)}"' for name, value in sorted(labels.items())]) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
