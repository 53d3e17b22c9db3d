"""What a Prometheus (VictoriaMetrics, Mimir, Thanos) answers to ``/api/v1/query_range``, saved as a file.

``{"status": "success", "data": {"resultType": "matrix", "result": [{"metric": {labels}, "values": [[unix s, "0.97"], …]}]}}``
"""

from __future__ import annotations

import json
import re

import numpy as np

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.logs.device_table import DeviceTable
from epochcast.analyzer.traces.logs.labelled_series import tables_of_series

_REMEDY = "save the answer of /api/v1/query_range?query=…&start=…&end=…&step=1"


def recognises(head: str) -> bool:
    """By the beginning of the answer's object."""
    return re.match(r'\s*\{\s*"(status|data|resultType)"\s*:', head) is not None


def read(text: str, name: str) -> list[DeviceTable]:
    """A table of each GPU. Raises InputError for an answer to another question, and for none."""
    from epochcast.analyzer.traces.series import Series

    try:
        answer = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{name!r} begins like a Prometheus answer but is not JSON: {error}; save the complete answer"
        ) from error
    if answer.get("status", "success") != "success":
        raise InputError(f"{name!r} is an error from Prometheus ({str(answer.get('error'))[:200]!r}); {_REMEDY}")
    data = answer.get("data", answer)
    if not isinstance(data, dict) or data.get("resultType") != "matrix":
        seen = data.get("resultType") if isinstance(data, dict) else data
        raise InputError(f"{name!r} holds {str(seen)[:60]!r}, not a matrix of samples over time; {_REMEDY}")
    series = []
    try:
        for entry in data["result"]:
            samples = np.array([(float(time), float(value)) for time, value in entry["values"]], np.float64).reshape(-1, 2)
            if not np.isfinite(samples[:, 0]).all():
                raise ValueError("an invalid time")
            samples = samples[np.argsort(samples[:, 0], kind="stable")]
            samples[~np.isfinite(samples[:, 1]), 1] = np.nan  # a division by zero, say
            labels = {str(label): str(value) for label, value in entry["metric"].items()}
            series.append(Series(labels, samples[:, 0], samples[:, 1]))
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{name!r} holds invalid samples ({error!r:.100}); {_REMEDY}") from error
    return tables_of_series(series, "prometheus", name)
