"""Prometheus' HTTP API as far as telemetry needs it: which series there are, and their raw samples."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from epochcast.analyzer.telemetry import TelemetryError
from epochcast.analyzer.telemetry.endpoint import Endpoint, RefusedError, TooLargeError
from epochcast.analyzer.telemetry.settings import PrometheusSettings
from epochcast.analyzer.traces.series import Series

SERIES, QUERY = "/api/v1/series", "/api/v1/query"
#: Of one answer: some 600,000 samples, which take ten times as much memory while they are read.
MOST_BYTES = 16 * 2**20


class TooManySamplesError(TelemetryError):
    """More than this store hands out, or than is taken at once: ask for less time."""


class PrometheusApi:
    """The API of Prometheus, VictoriaMetrics or Mimir below the address of the settings."""

    def __init__(self, settings: PrometheusSettings) -> None:
        headers = {"X-Scope-OrgID": settings.tenant} if settings.tenant else {}
        self._name = f"Prometheus {settings.url}"
        self.endpoint = Endpoint("Prometheus", settings, headers)
        self._matcher = settings.matcher

    def labels(self, names: Iterable[str], start: float, end: float) -> list[dict[str, str]]:
        """Labels of each series of one of these names that has samples about between ``start`` and ``end`` [unix s]."""
        query = [("match[]", self._selector(names, {})), ("start", f"{start:.3f}"), ("end", f"{end:.3f}")]
        series = self._data(SERIES, query)
        if not isinstance(series, list):
            raise TelemetryError(f"{self._name}{SERIES} does not answer with a list of series")
        return [_texts(labels) for labels in series if isinstance(labels, dict)]

    def newest(self, names: Iterable[str], at: float) -> list[dict[str, str]]:
        """Labels of each series of one of these names that has a value now, ``at`` [unix s]."""
        answer = self._data(QUERY, [("query", self._selector(names, {})), ("time", f"{at:.3f}")])
        return [_texts(entry["metric"]) for entry in self._result(answer, "vector")]

    def samples(self, names: Iterable[str], labels: Mapping[str, str], start: float, end: float) -> list[Series]:
        """Samples with times in ``(start, end]`` [unix s] of each series of one of these names that has these labels.

        Raises:
            TooManySamplesError: the store refuses to hand out so many, or they are more than 16 MiB of JSON.
            TelemetryError: as `Endpoint.stream`; or the store says that it did not find all.
        """
        selector = f"{self._selector(names, labels)}[{max(1, round((end - start) * 1000))}ms]"
        try:
            answer = self._data(QUERY, [("query", selector), ("time", f"{end:.3f}")])
        except TooLargeError as error:
            raise TooManySamplesError(str(error)) from error
        except RefusedError as error:
            # Prometheus: "query processing would load too many samples into memory"; VictoriaMetrics and Mimir say the like.
            if error.status in (400, 413, 422) and any(word in error.text.lower() for word in ("too many", "limit", "exceed")):
                raise TooManySamplesError(str(error)) from error
            raise
        series = []
        try:
            for entry in self._result(answer, "matrix"):
                time = np.array([moment for moment, _ in entry["values"]], dtype=np.float64)
                values = np.array([text for _, text in entry["values"]], dtype=np.float64)
                kept = time > start  # before its version 3 Prometheus' ranges hold their first moment too
                values[~np.isfinite(values)] = np.nan
                series.append(Series(_texts(entry["metric"]), time[kept], values[kept]))
        except (KeyError, TypeError, ValueError) as error:
            raise TelemetryError(f"{self._name}{QUERY} answers with invalid samples: {error!r}") from error
        return series

    def _selector(self, names: Iterable[str], labels: Mapping[str, str]) -> str:
        # Names of metrics hold nothing that a regular expression would take for something else.
        matchers = [f'__name__=~"{"|".join(names)}"']
        matchers += [f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in {**self._matcher, **labels}.items()]
        return "{" + ",".join(matchers) + "}"

    def _data(self, path: str, query: list[tuple[str, str]]) -> Any:
        try:
            answer = self.endpoint.json(path, query, form=True, most=MOST_BYTES)
        except RefusedError as error:
            raise RefusedError(_refusal_text(error), error.status, error.text) from error
        if answer.get("status") != "success":
            raise TelemetryError(f"{self._name}{path} answers: {answer.get('error', 'no status')}")
        # Notes on the query itself (Prometheus 3) say nothing about what was found.
        warnings = [str(warning) for warning in answer.get("warnings") or () if not str(warning).startswith("PromQL")]
        if answer.get("isPartial") or warnings:
            raise TelemetryError(
                f"{self._name}{path} returned only a part of its data ({'; '.join(warnings) or 'a part does not answer'})"
            )
        return answer.get("data")

    def _result(self, data: Any, kind: str) -> list[Any]:
        if not isinstance(data, dict) or data.get("resultType") != kind or not isinstance(data.get("result"), list):
            raise TelemetryError(f"{self._name}{QUERY} does not answer with a {kind}")
        return list(data["result"])


def _texts(labels: Mapping[Any, Any]) -> dict[str, str]:
    return {str(name): str(value) for name, value in labels.items()}


def _refusal_text(error: RefusedError) -> str:
    """The sentence of a refusal, with what the store itself says of it."""
    try:
        return f"{str(error).partition(': ')[0]}: {json.loads(error.text)['error']}"
    except (ValueError, KeyError, TypeError):
        return str(error)
