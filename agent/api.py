"""The HTTP interface: a WSGI application over the sampler and its stores."""

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs
from wsgiref.types import StartResponse, WSGIEnvironment

import numpy as np
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry, make_wsgi_app

from .catalog import catalog
from .errors import InputError
from .ring import Column
from .sampler import Sampler
from .store import DeviceStore

# Seconds without a successful reading after which the agent is no longer healthy.
SILENCE_S = 5.0
# Values formatted in one go. Formatting holds the interpreter: longer pieces would make the sampler late.
PIECE = 1000
PARAMETERS = ("from", "to", "gpu", "metric", "format")

Handler = Callable[[dict[str, list[str]]], tuple[HTTPStatus, str, Iterable[bytes]]]


class Api:
    """The WSGI application: ``/metrics``, ``/api/v1/samples``, ``/api/v1/metrics``, ``/api/v1/gpus``, ``/healthz``."""

    def __init__(self, sampler: Sampler, registry: CollectorRegistry) -> None:
        self._sampler = sampler
        self._metrics_page = make_wsgi_app(registry)
        self._routes: dict[str, Handler] = {
            "/api/v1/samples": self._samples,
            "/api/v1/metrics": self._catalog,
            "/api/v1/gpus": self._gpus,
            "/healthz": self._health,
        }

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        path, method = environ.get("PATH_INFO", "/"), environ["REQUEST_METHOD"]
        if path == "/metrics":
            page: Iterable[bytes] = self._metrics_page(environ, start_response)
            return page
        handler = self._routes.get(path)
        body: Iterable[bytes]
        if handler is None:
            known = ", ".join(("/metrics", *self._routes))
            status, kind, body = _json(HTTPStatus.NOT_FOUND, {"error": f"no such path {path!r}; known: {known}"})
        elif method != "GET":
            error = f"{path} is read with GET, not {method}"
            status, kind, body = _json(HTTPStatus.METHOD_NOT_ALLOWED, {"error": error})
        else:
            try:
                status, kind, body = handler(parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True))
            except InputError as problem:
                status, kind, body = _json(HTTPStatus.BAD_REQUEST, {"error": str(problem)})
        headers = [("Content-Type", kind), ("Cache-Control", "no-store")]
        if status is HTTPStatus.METHOD_NOT_ALLOWED:
            headers.append(("Allow", "GET"))
        start_response(f"{status.value} {status.phrase}", headers)
        return body

    def _samples(self, query: dict[str, list[str]]) -> tuple[HTTPStatus, str, Iterable[bytes]]:
        unknown = sorted(set(query) - set(PARAMETERS))
        if unknown:
            raise InputError(f"unknown parameter {unknown[0]!r}; known: {', '.join(PARAMETERS)}")
        start, stop = _moment(query, "from", -math.inf), _moment(query, "to", math.inf)
        if start > stop:
            raise InputError(f"'from' ({start}) lies after 'to' ({stop}); swap them")
        stores = self._chosen_stores(query.get("gpu", []))
        metrics = self._chosen_metrics(stores, query.get("metric", []))
        form = _single(query, "format", "json")
        if form == "json":
            return HTTPStatus.OK, "application/json", self._samples_json(stores, start, stop, metrics)
        if form == "csv":
            return HTTPStatus.OK, "text/csv; charset=utf-8", self._samples_csv(stores, start, stop, metrics)
        raise InputError(f"unknown format {form!r}; choose json or csv")

    def _chosen_stores(self, names: list[str]) -> list[DeviceStore]:
        stores = self._sampler.stores
        for name in names:
            if not any(name in (str(store.device.index), store.device.uuid) for store in stores):
                known = ", ".join(f"{store.device.index} ({store.device.uuid})" for store in stores)
                raise InputError(f"unknown gpu {name!r}; this agent reads {known}")
        return [store for store in stores if not names or {str(store.device.index), store.device.uuid} & set(names)]

    def _chosen_metrics(self, stores: list[DeviceStore], names: list[str]) -> list[str] | None:
        """Return the metrics asked for, None for all; one that only some of the devices measure is theirs alone."""
        measured = dict.fromkeys(metric.name for store in stores for metric in store.device.metrics)
        for name in names:
            if name not in measured:
                what = f"metric {name!r} is not measured here" if name in catalog() else f"unknown metric {name!r}"
                raise InputError(f"{what}; source {self._sampler.source.name!r} gives {', '.join(measured)}")
        return list(dict.fromkeys(names)) or None

    def _samples_json(self, stores: list[DeviceStore], start: float, stop: float, metrics: list[str] | None) -> Iterator[bytes]:
        yield f'{{"schema":"epochcast.samples/v1","interval_s":{self._sampler.source.interval!r},"gpus":['.encode()
        for position, store in enumerate(stores):
            head = _identity(store, self._sampler.source.name) | {"missed_ticks": store.missed_ticks, "oldest": store.oldest}
            time, columns = store.samples(start, stop, _measured(store, metrics))
            yield (("," if position else "") + json.dumps(head)[:-1] + ',"time":').encode()
            yield from _array(time)
            yield b',"metrics":{'
            for number, (name, column) in enumerate(columns.items()):
                yield (("," if number else "") + json.dumps(name) + ":").encode()
                yield from _array(column)
            yield b"}}"
        yield b"]}"

    def _samples_csv(self, stores: list[DeviceStore], start: float, stop: float, metrics: list[str] | None) -> Iterator[bytes]:
        names = metrics or list(dict.fromkeys(metric.name for store in stores for metric in store.device.metrics))
        yield _csv([["gpu", "time", *names]])
        for store in stores:
            time, columns = store.samples(start, stop, _measured(store, metrics))
            rows_at_once = max(1, PIECE // (len(names) + 1))
            for first in range(0, len(time), rows_at_once):
                piece = slice(first, first + rows_at_once)
                height = len(time[piece])
                cells = [_texts(columns[name][piece], "") if name in columns else [""] * height for name in names]
                yield _csv(zip([str(store.device.index)] * height, _texts(time[piece], ""), *cells, strict=True))

    def _catalog(self, _: dict[str, list[str]]) -> tuple[HTTPStatus, str, Iterable[bytes]]:
        measured = {metric.name: metric for store in self._sampler.stores for metric in store.device.metrics}
        rows = [asdict(metric) | {"measured": metric.name in measured} for metric in (catalog() | measured).values()]
        return _json(HTTPStatus.OK, {"schema": "epochcast.metrics/v1", "metrics": rows})

    def _gpus(self, _: dict[str, list[str]]) -> tuple[HTTPStatus, str, Iterable[bytes]]:
        rows = [
            _identity(store, self._sampler.source.name)
            | {"static": {name: asdict(attribute) for name, attribute in store.device.static.items()}}
            for store in self._sampler.stores
        ]
        return _json(HTTPStatus.OK, {"schema": "epochcast.gpus/v1", "gpus": rows})

    def _health(self, _: dict[str, list[str]]) -> tuple[HTTPStatus, str, Iterable[bytes]]:
        sampler = self._sampler
        age = None if sampler.last_success is None else sampler.clock.monotonic() - sampler.last_success
        state = {"source": sampler.source.name, "last_reading_age_s": age, "missed_ticks": sampler.missed_ticks}
        if sampler.finished:
            return _json(HTTPStatus.OK, {"status": "replay finished"} | state)
        if age is None or age > SILENCE_S:
            return _json(HTTPStatus.SERVICE_UNAVAILABLE, {"status": "no samples"} | state)
        return _json(HTTPStatus.OK, {"status": "ok"} | state)


def _json(status: HTTPStatus, value: object) -> tuple[HTTPStatus, str, list[bytes]]:
    return status, "application/json", [json.dumps(value, allow_nan=False).encode()]


def _csv(rows: Iterable[Sequence[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _single(query: dict[str, list[str]], name: str, default: str) -> str:
    values = query.get(name, [default])
    if len(values) > 1:
        raise InputError(f"parameter {name!r} was given {len(values)} times; give it once")
    return values[0]


def _moment(query: dict[str, list[str]], name: str, default: float) -> float:
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


def _identity(store: DeviceStore, source: str) -> dict[str, Any]:
    device = store.device
    return {
        "index": device.index,
        "uuid": device.uuid,
        "name": device.name,
        "source": source,
        "simulated": device.simulated,
    }


def _measured(store: DeviceStore, names: list[str] | None) -> list[str] | None:
    """Return which of ``names`` this device measures, in their order."""
    if names is None:
        return None
    own = {metric.name for metric in store.device.metrics}
    return [name for name in names if name in own]


def _array(values: Column) -> Iterator[bytes]:
    """Yield a JSON array piece by piece, null for NaN."""
    yield b"["
    for first in range(0, len(values), PIECE):
        yield (("," if first else "") + ",".join(_texts(values[first : first + PIECE], "null"))).encode()
    yield b"]"


def _texts(values: Column | NDArray[np.float64], blank: str) -> list[str]:
    """Return each value in the fewest digits that restore it (a float32's 0.3 is not 0.30000001192092896)."""
    # A recorded 1e39 does not fit a float32; infinity has no JSON.
    return [blank if text in ("nan", "inf", "-inf") else text for text in values.astype(str).tolist()]
