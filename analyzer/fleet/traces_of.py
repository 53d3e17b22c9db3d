"""Which source a PATH means: a folder, an object store, or a Prometheus."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Protocol

from ... import __version__
from ..errors import InputError
from ..telemetry.settings import Place
from .gpu_history import Looking
from .one_trace import Trace
from .sources import TraceFolder

# Counts up with each change of what a trace's finding is made of: findings of another number are made anew.
_ANALYSIS = 1


class Traces(Protocol):
    """What there is to analyse; ``name``: for people."""

    name: str

    def traces(self) -> Iterator[Trace]:
        """Each trace once."""
        ...


def traces_of(
    path: str, looking: Looking, places: Mapping[str, Place], *, out: Path, config: Path | None, token_file: Path | None
) -> Traces:
    """Return the source at ``path``.

    Raises:
        InputError: nothing is there, or options do not fit it.
    """
    for option, given in (("--config", config), ("--token-file", token_file)):
        if given is not None and not path.startswith(("http://", "https://")):
            raise InputError(f"{option} is for a Prometheus, and {path!r} is none; leave it out")
    return TraceFolder(path, places=places, question=_question(looking), without=out)


def _question(looking: Looking) -> str:
    """Another one where settings would make other findings of the same trace."""
    gpus = [asdict(gpu) for gpu in looking.catalog.values()]
    told = json.dumps([_ANALYSIS, __version__, gpus, looking.since, looking.until], default=str)
    return hashlib.sha256(told.encode()).hexdigest()[:16]
