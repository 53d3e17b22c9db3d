"""HTTP client of the agent: its devices and its 10 Hz samples (``/api/v1/*`` of a node's ``epochcast-agent``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
import urllib3

from epochcast.analyzer.errors import AgentError
from epochcast.analyzer.traces.trace import Trace

SAMPLES_SCHEMA = "epochcast.samples/v1"
GPUS_SCHEMA = "epochcast.gpus/v1"
_TIMEOUT_S = (2.0, 30.0)  # connect, read: the agent answers from memory; a long range is some MB of JSON
_HEALTH_TIMEOUT_S = (2.0, 2.0)  # a listener that says nothing is not an agent


@dataclass(frozen=True)
class AgentClient:
    """Talks to one agent, e.g. ``AgentClient("http://127.0.0.1:9911")``. Every method raises AgentError if it cannot."""

    url: str

    def healthy(self) -> bool:
        """True if an Epochcast agent answers there and its samples flow."""
        try:
            answer = self._get("/healthz", tries=1, timeout_s=_HEALTH_TIMEOUT_S)
        except AgentError:
            return False
        return answer.get("status") == "ok" and "last_reading_age_s" in answer  # many a service says {"status": "ok"}

    def devices(self) -> list[dict[str, Any]]:
        """The devices the agent reads.

        Each with ``label``, ``uuid``, ``name``, ``source``, ``lag_s``, ``retention_s``, ``simulated`` and ``static``.
        """
        return self._gpus("/api/v1/gpus", GPUS_SCHEMA)

    def samples(self, start: float | None = None, end: float | None = None) -> list[dict[str, Any]]:
        """All samples in [start, end) [unix s] of each device, also of one that is gone.

        Each with ``label``, ``uuid``, ``name``, ``source``, ``simulated``, ``missed_ticks``, ``time`` [unix s] and ``metrics``,
        a list by name as long as ``time``, None where there is no value.
        """
        limits = {"from": start, "to": end}
        query = {key: repr(value) for key, value in limits.items() if value is not None}
        return self._gpus("/api/v1/samples", SAMPLES_SCHEMA, query)

    def traces(self, start: float | None = None, end: float | None = None) -> dict[str, Trace]:
        """All samples in [start, end) [unix s]: device label (``0``, MIG instance ``0.7``) -> trace, possibly without rows."""
        samples = self.samples(start, end)
        static = {device["uuid"]: device["static"] for device in self.devices()}
        traces: dict[str, Trace] = {}
        for gpu in samples:
            # A device that is gone, listed after those that are there, may have been called what another is called now.
            label = gpu["label"] if gpu["label"] not in traces else f"{gpu['label']}-{gpu['uuid']}"
            frame = pd.DataFrame({"time": gpu["time"], **gpu["metrics"]}, dtype="float64")
            empty = without_samples(gpu, static.get(gpu["uuid"], {}))
            traces[label] = replace(empty, frame=frame, missed_ticks=gpu["missed_ticks"])
        return traces

    def _gpus(self, path: str, schema: str, query: dict[str, str] | None = None) -> list[dict[str, Any]]:
        answer = self._get(path, query)
        if answer.get("schema") != schema:
            raise AgentError(f"{self.url} answers with schema {answer.get('schema')!r}, not {schema!r}; upgrade one")
        return list(answer["gpus"])

    def _get(
        self, path: str, query: dict[str, str] | None = None, tries: int = 4, timeout_s: tuple[float, float] = _TIMEOUT_S
    ) -> dict[str, Any]:
        # A node's agent may be restarting; growing pauses between the tries (0.2 s, 0.4 s, 0.8 s) bridge that. No proxy for
        # the outside world sees the node's telemetry: urllib3 asks none unless it is told to.
        retries = urllib3.Retry(total=tries - 1, backoff_factor=0.2, status_forcelist=(502, 503, 504), raise_on_status=False)
        timeout = urllib3.Timeout(connect=timeout_s[0], read=timeout_s[1])
        try:
            response = urllib3.request("GET", self.url.rstrip("/") + path, fields=query, retries=retries, timeout=timeout)
        except urllib3.exceptions.HTTPError as error:
            raise AgentError(f"no agent answers at {self.url}: {type(error).__name__}") from error
        try:
            answer = response.json()
        except ValueError as error:
            raise AgentError(f"{self.url}{path} does not answer in JSON (status {response.status})") from error
        if not isinstance(answer, dict):
            raise AgentError(f"{self.url}{path} does not answer with a JSON object")
        if response.status >= 400 and path != "/healthz":
            raise AgentError(f"{self.url}{path} answers with status {response.status}: {answer.get('error')}")
        return answer


def without_samples(device: Mapping[str, Any], static: Mapping[str, Any]) -> Trace:
    """The trace of a device of `AgentClient.samples` before it has a sample or misses one."""
    return Trace(
        frame=pd.DataFrame({"time": []}, dtype="float64"),
        gpu=device["name"],
        uuid=device["uuid"],
        source=device["source"],
        simulated=device["simulated"],
        static=static,
    )
