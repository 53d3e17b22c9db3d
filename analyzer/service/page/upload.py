"""The form at which a trace or a profile is sent to see its prediction: the API's answers, as a page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fastapi import Request
from starlette.datastructures import UploadFile

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.jobs.questions import JobQuestion
from epochcast.analyzer.jobs.sources import Source
from epochcast.analyzer.service.limits import crowded
from epochcast.analyzer.service.page.job_page import RATIO_ONLY
from epochcast.analyzer.service.page.plots import interval_plot
from epochcast.analyzer.service.parts import Parts
from epochcast.analyzer.service.uploads import source_of_upload
from epochcast.analyzer.traces.known_epochs import known_epochs
from epochcast.regressor.profile_json import read_profile

_MOST_GPUS = 4096


FIELDS = {"gpu": "", "count": "1", "epoch_time": "", "name": ""}
"""Texts of the form, as they are before anything is typed; ``name``: of the file."""


async def read_form(request: Request) -> tuple[bytes, dict[str, str]]:
    """Return the file and the `FIELDS` that the form sent, not checked yet; HTTPException (400) where it is none."""
    async with request.form(max_files=1, max_fields=8) as form:
        sent = {name: value[:200] for name in FIELDS if isinstance(value := form.get(name), str)}
        file = form.get("file")
        if not isinstance(file, UploadFile):
            return b"", FIELDS | sent
        return await file.read(), FIELDS | sent | {"name": (file.filename or "")[:200]}


def form_page(parts: Parts, address: str, sent: Mapping[str, str] = FIELDS) -> dict[str, Any]:
    """Return what the template shows of the form, filled as it was ``sent``, without an answer; ``address``: of the service."""
    return {
        **sent,
        "gpu_names": sorted(parts.advisor.catalog),
        "most_bytes": f"{parts.settings.limits.body_bytes / 2**20:.3g} MiB",
        "address": address,
        "error": None,
        "answer": None,
        "ratio_only": RATIO_ONLY,
    }


def answer_page(parts: Parts, address: str, sent: Mapping[str, str], source: Source) -> dict[str, Any]:
    """Return what the template shows of the answer.

    Raises:
        InputError: nothing can be predicted from it, in one sentence.
    """
    count = _count(sent["count"])
    answer = parts.advisor.answer([source], JobQuestion(), recommend=True, gpus=count)
    return form_page(parts, address, sent) | {
        "answer": answer,
        "name": sent["name"] or "Your upload",
        "intervals": interval_plot(answer, source.gpu.name),
        "rec": answer.recommendation,
    }


def _count(text: str) -> int:
    if text.isascii() and text.isdigit() and 1 <= int(text) <= _MOST_GPUS:
        return int(text)
    raise InputError(f"the number of GPUs is {text!r:.40}; give a whole number from 1 to {_MOST_GPUS}")


def _seconds(text: str) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        raise InputError(f"the time of an epoch is {text!r}; give seconds, or nothing") from None


async def source_of_form(parts: Parts, data: bytes, sent: Mapping[str, str]) -> Source:
    """Return the source; any trace is read in a worker process: a name says nothing of a file.

    Raises:
        InputError: nothing that a prediction can start from was sent, in one sentence.
        WorkersBusyError: too many others sent something.
    """
    if not data:
        raise InputError("no file was sent; choose a trace (Parquet or CSV) or a profile (JSON)")
    gpu = sent["gpu"] or None
    if data.lstrip()[:1] == b"{":
        return _source_of_profile(parts, data, gpu)
    kind = "parquet" if data[:4] == b"PAR1" else "csv"
    known = known_epochs(_seconds(sent["epoch_time"]))
    source: Source = await parts.workers.answer(
        source_of_upload, data, kind, gpu, parts.settings.gpus, parts.settings.pipeline, known
    )
    return source


def _source_of_profile(parts: Parts, data: bytes, gpu: str | None) -> Source:
    if why := crowded(data):
        raise InputError(why)
    try:
        profile = read_profile(json.loads(data))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"the file begins like a profile but is not JSON: {error!s:.200}; send a profile or trace") from error
    return Source(name="the profile", profile=profile, gpu=parts.advisor.catalog.resolve(gpu or profile.gpu))
