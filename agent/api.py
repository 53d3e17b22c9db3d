"""The HTTP interface: a WSGI application over what the node reads now."""

import math
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from http import HTTPStatus
from wsgiref.types import WSGIEnvironment

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import gzip_accepted

from epochcast.agent.catalog import catalog
from epochcast.agent.exposition import MetricsPage
from epochcast.agent.node import Node
from epochcast.agent.processes import ProcessWatcher
from epochcast.agent.samples import FORMATS, SCHEMA, Selection, identity
from epochcast.agent.store import DeviceStore
from epochcast.agent.ticks_first import ticks_first
from epochcast.common.errors import InputError
from epochcast.common.routes import Answer, Query, Routes, json_answer, only_known, refusal

# Seconds without a sample after which a source is no longer healthy, regardless of its own interval.
SILENCE_S = 5.0


class Api(Routes):
    """The WSGI application: ``/metrics``, ``/api/v1/*``, ``/healthz`` (do samples flow?), ``/readyz`` (of every GPU?).

    ``processes`` sees what uses the GPUs; None while nobody looks.
    """

    def __init__(self, node: Node, registry: CollectorRegistry, processes: ProcessWatcher | None = None) -> None:
        self._node = node
        self._watcher = processes
        self._page = MetricsPage(node, registry)
        super().__init__(
            {
                "/metrics": self._metrics_page,
                "/api/v1/samples": self._samples,
                "/api/v1/metrics": self._catalog,
                "/api/v1/gpus": self._gpus,
                "/api/v1/processes": self._processes,
                "/healthz": self._health,
                "/readyz": self._readiness,
            }
        )

    def _metrics_page(self, query: Query, environ: WSGIEnvironment) -> Answer:
        zipped = gzip_accepted(environ.get("HTTP_ACCEPT_ENCODING", ""))
        page, kind = self._page.render(environ.get("HTTP_ACCEPT", ""), zipped, query.get("name[]", ()))
        return Answer(HTTPStatus.OK, kind, [page], _encoding(zipped))

    def _samples(self, query: Query, environ: WSGIEnvironment) -> Answer:
        only_known(query, "from", "to", "gpu", "metric", "format")
        start, stop = _moment(query, "from", -math.inf), _moment(query, "to", math.inf)
        if start > stop:
            raise InputError(f"'from' ({start}) is after 'to' ({stop}); swap them")
        stores = self._chosen_stores(query.get("gpu", []))
        metrics = _chosen_metrics(stores, query.get("metric", []))
        form = _single(query, "format", "json")
        if form not in FORMATS:
            raise InputError(f"unknown format {form!r}; choose {', '.join(FORMATS)}")
        kind, write = FORMATS[form]
        intervals = {uuid: source.interval for uuid, source in self._node.sources.items()}
        body = ticks_first.between(write(Selection(stores, start, stop, metrics, intervals)))
        zipped = gzip_accepted(environ.get("HTTP_ACCEPT_ENCODING", ""))
        headers = (("X-Epochcast-Schema", SCHEMA), *_encoding(zipped))
        return Answer(HTTPStatus.OK, kind, _zipped(body) if zipped else body, headers)

    def _chosen_stores(self, names: list[str]) -> list[DeviceStore]:
        stores = self._node.stores
        for name in names:
            if not any(name in (store.device.label, store.device.uuid) for store in stores):
                known = ", ".join(f"{store.device.label} ({store.device.uuid})" for store in stores)
                raise InputError(f"unknown gpu {name!r}; this agent reads {known}")
        return [store for store in stores if not names or {store.device.label, store.device.uuid} & set(names)]

    def _catalog(self, _: Query, __: WSGIEnvironment) -> Answer:
        measured = {metric.name: metric for store in self._node.stores for metric in store.device.metrics}
        rows = [asdict(metric) | {"measured": metric.name in measured} for metric in (catalog() | measured).values()]
        return json_answer({"schema": "epochcast.metrics/v1", "metrics": rows})

    def _gpus(self, _: Query, __: WSGIEnvironment) -> Answer:
        choices = {choice.uuid: choice for choice in self._node.choices}
        sources = self._node.sources
        rows = []
        for store in self._node.stores:
            source = sources.get(store.device.uuid)
            # Of a device that is gone no row is on its way.
            row = identity(store.device) | {"lag_s": source.lag if source else 0.0, "retention_s": self._node.config.retention}
            row["interval_s"] = source.interval if source else None
            attributes = self._node.static(store.device.uuid)
            row["static"] = {name: asdict(attribute) for name, attribute in attributes.items()}
            if choice := choices.get(store.device.uuid):
                row |= {"why": choice.why, "refused": dict(choice.refused)}
            rows.append(row)
        return json_answer({"schema": "epochcast.gpus/v1", "gpus": rows})

    def _processes(self, _: Query, __: WSGIEnvironment) -> Answer:
        if self._watcher is None:
            error = "processes on the GPUs are not sampled; set processes = 1 (seconds) in the configuration"
            return refusal(HTTPStatus.NOT_FOUND, error)
        return json_answer(
            {"schema": "epochcast.processes/v1", "processes": [asdict(process) for process in self._watcher.processes()]}
        )

    def _health(self, _: Query, __: WSGIEnvironment) -> Answer:
        now = self._node.clock.monotonic()
        samplers = self._node.samplers
        ages = [now - sampler.last_success for sampler in samplers if sampler.last_success is not None]
        state = {
            "source": ",".join(sampler.source.name for sampler in samplers),
            "last_reading_age_s": min(ages, default=None),
            "missed_ticks": sum(sampler.missed_ticks for sampler in samplers),
        }
        if self._node.finished:
            return json_answer({"status": "replay finished"} | state)
        if not any(age <= patience for _, age, patience in self._ages(now)):
            return json_answer({"status": "no samples"} | state, HTTPStatus.SERVICE_UNAVAILABLE)
        return json_answer({"status": "ok"} | state)

    def _readiness(self, _: Query, __: WSGIEnvironment) -> Answer:
        if self._node.finished:
            return json_answer({"status": "replay finished", "missing": []})
        ages = self._ages(self._node.clock.monotonic())
        missing = []
        for device, age in [(store.device, age) for store, age, patience in ages if age > patience]:
            why = f"no sample for {age:.1f} s" if math.isfinite(age) else "no sample yet"
            missing.append({"gpu": device.label, "uuid": device.uuid, "name": device.name, "reason": why})
        expected, present = self._node.expected, self._node.present
        # Of a GPU that has not answered since the sources were opened, nothing is known but that it should be there.
        answer: dict[str, object] = {"missing": missing, "expected": expected, "present": present}
        if failure := self._node.driver_failure:
            answer["reason"] = failure[1]
        if ages and not missing and (expected is None or present >= expected):
            return json_answer({"status": "ready"} | answer)
        status = "driver does not answer" if failure else "GPUs missing" if ages else "no GPU"
        return json_answer({"status": status} | answer, HTTPStatus.SERVICE_UNAVAILABLE)

    def _ages(self, now: float) -> list[tuple[DeviceStore, float, float]]:
        """Return each device with the age of its newest sample and how old that may be (seconds of the monotonic clock)."""
        patience = {uuid: max(SILENCE_S, source.silent_after) for uuid, source in self._node.sources.items()}
        return [(store, now - store.heard_at, patience.get(store.device.uuid, -math.inf)) for store in self._node.stores]


def _encoding(zipped: bool) -> tuple[tuple[str, str], ...]:
    return (("Vary", "Accept-Encoding"), *([("Content-Encoding", "gzip")] if zipped else []))


def _zipped(pieces: Iterable[bytes]) -> Iterator[bytes]:
    # Level 1: a tenth of what putting the numbers into text costs, and done while other threads run.
    packer = zlib.compressobj(level=1, wbits=zlib.MAX_WBITS | 16)
    for piece in pieces:
        if packed := packer.compress(piece):
            yield packed
    yield packer.flush()


def _chosen_metrics(stores: list[DeviceStore], names: list[str]) -> list[str]:
    """Return the requested metrics (none named: all), each once; a metric of only some devices applies to those."""
    measured = dict.fromkeys(metric.name for store in stores for metric in store.device.metrics)
    for name in names:
        if name not in measured:
            what = f"metric {name!r} is not measured here" if name in catalog() else f"unknown metric {name!r}"
            reasons = {store.device.unmeasured[name] for store in stores if name in store.device.unmeasured}
            why = f" ({'; '.join(sorted(reasons))})" if reasons else ""
            raise InputError(f"{what}{why}; choose from {', '.join(measured)}")
    return list(dict.fromkeys(names or measured))


def _single(query: Query, name: str, default: str) -> str:
    values = query.get(name, [default])
    if len(values) > 1:
        raise InputError(f"parameter {name!r} was given {len(values)} times; give it once")
    return values[0]


def _moment(query: Query, name: str, default: float) -> float:
    if name not in query:
        return default
    text = _single(query, name, "")
    try:
        moment = float(text)
    except ValueError:
        moment = math.nan
    if not math.isfinite(moment):
        raise InputError(f"parameter {name!r} is {text!r}; give unix seconds, as in {name}=1700000000.5")
    return moment
